"""The end of a partition as a stock consumer sees it, although masters move meanwhile."""

import contextlib
import time

from confluent_kafka import Consumer, KafkaException, TopicPartition

CALL_SECONDS = 10.0
END_SECONDS = 120.0


def end_of(consumer: Consumer, topic: str, partition: int) -> int:
    """Return the offset behind the last readable record, as the consumer's isolation level has it.

    librdkafka keeps metadata that names no leader until it refreshes all of it, after minutes, and
    answers this question with _UNKNOWN_PARTITION as long. So metadata is requested before it is
    asked again. Raises KafkaException when there is no answer within END_SECONDS.
    """
    deadline = time.monotonic() + END_SECONDS
    asked = TopicPartition(topic, partition)
    while True:
        try:
            return int(consumer.get_watermark_offsets(asked, CALL_SECONDS)[1])
        except KafkaException:
            if time.monotonic() > deadline:
                raise
        time.sleep(0.2)
        with contextlib.suppress(KafkaException):
            consumer.list_topics(topic, CALL_SECONDS)


def ends_of(consumer: Consumer, topic: str, partitions: int) -> dict[int, int]:
    """Return the end of each partition from 0 to `partitions`, exclusive."""
    return {partition: end_of(consumer, topic, partition) for partition in range(partitions)}
