"""A blocking idempotent producer: each record is written once and in order, or an error is raised.

The idea: records are collected per partition until a batch is full; full batches are delivered when
enough of them wait, and everything is delivered by `flush`. `delivery.py` writes each batch to the
log exactly once. After an error the producer accepts nothing more: the caller decides about the
records that were not acknowledged.

Source: modelled on Kafka's `KafkaProducer` and `RecordAccumulator`; KIP-480 for records without a
key. It deliberately has no thread and no linger time: batches are sent by `send` and `flush`.
"""

import random
import time
from collections.abc import Callable
from functools import partial
from types import TracebackType
from typing import Self

from penstock.client.cluster import Cluster
from penstock.client.delivery import Delivered, Delivery, OpenTransaction, ProduceOptions
from penstock.client.errors import ClientError, RecordTooLarge
from penstock.client.partitioner import partition_for_key
from penstock.record.batch import BATCH_HEADER_BYTES
from penstock.record.build import Record, build_batch, record_bytes_max

__all__ = ["Delivered", "OpenTransaction", "ProduceOptions", "Producer"]


class _Gathering:
    """The records of one partition that are not in a sealed batch yet."""

    __slots__ = ("bytes", "number", "records", "topic")

    def __init__(self, topic: str, number: int) -> None:
        self.topic, self.number = topic, number
        self.records: list[Record] = []
        self.bytes = 0


class Producer:
    """Produces through a `Cluster`, which the caller closes. As a context manager it flushes at
    the end, unless there was an error.
    """

    def __init__(
        self,
        cluster: Cluster,
        options: ProduceOptions | None = None,
        *,
        on_delivered: Callable[[Delivered], None] | None = None,
        may_create_topics: bool = False,
    ) -> None:
        """`may_create_topics` matters only if the broker's settings allow auto-creation."""
        self._cluster = cluster
        self._options = options or ProduceOptions()
        self._delivery = Delivery(cluster, self._options, on_delivered)
        self._may_create_topics = may_create_topics
        self._gathered: dict[tuple[str, int], _Gathering] = {}
        self._gathered_bytes = 0
        self._sticky: dict[str, int] = {}
        self._failure: ClientError | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is None:
            self.flush()

    @property
    def acknowledged_count(self) -> int:
        """Number of records that were acknowledged."""
        return self._delivery.acknowledged_count

    @property
    def transaction(self) -> OpenTransaction | None:
        """With a transactional id: what ends its transaction (`ending.py`), from any process; None
        as long as no batch was sealed. It has all records once `flush` has returned.
        """
        return self._delivery.transaction

    def send(
        self,
        topic: str,
        record: Record,
        *,
        partition: int | None = None,
    ) -> int:
        """Add one record and return its partition; may block to deliver earlier records.

        Raises RecordTooLarge or TopicNotFound without adding it, other ClientErrors from delivery.
        """
        self._raise_failure()
        size = record_bytes_max(record)
        limit = self._options.batch_bytes_max - BATCH_HEADER_BYTES
        if size > limit:
            self._check_alone(record)
        into = self._gathering(topic, record.key, partition)
        while into.bytes and into.bytes + size > limit:
            self._guard(partial(self._seal, into))
            into = self._gathering(topic, record.key, partition)  # may be another partition now
        into.records.append(record)
        into.bytes += size
        self._gathered_bytes += size
        if self._gathered_bytes + self._delivery.waiting_bytes >= self._options.buffer_bytes_max:
            self._make_room()
        return into.number

    def _check_alone(self, record: Record) -> None:
        """Check a record that needs a batch of its own. Raises RecordTooLarge."""
        limit = self._options.record_bytes_max or self._options.batch_bytes_max
        if record_bytes_max(record) + BATCH_HEADER_BYTES > limit:
            size = len(build_batch([record], codec=self._options.codec))
            if size > limit:
                raise RecordTooLarge(size, limit)

    def flush(self) -> None:
        """Send everything and return when all of it is acknowledged. Raises ClientError kinds."""
        self._raise_failure()
        self._guard(self._deliver_all)

    def _make_room(self) -> None:
        """Deliver the full batches, and the others too if full ones are less than half."""
        if self._delivery.waiting_bytes * 2 >= self._options.buffer_bytes_max:
            self._guard(self._delivery.deliver)
        else:
            self._guard(self._deliver_all)

    def _deliver_all(self) -> None:
        for gathered in self._gathered.values():
            self._seal(gathered)
        self._delivery.deliver()

    def _guard(self, action: Callable[[], None]) -> None:
        """Run `action`; an error is final, and is raised again by every later call."""
        try:
            action()
        except ClientError as error:
            self._failure = error
            raise

    def _raise_failure(self) -> None:
        if self._failure is not None:
            raise self._failure

    def _choose(self, topic: str, key: bytes | None) -> int:
        count = self._partition_count(topic)
        if key is not None:
            return partition_for_key(key, count)
        if topic not in self._sticky:
            self._sticky[topic] = random.randrange(count)  # noqa: S311  spreads producers
        return self._sticky[topic] % count

    def _partition_count(self, topic: str) -> int:
        return len(self._cluster.topic(topic, create=self._may_create_topics).partitions)

    def _gathering(self, topic: str, key: bytes | None, partition: int | None) -> _Gathering:
        number = self._choose(topic, key) if partition is None else partition
        gathering = self._gathered.get((topic, number))
        if gathering is None:
            self._cluster.partition(topic, number)
            gathering = self._gathered[topic, number] = _Gathering(topic, number)
        return gathering

    def _seal(self, gathered: _Gathering) -> None:
        """Seal the batch; next records without a key go to another partition (KIP-480)."""
        if not gathered.records:
            return
        topic, number = gathered.topic, gathered.number
        self._delivery.seal(topic, number, gathered.records)
        self._gathered_bytes -= gathered.bytes
        gathered.records = []
        gathered.bytes = 0
        if self._sticky.get(topic) == number:
            self._sticky[topic] = (number + 1) % self._partition_count(topic)


def now_ms() -> int:
    """Return the current time, for records without a timestamp."""
    return time.time_ns() // 1_000_000
