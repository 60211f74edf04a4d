"""What the second level holds of each partition: in memory, 24 bytes for each extent.

    extents of a partition      [ 0 .. 900 ) [ 900 .. 2,000 ) [ 2,000 .. 2,400 )     without a gap
    each is an entry            of the directory of some file, which is kept as its bytes
    a rewritten range           [ 0 .. 1,400 ) stands in the place of all that ends at or below its
                                end; of [ 900 .. 2,000 ) there are offsets 1,400 to 2,000 then

Source: docs/adr/0103; the columns are as those of index/partition_log.py.
"""

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple

from penstock.base.ids import Offset, TopicPartition
from penstock.extents.layout import ENTRY, NOT_CLEANED, Entry
from penstock.storage.second_level.held_files import HeldFiles, file_of, place_of
from penstock.storage.stores.port import Held


class Extent(NamedTuple):
    """One extent of a partition, and the file that has it. A piece in the sense of rules.py."""

    file_number: int
    entry: Entry
    first_offset: Offset
    """Inclusive; above that of the entry if a rewritten range stands in place of its beginning."""
    end_offset: Offset
    """Exclusive; below that of the entry if the partition was cut."""

    @property
    def is_rewritten(self) -> bool:
        """Whether batches may be missing: it is of a range that was cleaned."""
        return self.entry.generation > 0

    @property
    def is_cleaned(self) -> bool:
        """Whether a pass of the cleaner has gone over it."""
        return self.is_rewritten and self.entry.newest_horizon_ms != NOT_CLEANED

    @property
    def is_cut(self) -> bool:
        """Whether the file has batches that do not count."""
        return self.end_offset < self.entry.end_offset

    @property
    def max_timestamp(self) -> int:
        """Largest timestamp, ms."""
        return self.entry.max_timestamp

    @property
    def batch_bytes(self) -> int:
        """Bytes of the batches, those that were cut included."""
        return self.entry.batch_bytes


class _Extents:
    """The extents of one partition, oldest first; each begins where the one before ends."""

    __slots__ = ("bytes_before", "end_offsets", "first_offset", "places")

    def __init__(self, first_offset: int) -> None:
        self.first_offset = first_offset
        self.end_offsets = array("q")
        self.places = array("Q")
        """File number and number of the entry in its directory."""
        self.bytes_before = array("Q", (0,))
        """Bytes of the batches of all extents before; one more than extents."""

    def put(self, entry: Entry, place: int) -> list[int]:
        """Put an extent in the place of those that end in its range; return their places.

        One that only begins in the range has from now on what lies behind it.
        """
        low = bisect_right(self.end_offsets, entry.first_offset)
        high = bisect_right(self.end_offsets, entry.end_offset)
        if low == 0:
            self.first_offset = min(self.first_offset, entry.first_offset)
        gone = list(self.places[low:high])
        sizes = [after - before for before, after in pairwise(self.bytes_before[low:])]
        sizes[: high - low] = [entry.batch_bytes]
        self.places[low:high] = array("Q", (place,))
        self.end_offsets[low:high] = array("q", (entry.end_offset,))
        del self.bytes_before[low + 1 :]
        for size in sizes:
            self.bytes_before.append(self.bytes_before[-1] + size)
        return gone


class HeldExtents:
    """Extents by partition, and the files that have them."""

    def __init__(self) -> None:
        self._partitions: dict[TopicPartition, _Extents] = {}
        self.files = HeldFiles()

    def follows(self, entry: Entry) -> bool:
        """Return whether an extent begins where the partition's last one ends, or is its first."""
        held = self._partitions.get(entry.topic_partition)
        return held is None or held.end_offsets[-1] == entry.first_offset

    def add(self, file_number: int, directory: bytes) -> list[int]:
        """Take all extents of a file at once; return the files of which none is left by that."""
        return [number for gone in self.adding(file_number, directory) for number in gone]

    def adding(self, file_number: int, directory: bytes) -> Iterator[list[int]]:
        """Take the extents of a file, which is the newest, one with each step.

        A partition whose extent here does not follow what is held begins anew with it: its log
        start is behind the older ones, which retention has not dropped yet. A rewritten one takes
        the place of what is held of its range. Yields the numbers of the files of which no extent
        is left by that; they are forgotten.
        """
        for number in range(self.files.add(file_number, directory)):
            place = place_of(file_number, number)
            entry = self.files.entry(place)
            key = entry.topic_partition
            gone = [] if self._has_place(entry) else self.drop_before(key, None)
            held = self._partitions.get(key)
            if held is None:
                held = self._partitions[key] = _Extents(entry.first_offset)
            self.files.take(place)
            yield gone + self.files.let_go(held.put(entry, place))

    def _has_place(self, entry: Entry) -> bool:
        """Whether an extent follows what is held, or is rewritten and begins in it."""
        held = self._partitions.get(entry.topic_partition)
        is_inside = held is not None and held.end_offsets[-1] > entry.first_offset
        return self.follows(entry) or (entry.generation > 0 and is_inside)

    def in_file(self, file_number: int) -> Iterator[tuple[int, Extent | None]]:
        """Yield, with each step, the number of an entry of a file, and what is held of it."""
        number = 0
        while number < self.files.extent_count(file_number):
            entry = self.files.entry(place_of(file_number, number))
            held, at = self._place_of(entry, file_number)
            yield number, None if held is None else self._extent(held, at)
            number += 1

    def _place_of(self, entry: Entry, file_number: int) -> tuple[_Extents | None, int]:
        """Return the extents of a partition, and which of them is that of a file at `entry`."""
        held = self._partitions.get(entry.topic_partition)
        if held is None:
            return None, 0
        # A rewritten range may stand in the place of its beginning.
        for at in range(bisect_right(held.end_offsets, entry.first_offset), len(held.places)):
            if file_of(held.places[at]) == file_number:
                return held, at
            if held.end_offsets[at] >= entry.end_offset:
                break
        return None, 0

    def missing_in(self, file_number: int, directory: bytes) -> Iterator[Extent | None]:
        """Yield, with each step, an extent that is held of a file and not in another directory."""
        there: dict[TopicPartition, tuple[int, int]] = {}
        for fields in ENTRY.iter_unpack(directory):
            entry = Entry(*fields)
            there[entry.topic_partition] = entry.first_offset, entry.end_offset
            yield None
        for _, extent in self.in_file(file_number):
            if extent is None:
                yield None
                continue
            offsets = extent.entry.first_offset, extent.end_offset
            is_there = there.get(extent.entry.topic_partition) == offsets
            yield None if is_there else extent

    def replacing(self, old: int, new: int, directory: bytes) -> Iterator[list[int]]:
        """Take the extents of file `new` for those of file `old`, one with each step.

        All that is held of the old file is in the new one, with the same offsets. Yields the
        numbers of the files of which no extent is left by that; they are forgotten.
        """
        for number in range(self.files.add(new, directory)):
            place = place_of(new, number)
            entry = self.files.entry(place)
            self.files.take(place)
            held, at = self._place_of(entry, old)
            if held is None:
                yield self.files.let_go([place])
                continue
            more = entry.batch_bytes - self._extent(held, at).batch_bytes
            before, held.places[at] = held.places[at], place
            for later in range(at + 1, len(held.bytes_before) if more else 0):
                held.bytes_before[later] += more
            yield self.files.let_go([before])

    def held(self, key: TopicPartition) -> Held | None:
        """Return the offsets from the oldest extent to the end of the newest."""
        held = self._partitions.get(key)
        if held is None:
            return None
        return Held(Offset(held.first_offset), Offset(held.end_offsets[-1]))

    def partitions(self) -> list[TopicPartition]:
        """Return the partitions with extents."""
        return list(self._partitions)

    def of(self, key: TopicPartition, start: int = 0, end: int | None = None) -> Iterator[Extent]:
        """Yield the extents of a partition that overlap offsets [start, end), oldest first.

        They must not change meanwhile.
        """
        held = self._partitions.get(key)
        if held is None:
            return
        for at in range(bisect_right(held.end_offsets, start), len(held.places)):
            extent = self._extent(held, at)
            if end is not None and extent.first_offset >= end:
                return
            yield extent

    def _extent(self, held: _Extents, at: int) -> Extent:
        place = held.places[at]
        first_offset = held.end_offsets[at - 1] if at else held.first_offset
        offsets = Offset(first_offset), Offset(held.end_offsets[at])
        return Extent(file_of(place), self.files.entry(place), *offsets)

    def size_bytes(self, key: TopicPartition, start: int, end: int) -> int:
        """Return the bytes of the batches of extents that overlap offsets [start, end)."""
        held = self._partitions.get(key)
        if held is None or end <= held.first_offset:
            return 0
        low = bisect_right(held.end_offsets, start)
        high = min(bisect_left(held.end_offsets, end) + 1, len(held.end_offsets))
        return held.bytes_before[high] - held.bytes_before[low] if low < high else 0

    def cut(self, key: TopicPartition, end_offset: int) -> list[int]:
        """Hold nothing of a partition from `end_offset` on, the end of a batch.

        Returns the numbers of the files of which no extent is left; they are forgotten.
        """
        held = self._partitions.get(key)
        if held is None or held.end_offsets[-1] <= end_offset:
            return []
        if end_offset <= held.first_offset:
            return self.drop_before(key, None)
        count = bisect_left(held.end_offsets, end_offset) + 1
        gone = held.places[count:]
        del held.places[count:], held.end_offsets[count:], held.bytes_before[count + 1 :]
        held.end_offsets[-1] = end_offset
        return self.files.let_go(gone)

    def drop_before(self, key: TopicPartition, offset: int | None) -> list[int]:
        """Drop the extents of a partition that end at or below `offset`; None: all of them.

        Returns the numbers of the files of which no extent is left; they are forgotten.
        """
        held = self._partitions[key]
        count = len(held.places)
        if offset is not None:
            count = bisect_right(held.end_offsets, offset)
        if count == len(held.places):
            del self._partitions[key]
        elif count:
            held.first_offset = held.end_offsets[count - 1]
            del held.end_offsets[:count], held.bytes_before[:count]
        gone = held.places[:count]
        del held.places[:count]
        return self.files.let_go(gone)
