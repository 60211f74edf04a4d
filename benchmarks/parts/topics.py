"""Topics for a measurement: made before it, and taken away with their data after it."""

import contextlib
import itertools
from collections.abc import Iterator

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from harness.workload import create_topic

_numbers = itertools.count()


@contextlib.contextmanager
def temporary_topic(
    bootstrap: str, partitions: int = 1, config: dict[str, str] | None = None
) -> Iterator[str]:
    """Yield the name of a new topic; its log can be recycled afterwards."""
    name = f"bench-{next(_numbers)}"
    create_topic(bootstrap, name, partitions, config)
    try:
        yield name
    finally:
        admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
        with contextlib.suppress(KafkaException):
            admin.delete_topics([name])[name].result(30)
