"""Streams of a session that run until they have read what is there."""

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter

STARTS_MAX = 10
WORKER_IS_LATE = "Python worker failed to connect back"
"""Spark gives the Python process that plans a stream ten seconds to come up, and no setting makes
it more. Nothing was read by then: the stream is started again."""


def run_to_its_end(writer: "DataStreamWriter") -> "StreamingQuery":
    """Run a stream with what is there now; returns its query, which has ended."""
    from pyspark.errors import StreamingQueryException

    for _ in range(STARTS_MAX):
        query = writer.trigger(availableNow=True).start()
        try:
            query.awaitTermination()
        except StreamingQueryException as error:
            if WORKER_IS_LATE not in str(error):
                raise
        else:
            return query
    pytest.fail(f"in {STARTS_MAX} starts: {WORKER_IS_LATE}")
