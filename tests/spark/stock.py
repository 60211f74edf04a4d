"""What a stock consumer of committed records reads."""

import uuid
from collections import Counter
from collections.abc import Mapping

from confluent_kafka import Consumer, TopicPartition

WAIT_SECONDS = 120.0
"""For what hangs."""


def read_committed(
    bootstrap: str, topic: str, partitions: int = 1, login: Mapping[str, object] | None = None
) -> Counter[bytes | None]:
    """Count the values of a topic, from its first record to its last stable offset."""
    consumer = Consumer(
        {
            **(login or {}),
            "bootstrap.servers": bootstrap,
            "group.id": uuid.uuid4().hex,
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
            "enable.auto.commit": False,
        }
    )
    try:
        consumer.assign([TopicPartition(topic, number, 0) for number in range(partitions)])
        return _read(consumer, partitions)
    finally:
        consumer.close()


def _read(consumer: Consumer, partitions: int) -> Counter[bytes | None]:
    values: Counter[bytes | None] = Counter()
    ended: set[int | None] = set()
    while len(ended) < partitions:
        message = consumer.poll(WAIT_SECONDS)
        assert message is not None, f"no end of the partitions but {ended}"
        error = message.error()
        if error is None:
            values[message.value()] += 1
        else:
            assert error.name() == "_PARTITION_EOF", error
            ended.add(message.partition())
    return values
