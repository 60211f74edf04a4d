"""An idempotent producer that blocks: each record once, in order, or an error that says so.

The idea: records gather per partition until a batch is full; full batches are delivered when
enough of them wait, everything is on `flush`. How a batch gets into the log exactly once stands in
`delivery.py`. After an error the producer takes nothing more: what was not acknowledged is for the
caller to decide on.

Source: Kafka `KafkaProducer` and `RecordAccumulator` for the habit; KIP-480 for keyless records.
It deliberately has no thread: time does not send a batch, `flush` does.
"""

import random
import time
from collections.abc import Callable
from functools import partial
from types import TracebackType
from typing import Self

from penstock.client.cluster import Cluster
from penstock.client.delivery import Delivered, Delivery, ProduceOptions
from penstock.client.errors import ClientError, RecordTooLarge
from penstock.client.partitioner import partition_for_key
from penstock.record.batch import BATCH_HEADER_BYTES
from penstock.record.build import Record, build_batch, record_bytes_max

__all__ = ["Delivered", "ProduceOptions", "Producer"]


class _Gathering:
    """The records of one partition that are not sealed yet."""

    __slots__ = ("bytes", "number", "records", "topic")

    def __init__(self, topic: str, number: int) -> None:
        self.topic, self.number = topic, number
        self.records: list[Record] = []
        self.bytes = 0


class Producer:
    """Produces through a `Cluster`, which stays the caller's. Leaving it without error flushes."""

    def __init__(
        self,
        cluster: Cluster,
        options: ProduceOptions | None = None,
        *,
        on_delivered: Callable[[Delivered], None] | None = None,
        may_create_topics: bool = False,
    ) -> None:
        """`may_create_topics` counts only where the broker is set to create topics by itself."""
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
        """Records that are in the log for good."""
        return self._delivery.acknowledged_count

    def send(
        self,
        topic: str,
        record: Record,
        *,
        partition: int | None = None,
    ) -> int:
        """Take one record; may block to deliver what was gathered before. Returns its partition.

        Raises RecordTooLarge and TopicNotFound with nothing taken, other ClientErrors from
        delivery.
        """
        self._raise_failure()
        size = record_bytes_max(record)
        limit = self._options.batch_bytes_max - BATCH_HEADER_BYTES
        if size > limit:
            self._check_alone(record)
        into = self._gathering(topic, record.key, partition)
        while into.bytes and into.bytes + size > limit:
            self._guard(partial(self._seal, into))
            into = self._gathering(topic, record.key, partition)  # another one without a key
        into.records.append(record)
        into.bytes += size
        self._gathered_bytes += size
        if self._gathered_bytes + self._delivery.waiting_bytes >= self._options.buffer_bytes_max:
            self._make_room()
        return into.number

    def _check_alone(self, record: Record) -> None:
        """A record larger than a usual batch has one of its own. Raises RecordTooLarge."""
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
        """Deliver the full batches; the others too where full ones are the smaller part."""
        if self._delivery.waiting_bytes * 2 >= self._options.buffer_bytes_max:
            self._guard(self._delivery.deliver)
        else:
            self._guard(self._deliver_all)

    def _deliver_all(self) -> None:
        for gathered in self._gathered.values():
            self._seal(gathered)
        self._delivery.deliver()

    def _guard(self, action: Callable[[], None]) -> None:
        """An error is final: it is raised again by whatever is asked of the producer next."""
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
        found = self._gathered.get((topic, number))
        if found is None:
            self._cluster.partition(topic, number)
            found = self._gathered[topic, number] = _Gathering(topic, number)
        return found

    def _seal(self, gathered: _Gathering) -> None:
        """Close the batch that is being filled; records without a key go elsewhere next."""
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
    """Return the time for records that have none of their own."""
    return time.time_ns() // 1_000_000
