"""The stores of a log behind its commit log, as one.

    offset below the commit log's start ─► the newest store that has it, up to where a newer begins

Without such stores this code is not used: the log starts are then the commit log's own.

Source: docs/adr/0068-a-partition-is-a-sequence-over-stores.md; KIP-405 for the order. It does not
know how a store keeps its batches.
"""

from collections.abc import Iterable, Iterator
from itertools import chain
from typing import NamedTuple

from penstock.base.errors import PlatformError
from penstock.base.ids import LeaderEpoch, Offset, Position
from penstock.storage.errors import CorruptLog, ReadFailed
from penstock.storage.index.partition_log import PartitionLog
from penstock.storage.read.chunk import Chunk
from penstock.storage.read.needs_disk import NeedsDisk
from penstock.storage.stores.port import (
    Decided,
    EpochEnd,
    EpochEndFound,
    Examine,
    OlderStore,
    Stores,
    T,
    TimeSearch,
    TimestampHit,
)


class SearchInOrder(NamedTuple):
    """One search by time over several stores, the oldest first."""

    searches: list[TimeSearch]

    def first_at(self, timestamp_ms: int, examine: Examine[T]) -> T | None:
        """Return the first match in the order of offsets."""
        for search in self.searches:
            found = search.first_at(timestamp_ms, examine)
            if found is not None:
                return found
        return None

    def newest(self) -> TimestampHit | None:
        """Return the first batch with the largest timestamp of all stores."""
        best: TimestampHit | None = None
        for search in self.searches:
            hit = search.newest()
            if hit is not None and (best is None or hit.max_timestamp > best.max_timestamp):
                best = hit
        return best


class OlderStores:
    """The stores that have what the commit log released. `stores` are given newest first."""

    def __init__(self, stores: Stores = ()) -> None:
        self.stores = tuple(stores)
        self.released_position = Position(0)
        """Everything that the commit log has released lies below this position and is confirmed.
        A read with a lower limit comes from a caller that does not know that yet: it returns an
        empty chunk."""

    def load(self) -> None:
        """Let every store read its files. Waits for the disk."""
        for store in self.stores:
            store.load()

    def cut(self, partitions: Iterable[PartitionLog]) -> None:
        """Let no store have more of a partition than the log. Waits for the disk."""
        for store in self.stores:
            ends = {
                one.topic_partition: one.log_end_offset
                for one in partitions
                if (held := store.held(one.topic_partition)) is not None
                and held.end_offset > one.log_end_offset
            }
            if ends:
                store.cut(ends)

    def read(
        self, partition: PartitionLog, offset: Offset, max_bytes: int, limit_position: Position
    ) -> Chunk | NeedsDisk:
        """Read below the commit log's start; see SetLog.read.

        Raises ReadFailed if no store has the offset.
        """
        if limit_position < self.released_position:
            return Chunk([], 0, offset)
        for store, start, end in self._parts(partition):
            if start <= offset < end:
                return store.read(partition, offset, max_bytes, end)
        raise ReadFailed(f"no store has offset {offset} of {partition.topic_partition}")

    def _parts(self, partition: PartitionLog) -> list[tuple[OlderStore, Offset, Offset]]:
        """Return (store, start, end) of the offsets to read from each, the newest store first."""
        end = partition.commit_log_start_offset
        parts = []
        for store in self.stores:
            held = store.held(partition.topic_partition)
            if held is not None and held.start_offset < end:
                parts.append((store, held.start_offset, min(end, held.end_offset)))
                end = held.start_offset
        return parts

    def search(
        self, partition: PartitionLog, commit_log: TimeSearch, limit_position: Position
    ) -> TimeSearch:
        """Return a search by time over all stores; `commit_log` is the search of the newest."""
        if limit_position < self.released_position:
            return commit_log
        searches = [store.search(partition, end) for store, _, end in self._parts(partition)]
        return SearchInOrder([*reversed(searches), commit_log]) if searches else commit_log

    def find_epoch_end(
        self, partition: PartitionLog, leader_epoch: LeaderEpoch, done: EpochEndFound
    ) -> None:
        """Search the stores, newest first; see PartitionStore."""
        parts = iter(self._parts(partition))

        def ask_next() -> None:
            part = next(parts, None)
            if part is None:
                done(None, None)
                return
            store, _, limit = part

            def found(end: EpochEnd | None, error: PlatformError | None) -> None:
                if end is not None:
                    done(end._replace(end_offset=min(end.end_offset, limit)), None)
                elif error is not None:
                    done(None, error)
                else:
                    ask_next()

            store.find_epoch_end(partition, leader_epoch, found)

        ask_next()

    def decided(self, partition: PartitionLog, start: Offset) -> Iterator[Decided]:
        """Return what older stores tell of transactions from `start` on, in order; see OlderStore.

        Nothing where the commit log has that offset itself.
        """
        parts = [part for part in self._parts(partition) if start < part[2]]
        if start >= partition.commit_log_start_offset:
            parts = []
        return chain.from_iterable(
            [store.decided(partition, max(start, first), end) for store, first, end in parts[::-1]]
        )

    def size_bytes(self, partition: PartitionLog) -> int:
        """Return the bytes that are kept of a partition below the commit log's start."""
        start, key = partition.log_start_offset, partition.topic_partition
        return sum(store.size_bytes(key, start, end) for store, _, end in self._parts(partition))

    def held_start(self, partition: PartitionLog) -> Offset | None:
        """Return the first offset that a store has of the partition; None if none has any."""
        held = [store.held(partition.topic_partition) for store in self.stores]
        return min((one.start_offset for one in held if one is not None), default=None)

    def may_take_over(self, partition: PartitionLog, offset: Offset) -> bool:
        """Return whether the commit log may release what lies below `offset`."""
        for store in self.stores:
            held = store.held(partition.topic_partition)
            if held is not None:
                begins = held.start_offset <= partition.commit_log_start_offset
                return begins and offset <= held.end_offset
        return False

    @property
    def are_used(self) -> bool:
        """Whether a store has, or has ever had, batches that the commit log may have released."""
        return any(store.is_used for store in self.stores)

    def released(self, position: Position) -> None:
        """Note that the commit log has released batches that end below `position`."""
        self.released_position = max(self.released_position, position)

    def check(self, directory: str, partition: PartitionLog) -> None:
        """Check at a start that the stores are contiguous from the log start on.

        Raises CorruptLog: a store lost batches, or has batches that the log does not know.
        """
        key = partition.topic_partition
        ends = [held.end_offset for store in self.stores if (held := store.held(key))]
        if max(ends, default=0) > partition.log_end_offset:
            reason = f"a store has {key} up to offset {max(ends)}"
            raise CorruptLog(directory, 0, f"{reason}, the log to {partition.log_end_offset}")
        start = self.start_offset(partition)
        if start > partition.log_start_offset:
            reason = f"no store has offsets {partition.log_start_offset} to {start} of {key}"
            raise CorruptLog(directory, 0, reason)

    def start_offset(self, partition: PartitionLog) -> Offset:
        """Return the first offset from which the stores have the partition without a gap."""
        start = partition.commit_log_start_offset
        for _, first, end in self._parts(partition):
            if end < start:
                break
            start = first
        return start
