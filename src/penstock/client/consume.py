"""Reading records of several partitions, up to given offsets or without end.

The idea: every leader has one connection and at most one Fetch request under way, for all of its
partitions, and the broker holds the request until there are records (long poll). `select` shows
which answers have arrived. Partitions take turns at being first in a request, so that none starves.

Source: modelled on Kafka's `Fetcher`. It deliberately joins no group and commits nothing, and there
is no order between partitions.
"""

import select
import time
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

from penstock.client.admin import EARLIEST, LATEST, Admin
from penstock.client.cluster import Cluster, Retries
from penstock.client.connection import Connection
from penstock.client.errors import ClientError, OffsetOutOfRange, UnreadableRecords
from penstock.client.fetch import (
    FetchedPartition,
    FetchOptions,
    FetchWant,
    check_fetched,
    encode_fetch,
    parse_fetch,
)
from penstock.protocol.api_keys import ApiKey
from penstock.protocol.error_codes import ErrorCode
from penstock.record.batch import BatchHeader
from penstock.record.committed import committed_pieces
from penstock.record.errors import UnreadableBatch
from penstock.record.read import DecodedRecord, iter_batches, run_end, whole_batch

__all__ = ["EARLIEST", "LATEST", "STREAM_OPTIONS", "ConsumedRecord", "RecordStream", "positions_at"]

Partition = tuple[str, int]
STREAM_OPTIONS = FetchOptions(partition_bytes_max=1 << 20)
"""Smaller than for one partition alone, since there may be many."""


class ConsumedRecord(NamedTuple):
    """A record and where it came from."""

    topic: str
    partition: int
    record: DecodedRecord


def positions_at(admin: Admin, topic: str, time_ms: int) -> dict[Partition, int]:
    """Return for each partition the offset at a time, EARLIEST or LATEST.

    If no record is that late, it is the end of the partition.
    """
    offsets = admin.list_offsets(topic, time_ms)
    ends = admin.list_offsets(topic, LATEST) if any(o.offset < 0 for o in offsets.values()) else {}
    return {
        (topic, partition): at.offset if at.offset >= 0 else ends[partition].offset
        for partition, at in offsets.items()
    }


class RecordStream:
    """Records of several partitions; iterate once. `positions` are updated, to go on from later.

    Stops when all `ends` (exclusive offsets) are reached; without `ends` only when no record comes
    for `idle_ms`, if set. Control batches are skipped, and with `is_committed_only` of the options
    all records of transactions that are open or were aborted. Survives restarts and moves of
    leaders. A batch whose records cannot be read is given to `on_unreadable` and skipped; without
    it UnreadableRecords is raised once all records before it were yielded. `on_wait` is called
    before each wait for answers, about once in `wait_ms` of the options; what it raises ends the
    stream.
    Raises OffsetOutOfRange, TopicNotFound, RequestTimedOut, BrokerError, UnreadableRecords.
    """

    def __init__(  # noqa: PLR0913  from where to where, and who is told
        self,
        cluster: Cluster,
        positions: Mapping[Partition, int],
        *,
        ends: Mapping[Partition, int] | None = None,
        idle_ms: int | None = None,
        options: FetchOptions | None = None,
        on_unreadable: Callable[[UnreadableRecords], None] | None = None,
        on_wait: Callable[[], None] = lambda: None,
    ) -> None:
        self._on_unreadable, self._on_wait = on_unreadable, on_wait
        self.positions = dict(positions)
        self._cluster = cluster
        self._ends = ends
        self._idle_ms = idle_ms
        self._options = options or STREAM_OPTIONS
        self._connections: dict[int, Connection] = {}
        self._asked: dict[int, dict[Partition, int]] = {}

    def __iter__(self) -> Iterator[ConsumedRecord]:
        retries = Retries(self._cluster.settings, "consuming")
        last_record = time.monotonic()
        try:
            while self._wanted():
                try:
                    answers = self._poll()
                except OffsetOutOfRange:
                    raise
                except ClientError as error:
                    self._drop_all()
                    retries.pause_or_raise(error)
                    continue
                retries.restart()
                for fetched in answers:
                    for record in self._records(fetched):
                        last_record = time.monotonic()
                        yield record
                if self._is_idle_since(last_record):
                    return
        finally:
            self._drop_all()

    def _is_idle_since(self, moment: float) -> bool:
        return self._idle_ms is not None and time.monotonic() > moment + self._idle_ms / 1000

    def _wanted(self) -> list[Partition]:
        """Return the partitions that are not at their end."""
        if self._ends is None:
            return list(self.positions)
        ends = self._ends
        return [key for key, position in self.positions.items() if position < ends.get(key, 0)]

    def _poll(self) -> list[FetchedPartition]:
        """Send a request to every leader without one under way, and receive arrived answers."""
        self._ask_all()
        self._on_wait()
        waiting = {self._connections[leader].fileno(): leader for leader in self._asked}
        poll = select.poll()
        for descriptor in waiting:
            poll.register(descriptor, select.POLLIN)
        ready = poll.poll(self._options.wait_ms + self._cluster.settings.request_timeout_ms)
        # If no answer came, receive from one leader: that raises what is wrong.
        leaders = [waiting[descriptor] for descriptor, _ in ready] or list(self._asked)[:1]
        return [fetched for leader in leaders for fetched in self._receive(leader)]

    def _ask_all(self) -> None:
        busy = {key for asked in self._asked.values() for key in asked}
        by_leader: dict[int, list[Partition]] = {}
        for key in self._wanted():
            if key not in busy:
                by_leader.setdefault(self._cluster.leader(*key), []).append(key)
        for leader, partitions in by_leader.items():
            if leader not in self._asked:
                self._ask(leader, partitions)

    def _ask(self, leader: int, partitions: list[Partition]) -> None:
        connection = self._connections.get(leader)
        if connection is None:
            connection = self._connections[leader] = self._cluster.open_connection(leader)
        version = connection.version(ApiKey.FETCH)
        asked = {key: self.positions[key] for key in partitions}
        wants = [FetchWant(topic, number, at) for (topic, number), at in asked.items()]
        connection.send(ApiKey.FETCH, version, encode_fetch(version, wants, self._options))
        self._asked[leader] = asked

    def _receive(self, leader: int) -> list[FetchedPartition]:
        connection = self._connections[leader]
        frame, at = connection.receive(wait_ms=self._options.wait_ms)
        asked = self._asked.pop(leader)
        answers = parse_fetch(connection.version(ApiKey.FETCH), frame, at)
        known = [fetched for fetched in answers if (fetched.topic, fetched.partition) in asked]
        for fetched in known:
            self._check(fetched, asked[fetched.topic, fetched.partition])
        return known

    def _check(self, fetched: FetchedPartition, offset: int) -> None:
        if fetched.error is not ErrorCode.NONE:
            self._cluster.forget(fetched.topic)
        check_fetched(fetched, offset)

    def _records(self, fetched: FetchedPartition) -> Iterator[ConsumedRecord]:
        """Yield records from the position on, and move it; the partition becomes the last one."""
        key = fetched.topic, fetched.partition
        position = self.positions.pop(key)
        self.positions[key] = position
        end = None if self._ends is None else self._ends.get(key)
        for header, batch in self._batches(fetched):
            if header.last_offset < position:
                continue
            for record in () if header.is_control else self._whole(key, header, batch):
                if record.offset < self.positions[key]:
                    continue
                if end is not None and record.offset >= end:
                    self.positions[key] = end
                    return
                self.positions[key] = record.offset + 1
                yield ConsumedRecord(fetched.topic, fetched.partition, record)
            self.positions[key] = header.last_offset + 1
        # The last ones may be of aborted transactions.
        self.positions[key] = max(self.positions[key], run_end(fetched.data, position))

    def _batches(self, fetched: FetchedPartition) -> Iterator[tuple[BatchHeader, memoryview]]:
        """Yield the batches without those of aborted transactions, which are told if asked for."""
        try:
            for piece in committed_pieces(fetched.data, fetched.aborted):
                yield from iter_batches(piece)
        except UnreadableBatch as error:  # a marker: what is behind it can not be told apart
            raise UnreadableRecords(fetched.topic, fetched.partition, error) from error

    def _whole(self, key: Partition, header: BatchHeader, batch: memoryview) -> list[DecodedRecord]:
        try:
            return whole_batch(header, batch)
        except UnreadableBatch as error:
            unreadable = UnreadableRecords(*key, error)
            if self._on_unreadable is None:
                raise unreadable from error
            self._on_unreadable(unreadable)
            return []

    def _drop_all(self) -> None:
        for connection in self._connections.values():
            connection.close()
        self._connections.clear()
        self._asked.clear()
        for topic, _ in self.positions:
            self._cluster.forget(topic)
