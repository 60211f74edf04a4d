"""Reading records of several partitions, to an end or for ever.

The idea: every leader has one connection and at most one Fetch request under way, for all of its
partitions, and the broker holds the request until there is something (long poll). `select` says
whose answer has come. Partitions take turns in standing first in a request, so that none starves.

Source: Kafka `Fetcher` for the habit. It deliberately joins no group and commits nothing, and gives
no order between partitions.
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
from penstock.record.errors import UnreadableBatch
from penstock.record.read import DecodedRecord, iter_batches, whole_batch

__all__ = ["EARLIEST", "LATEST", "ConsumedRecord", "RecordStream", "positions_at"]

Partition = tuple[str, int]


class ConsumedRecord(NamedTuple):
    """A record and where it came from."""

    topic: str
    partition: int
    record: DecodedRecord


def positions_at(admin: Admin, topic: str, time_ms: int) -> dict[Partition, int]:
    """Return for each partition the offset at a time, EARLIEST or LATEST.

    Where no record is that late, it is the end of the partition.
    """
    found = admin.list_offsets(topic, time_ms)
    ends = admin.list_offsets(topic, LATEST) if any(o.offset < 0 for o in found.values()) else {}
    return {
        (topic, partition): at.offset if at.offset >= 0 else ends[partition].offset
        for partition, at in found.items()
    }


class RecordStream:
    """Iterate once. Positions are kept up to date, so that a caller can go on from them.

    With `ends` (exclusive offsets) it stops when all are reached, without it never, unless nothing
    comes for `idle_ms`. Control batches are stepped over. Survives restarts and moves of leaders.
    A batch whose records can not be read is given to `on_unreadable` and left out; without it the
    iteration ends there, when all records before were yielded.
    Raises OffsetOutOfRange, TopicNotFound, RequestTimedOut, BrokerError, UnreadableRecords.
    """

    def __init__(
        self,
        cluster: Cluster,
        positions: Mapping[Partition, int],
        *,
        ends: Mapping[Partition, int] | None = None,
        idle_ms: int | None = None,
        options: FetchOptions | None = None,
        on_unreadable: Callable[[UnreadableRecords], None] | None = None,
    ) -> None:
        self._on_unreadable = on_unreadable
        self.positions = dict(positions)
        self._cluster = cluster
        self._ends = ends
        self._idle_ms = idle_ms
        self._options = options or FetchOptions(partition_bytes_max=1 << 20)
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
                for found in answers:
                    for one in self._records(found):
                        last_record = time.monotonic()
                        yield one
                if self._is_idle_since(last_record):
                    return
        finally:
            self._drop_all()

    def _is_idle_since(self, moment: float) -> bool:
        return self._idle_ms is not None and time.monotonic() > moment + self._idle_ms / 1000

    def _wanted(self) -> list[Partition]:
        """Partitions that are not at their end."""
        if self._ends is None:
            return list(self.positions)
        ends = self._ends
        return [one for one in self.positions if self.positions[one] < ends.get(one, 0)]

    def _poll(self) -> list[FetchedPartition]:
        """Ask every leader that is not asked already, and take the answers that are there."""
        self._ask_all()
        waiting = {self._connections[one].fileno(): one for one in self._asked}
        poll = select.poll()
        for descriptor in waiting:
            poll.register(descriptor, select.POLLIN)
        ready = poll.poll(self._options.wait_ms + self._cluster.settings.request_timeout_ms)
        # With nothing ready, receive from one of them: it tells what is wrong.
        leaders = [waiting[one] for one, _ in ready] or list(self._asked)[:1]
        return [found for leader in leaders for found in self._receive(leader)]

    def _ask_all(self) -> None:
        busy = {one for asked in self._asked.values() for one in asked}
        by_leader: dict[int, list[Partition]] = {}
        for one in self._wanted():
            if one not in busy:
                by_leader.setdefault(self._cluster.leader(*one), []).append(one)
        for leader, partitions in by_leader.items():
            if leader not in self._asked:
                self._ask(leader, partitions)

    def _ask(self, leader: int, partitions: list[Partition]) -> None:
        connection = self._connections.get(leader)
        if connection is None:
            connection = self._connections[leader] = self._cluster.open_connection(leader)
        version = connection.version(ApiKey.FETCH)
        asked = {one: self.positions[one] for one in partitions}
        wants = [FetchWant(topic, number, at) for (topic, number), at in asked.items()]
        connection.send(ApiKey.FETCH, version, encode_fetch(version, wants, self._options))
        self._asked[leader] = asked

    def _receive(self, leader: int) -> list[FetchedPartition]:
        connection = self._connections[leader]
        frame, at = connection.receive(wait_ms=self._options.wait_ms)
        asked = self._asked.pop(leader)
        found = parse_fetch(connection.version(ApiKey.FETCH), frame, at)
        known = [one for one in found if (one.topic, one.partition) in asked]
        for one in known:
            self._check(one, asked[one.topic, one.partition])
        return known

    def _check(self, found: FetchedPartition, offset: int) -> None:
        if found.error is not ErrorCode.NONE:
            self._cluster.forget(found.topic)
        check_fetched(found, offset)

    def _records(self, found: FetchedPartition) -> Iterator[ConsumedRecord]:
        """Yield the records from the position on, and move it; the partition goes to the back."""
        key = found.topic, found.partition
        position = self.positions.pop(key)
        self.positions[key] = position
        end = None if self._ends is None else self._ends.get(key)
        for header, batch in iter_batches(found.data):
            if header.last_offset < position:
                continue
            for record in () if header.is_control else self._whole(key, header, batch):
                if record.offset < self.positions[key]:
                    continue
                if end is not None and record.offset >= end:
                    self.positions[key] = end
                    return
                self.positions[key] = record.offset + 1
                yield ConsumedRecord(found.topic, found.partition, record)
            self.positions[key] = header.last_offset + 1

    def _whole(self, key: Partition, header: BatchHeader, batch: memoryview) -> list[DecodedRecord]:
        try:
            return whole_batch(header, batch)
        except UnreadableBatch as error:
            found = UnreadableRecords(*key, error)
            if self._on_unreadable is None:
                raise found from error
            self._on_unreadable(found)
            return []

    def _drop_all(self) -> None:
        for connection in self._connections.values():
            connection.close()
        self._connections.clear()
        self._asked.clear()
        for topic, _ in self.positions:
            self._cluster.forget(topic)
