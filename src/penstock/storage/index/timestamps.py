"""Search by time: the first batch at or after a timestamp, and the batch with the largest one.

The search runs off the loop, first over the sealed indexes and then over the columns in memory.
Columns only grow, so it is enough to note on the loop how many entries they have.

The search finds batches; `examine` finds the record inside, off the loop as well. If it returns
None, because no record of the batch matches or the matching one is below the log start, the search
continues with the next batch.

Source: Kafka ListOffsets (KIP-79: first record whose timestamp is not smaller; KIP-734: -3 is the
record with the largest timestamp). Timestamps need not rise with offsets.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from penstock.base.ids import Offset, Position, TopicPartition
from penstock.base.ports import Disk
from penstock.storage.index.lookup import ClosedSegment, SealedLookup
from penstock.storage.index.partition_log import Columns
from penstock.storage.index.sealed_index import IndexEntry
from penstock.storage.read.chunk import Wanted, make_plan
from penstock.storage.read.reader import read_file
from penstock.storage.stores.port import Examine, T, TimestampHit

PIECE = 4096
"""Entries that are compared in one step, which holds the interpreter's lock for 0.1 ms."""


class InMemory(NamedTuple):
    """Columns of one segment as they were when the search began."""

    segment_base: Position
    segment_path: str
    columns: Columns
    batch_count: int


class SegmentSearch(NamedTuple):
    """A search by time over the segments, between a first offset and a limit position."""

    disk: Disk
    directory: str
    closed: Sequence[ClosedSegment]
    in_memory: Sequence[InMemory]
    topic_partition: TopicPartition
    start_offset: Offset
    limit_position: Position

    def first_at(self, timestamp_ms: int, examine: Examine[T]) -> T | None:
        """Return the first result of `examine` on batches whose largest timestamp is not smaller.

        Batches for which `examine` returns None are passed over. Waits for the disk.
        """
        for place in self._places(timestamp_ms):
            for first, timestamps in self._pieces(place):
                if max(timestamps) < timestamp_ms:
                    continue
                for entry, timestamp in enumerate(timestamps, first):
                    if timestamp < timestamp_ms:
                        continue
                    found = examine(self._hit(place, entry))
                    if found is not None:
                        return found
        return None

    def newest(self) -> TimestampHit | None:
        """Return the first batch with the largest timestamp of all. Waits for the disk."""
        best: tuple[InMemory, int] | None = None
        best_timestamp = -1
        for place in self._places(0):
            for first, timestamps in self._pieces(place):
                newest = max(timestamps)
                if newest > best_timestamp:
                    best_timestamp = newest
                    best = (place, first + timestamps.index(newest))
        return None if best is None else self._hit(*best)

    def _places(self, timestamp_ms: int) -> Iterator[InMemory]:
        """Yield the segments that may have a match, oldest first."""

        def accept(entry: IndexEntry) -> bool:
            is_kept = entry.end_offset > self.start_offset
            return is_kept and entry.max_timestamp >= timestamp_ms

        lookup = SealedLookup(self.disk, self.directory, self.closed)
        for block in lookup.blocks(self.topic_partition, accept):
            count = len(block.columns.bases)
            yield InMemory(block.segment_base, block.segment_path, block.columns, count)
        yield from self.in_memory

    def _pieces(self, place: InMemory) -> Iterator[tuple[int, list[int]]]:
        """Yield (first entry, timestamps) of a few thousand entries each, in order."""
        entries = self._entries(place)
        for first in range(entries.start, entries.stop, PIECE):
            end = min(first + PIECE, entries.stop)
            yield first, list(place.columns.timestamps[first:end])

    def _entries(self, place: InMemory) -> range:
        """Return the entries at or above the start and wholly below the limit."""
        columns = place.columns
        low = 0
        if place.batch_count and columns.bases[0] < self.start_offset:
            low = columns.entry_of(self.start_offset)
        high = min(place.batch_count, columns.first_entry_at(self.limit_position))
        return range(low, high)

    def _hit(self, place: InMemory, entry: int) -> TimestampHit:
        base_offset = Offset(place.columns.bases[entry])
        wanted = Wanted(self.topic_partition, 0, base_offset, 1, self.limit_position)
        plan = make_plan(place.columns, wanted)
        chunk = read_file(self.disk, place.segment_path, place.segment_base, plan, wanted)
        return TimestampHit(base_offset, place.columns.timestamps[entry], chunk.data)
