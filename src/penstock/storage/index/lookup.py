"""Finding the closed segment that holds an offset or a timestamp of a partition, off the loop.

Everything here may wait for the disk and runs inside an Offload, on the closed segments as they
were when the work was submitted. An offset is found by binary search over the segments. A segment
without batches of the partition gives no direction, so the search then tries older ones. A missing
or damaged index is rebuilt from its segment on the way.

Source: docs/adr/0002.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple, TypeVar

from penstock.base.ids import Offset, Position, TopicPartition
from penstock.base.ports import Disk
from penstock.storage.commit_log.segments import index_path
from penstock.storage.errors import CorruptFile
from penstock.storage.index.aborted import (
    NO_ABORTED,
    UNKNOWN,
    Aborted,
    AbortedTransaction,
    tells_all,
)
from penstock.storage.index.partition_log import Columns
from penstock.storage.index.rebuild import rebuild_index
from penstock.storage.index.sealed_index import (
    IndexEntry,
    IndexHeader,
    Reader,
    Sealed,
    find_entry,
    read_block,
    read_directory,
    read_index_header,
)

T = TypeVar("T")


class ClosedSegment(NamedTuple):
    """The facts about a closed segment with an index that work off the loop may use."""

    base: Position
    path: str


class Block(NamedTuple):
    """The columns of one partition in one closed segment; `end_offset` is exclusive."""

    segment_base: Position
    segment_path: str
    first_offset: Offset
    end_offset: Offset
    columns: Columns
    aborted: Aborted = NO_ABORTED
    stable_end: Offset = UNKNOWN
    """Everything of the partition below it was decided when the segment closed (exclusive)."""


class SealedLookup:
    """Finds index entries in closed segments; one instance for each submitted work."""

    def __init__(self, disk: Disk, directory: str, segments: Sequence[ClosedSegment]) -> None:
        self._disk = disk
        self._directory = directory
        self._segments = segments
        self._rebuilt: dict[Position, memoryview] = {}
        """Indexes rebuilt by this look-up, by segment base."""

    def _with_index(
        self, segment: ClosedSegment, use: Callable[[str, IndexHeader, Reader], T]
    ) -> T:
        """Call `use` on the segment's index; rebuild the index if it is missing or damaged."""
        path = index_path(self._directory, segment.base)
        rebuilt = self._rebuilt.get(segment.base)
        if rebuilt is None:
            try:
                return self._try_index(path, segment, use)
            except (CorruptFile, FileNotFoundError):
                data = rebuild_index(self._disk, self._directory, segment.base, segment.path)
            rebuilt = self._rebuilt[segment.base] = memoryview(data)

        def read(position: int, length: int) -> memoryview:
            return memoryview(bytes(rebuilt[position : position + length]))

        return use(path, read_index_header(path, segment.base, read), read)

    def _try_index(
        self, path: str, segment: ClosedSegment, use: Callable[[str, IndexHeader, Reader], T]
    ) -> T:
        file = self._disk.open(path)
        try:
            return use(path, read_index_header(path, segment.base, file.read), file.read)
        finally:
            file.close()

    def directory_of(self, segment: ClosedSegment) -> list[IndexEntry]:
        """Return what the segment holds, by partition."""
        return self._with_index(segment, read_directory)

    def _entry(self, segment: ClosedSegment, wanted: TopicPartition) -> IndexEntry | None:
        return self._with_index(
            segment, lambda path, header, read: find_entry(path, header, wanted, read)
        )

    def _block(self, segment: ClosedSegment, entry: IndexEntry) -> Block:
        def block(path: str, header: IndexHeader, read: Reader) -> Sealed:
            known: IndexEntry | None = entry
            if segment.base in self._rebuilt:  # it has dropped partitions too, so places differ
                known = find_entry(path, header, entry.topic_partition, read)
            return read_block(path, known or entry, read)

        columns, end_offset, aborted, stable_end = self._with_index(segment, block)
        place = segment.base, segment.path, entry.first_offset, end_offset
        return Block(*place, columns, aborted, stable_end)

    def find(self, wanted: TopicPartition, offset: Offset) -> Block | None:
        """Return the block that holds `offset`; None when no closed segment does."""
        found = self._last_from(wanted, offset)
        if found is None or offset >= found[1].end_offset:
            return None
        return self._block(self._segments[found[0]], found[1])

    def _last_from(self, wanted: TopicPartition, offset: Offset) -> tuple[int, IndexEntry] | None:
        """Return the last segment whose first offset is not above `offset`: number and entry."""
        found: tuple[int, IndexEntry] | None = None
        low, high = 0, len(self._segments)
        while low < high:
            middle = (low + high) // 2
            probe = self._nearest_left(wanted, low, middle)
            if probe is None:
                low = middle + 1
            elif probe[1].first_offset <= offset:
                found = probe
                low = middle + 1
            else:
                high = probe[0]
        return found

    def _nearest_left(
        self, wanted: TopicPartition, low: int, start: int
    ) -> tuple[int, IndexEntry] | None:
        for at in range(start, low - 1, -1):
            entry = self._entry(self._segments[at], wanted)
            if entry is not None:
                return at, entry
        return None

    def aborted(
        self, wanted: TopicPartition, start: Offset, end: Offset, *, is_first: bool = True
    ) -> tuple[list[AbortedTransaction], bool]:
        """Return the aborted transactions that touch [start, end).

        Also whether that is all for the batches of the segment with `start`, as they were decided
        when one of the segments closed. `is_first`: whether no older store has that offset.
        """
        found: list[AbortedTransaction] = []
        first = self._last_from(wanted, start)
        for segment in self._segments[first[0] if first else 0 :]:
            entry = self._entry(segment, wanted)
            if entry is None or entry.end_offset <= start:
                continue
            if entry.aborted_count:
                block = self._block(segment, entry)
                more, may_go_on = block.aborted.overlapping(start, end)
                found += more
                if not may_go_on:
                    return found, True
            if tells_all(
                end,
                stable_end=entry.stable_end,
                end_offset=entry.end_offset,
                aborted_count=entry.aborted_count,
                is_first=is_first,
            ):
                return found, True
            is_first = False
        return found, False

    def blocks(
        self, wanted: TopicPartition, accept: Callable[[IndexEntry], bool]
    ) -> Iterator[Block]:
        """Yield the partition's blocks whose entry `accept` returns true for, oldest first."""
        for segment in self._segments:
            entry = self._entry(segment, wanted)
            if entry is not None and accept(entry):
                yield self._block(segment, entry)
