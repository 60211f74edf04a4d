"""The sink's writers without Spark: tasks by number and attempt, as Spark would run them."""

import json
from collections.abc import Sequence
from pathlib import Path
from unittest import mock

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import WriterCommitMessage
from pyspark.sql.types import BinaryType, StructField, StructType

from penstock.spark.exactly_once.written import Written
from penstock.spark.options import sink_options
from penstock.spark.sink import BatchWriter, StreamWriter

SCHEMA = StructType([StructField("value", BinaryType()), StructField("key", BinaryType())])
Writer = StreamWriter | BatchWriter


class Query:
    """A query with a checkpoint that writes to one topic; each driver makes its own writer."""

    def __init__(self, checkpoint: Path, bootstrap: str, topic: str, **options: str) -> None:
        self.checkpoint = checkpoint
        checkpoint.mkdir(exist_ok=True)
        (checkpoint / "metadata").write_text(json.dumps({"id": f"query-of-{topic}"}))
        self.prefix = f"penstock-spark-query-of-{topic}-"
        self._options = {"bootstrap": bootstrap, "topic": topic, "brokertimeout": "20s", **options}

    def writer(self, **options: str) -> StreamWriter:
        """What Spark makes before the tasks of a batch, and again for its commit or abort."""
        given = self._options | {"checkpointLocation": str(self.checkpoint)} | options
        return StreamWriter(sink_options(given, streaming=True), SCHEMA)

    def batch_writer(self) -> BatchWriter:
        options = sink_options(self._options, streaming=False)
        return BatchWriter(options, SCHEMA, overwrite=False)


def run_task(writer: Writer, partition: int, values: Sequence[bytes], attempt: int = 0) -> Written:
    """Run one task as a Spark worker does, up to its message."""
    columns = [pa.array(values, pa.binary()), pa.nulls(len(values), pa.binary())]
    batch = pa.RecordBatch.from_arrays(columns, ["value", "key"])
    context = object.__new__(TaskContext)
    context._partitionId, context._attemptNumber = partition, attempt
    with mock.patch.object(TaskContext, "_taskContext", context):
        message = writer.write(iter([batch]))
    assert isinstance(message, Written)
    return message


def run_tasks(writer: Writer, *rows: Sequence[bytes]) -> list[WriterCommitMessage | None]:
    """Run a task for each of the rows given, and return the messages of a job that has ended."""
    return [run_task(writer, partition, values) for partition, values in enumerate(rows)]
