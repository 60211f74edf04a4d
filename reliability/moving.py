"""A stock client that moves records from one topic to another, with its positions, in transactions.

    source ─► consume ─► begin ─► produce to the target ─► send the positions ─► commit, or abort
                 ▲                                                                   │
                 └──────────────── go back to the committed positions ◄──────────────┘

In the end, whatever was killed: what lies before the committed position of a source's partition is
in the target once, as a consumer of committed records reads it, and nothing else is.
"""

import random
import threading
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from confluent_kafka import Consumer, KafkaException, Message, Producer, TopicPartition

SOURCE, TARGET, PLACES = "to-be-moved", "moved", 2
GROUP = "movers"
VALUES = 20_000
"""Of each partition of the source: the position is the value."""
TOGETHER_MAX = 50
ABORTED_EACH = 3
"""One of so many moves is aborted, the first among them."""
IDLE_MS = 5_000
"""When a group's coordinator has left the metadata, librdkafka (2.10 to 2.16) waits for one of its
connections to change its state, whatever the time-out of the call (its issues 5456 and 5511).
Connections that end when they are idle do that."""


@dataclass(slots=True)
class Moved:
    """What the mover heard."""

    committed: int = 0
    aborted: int = 0


def fill(bootstrap: str) -> None:
    """Write the source."""
    producer = Producer({"bootstrap.servers": bootstrap, "log_level": 0, "linger.ms": 50})
    for value in range(VALUES):
        for place in range(PLACES):
            producer.produce(SOURCE, str(value).encode(), partition=place)
        producer.poll(0)
    assert producer.flush(60) == 0


class Mover:
    """Moves until it is told to stop. An instance that can not go on is replaced by a new one."""

    def __init__(self, bootstrap: str, timeout_ms: int, call_seconds: float) -> None:
        self.moved = Moved()
        self._call_seconds = call_seconds
        common: dict[str, Any] = {"bootstrap.servers": bootstrap, "log_level": 0}
        self._of_consumer = common | {
            "group.id": GROUP,
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "isolation.level": "read_committed",
            "session.timeout.ms": 6_000,
        }
        self._of_producer = common | {
            "transactional.id": "mover",
            "transaction.timeout.ms": timeout_ms,
            "connections.max.idle.ms": IDLE_MS,
        }
        self._ended = 0
        self._random = random.Random(5)

    def run(self, stop: threading.Event) -> None:
        """Go on until told to stop."""
        while not stop.is_set():
            consumer = Consumer(self._of_consumer)
            try:
                consumer.subscribe([SOURCE])
                producer = Producer(self._of_producer)
                producer.init_transactions(self._call_seconds)
                while not stop.is_set():
                    self._some(consumer, producer)
            except KafkaException:
                stop.wait(0.2)
            finally:
                consumer.close()

    def _some(self, consumer: Consumer, producer: Producer) -> None:
        """Move some records. Raises KafkaException where the instance can not go on."""
        found = [
            one
            for one in consumer.consume(self._random.randint(1, TOGETHER_MAX), 0.3)
            if one.error() is None
        ]
        if not found:
            return
        producer.begin_transaction()
        try:
            if self._move(found, consumer, producer):
                self.moved.committed += 1
                return
        except KafkaException as failure:
            if not failure.args[0].txn_requires_abort():
                raise
            producer.abort_transaction(self._call_seconds)
        self.moved.aborted += 1
        for one in consumer.committed(consumer.assignment(), self._call_seconds):
            consumer.seek(TopicPartition(one.topic, one.partition, max(one.offset, 0)))

    def _move(self, found: list[Message], consumer: Consumer, producer: Producer) -> bool:
        """Write, with the positions, and end the transaction; returns whether it commits."""
        for one in found:
            producer.produce(TARGET, one.value(), partition=one.partition() or 0)
        positions = consumer.position(consumer.assignment())
        metadata = consumer.consumer_group_metadata()
        producer.send_offsets_to_transaction(positions, metadata, self._call_seconds)
        self._ended += 1
        if self._ended % ABORTED_EACH == 1:
            producer.abort_transaction(self._call_seconds)
            return False
        producer.commit_transaction(self._call_seconds)
        return True


def committed_positions(bootstrap: str, call_seconds: float) -> dict[int, int]:
    """Return the committed position of each partition, when no transaction is open on it."""
    settings = {"bootstrap.servers": bootstrap, "group.id": GROUP, "log_level": 0}
    consumer = Consumer(settings | {"isolation.level": "read_committed"})
    asked = [TopicPartition(SOURCE, place) for place in range(PLACES)]
    found = consumer.committed(asked, call_seconds)
    consumer.close()
    return {one.partition: max(one.offset, 0) for one in found}


def judge_moved(positions: Mapping[int, int], found: Mapping[int, Counter[str]]) -> list[str]:
    """Return what is in the target and should not be, and the reverse."""
    problems: list[str] = []
    for place, position in positions.items():
        expected = Counter(map(str, range(position)))
        missing, extra = expected - found[place], found[place] - expected
        if missing:
            problems.append(f"moved from {place} before {position} and lost: {sorted(missing)[:5]}")
        if extra:
            problems.append(f"not moved from {place} at {position}, or twice: {sorted(extra)[:5]}")
    return problems
