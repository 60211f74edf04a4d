"""Reads in extent files, off the loop: batches from an offset on, by time, and ends of epochs.

    extents, oldest first ─► summary of one ─► blocks from an offset or a time on ─► batches

All of it works on extents as they were when the work was submitted; a file is not removed while
such work may use it (store.py). An extent that can not be read is ReadFailed, with its file named;
where its file is damaged, ExtentDamaged.

Source: docs/adr/0103; extents/reader.py has the checks.
"""

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

from penstock.base.ids import EpochStart, LeaderEpoch, Offset
from penstock.base.ports import Disk, DiskFile
from penstock.extents.errors import ExtentError
from penstock.extents.reader import Summary, batches_of, read_block, read_summary
from penstock.record.batch import BatchHeader
from penstock.storage.errors import ExtentDamaged, ReadFailed
from penstock.storage.index.aborted import UNKNOWN, Aborted
from penstock.storage.read.chunk import NO_MORE, Chunk
from penstock.storage.read.regions import PIECES_MAX
from penstock.storage.second_level.held import Extent
from penstock.storage.second_level.manifest import extent_path
from penstock.storage.stores.port import Decided, EpochEnd, Examine, T, TimestampHit

Batch = tuple[BatchHeader, memoryview]


class ExtentPlace(NamedTuple):
    """Where the extent files of a log are."""

    disk: Disk
    directory: str


class OpenExtent(NamedTuple):
    """An extent whose file is open."""

    path: str
    file: DiskFile
    extent: Extent
    summary: Summary

    def batches(self, block: int) -> Iterator[Batch]:
        """Yield the batches of one block."""
        blocks = self.summary.blocks
        data = read_block(self.path, blocks, block, self.file.read)
        return batches_of(self.path, blocks.places[block], data)

    def batches_from(self, offset: int) -> Iterator[Batch]:
        """Yield the batches from the one that holds `offset` on, a block at a time."""
        first = self.summary.blocks.block_of(offset)
        for block in range(first, self.extent.entry.block_count):
            yield from (one for one in self.batches(block) if one[0].last_offset >= offset)


@contextmanager
def open_extent(place: ExtentPlace, extent: Extent) -> Iterator[OpenExtent]:
    """Open the file of an extent and read its summary. Waits; raises ReadFailed, within too."""
    path = extent_path(place.directory, extent.file_number)
    try:
        file = place.disk.open(path)
        try:
            summary = read_summary(path, extent.entry, file.read)
            yield OpenExtent(path, file, extent, summary)
        finally:
            file.close()
    except (ExtentError, FileNotFoundError) as error:
        raise ExtentDamaged(extent.file_number, str(error)) from error
    except OSError as error:
        raise ReadFailed(str(error)) from error


def read_chunk(
    place: ExtentPlace, extent: Extent, offset: int, max_bytes: int, limit: int
) -> Chunk:
    """Return whole batches of one extent, which holds `offset`, below `limit` (exclusive).

    The first is the one with the offset, or the next one. At least one, else as many as fit. Where
    a rewritten extent has none below the limit, its next one is the first: it is decided too, and a
    reader that got nothing would ask for the same offset for ever.
    """
    found: list[memoryview] = []
    size, first_offset = 0, offset
    next_offset: int = extent.end_offset
    limit = min(limit, next_offset)
    with open_extent(place, extent) as opened:
        for header, batch in opened.batches_from(offset):
            is_above = header.base_offset >= limit and (found or not extent.is_rewritten)
            is_full = size + len(batch) > max_bytes or len(found) >= PIECES_MAX
            if is_above or (found and is_full):
                next_offset = header.base_offset
                break
            first_offset = first_offset if found else header.base_offset
            found.append(batch)
            size += len(batch)
    if not found:
        return Chunk([], 0, offset, NO_MORE if next_offset >= limit else next_offset)
    chunk = Chunk([memoryview(b"".join(found))], size, first_offset, next_offset)
    chunk.count = len(found)
    return chunk


def find_epoch_end(
    place: ExtentPlace, extents: Sequence[Extent], leader_epoch: LeaderEpoch
) -> EpochEnd | None:
    """Return the newest epoch up to `leader_epoch` in the extents of a partition, and its end.

    None: all batches are newer. Reads the summaries of log2 of the extents.
    """
    low, high = 0, len(extents)
    best: EpochEnd | None = None
    while low < high:
        middle = (low + high) // 2
        epochs = _epochs_of(place, extents[middle])
        if epochs[0][0] > leader_epoch:
            high = middle
            continue
        older = [one for one in epochs if one[0] <= leader_epoch]
        newer = epochs[len(older) :]
        if newer:
            return EpochEnd(LeaderEpoch(older[-1][0]), Offset(newer[0][1]))
        best = EpochEnd(LeaderEpoch(older[-1][0]), Offset(extents[middle].end_offset))
        low = middle + 1
    return best


def _epochs_of(place: ExtentPlace, extent: Extent) -> Sequence[EpochStart]:
    with open_extent(place, extent) as opened:
        return [one for one in opened.summary.notes.epochs if one[1] < extent.end_offset]


def read_decided(place: ExtentPlace, extents: Sequence[Extent]) -> Iterator[Decided]:
    """Yield what the markers in each extent have decided."""
    for extent in extents:
        with open_extent(place, extent) as opened:
            notes = opened.summary.notes
        # What a marker behind the cut decided is open again, or decided by another one elsewhere.
        first = bisect_left(notes.aborted.marker_offsets, extent.first_offset)
        count = bisect_left(notes.aborted.marker_offsets, extent.end_offset)
        aborted = Aborted(*(column[first:count] for column in notes.aborted))
        decided_end = UNKNOWN if extent.is_cut else notes.decided_end
        yield Decided(extent.end_offset, aborted, decided_end)


class ExtentSearch(NamedTuple):
    """A search by time in extents of one partition, between log start and limit."""

    place: ExtentPlace
    extents: Sequence[Extent]
    start_offset: int
    limit: int

    def first_at(self, timestamp_ms: int, examine: Examine[T]) -> T | None:
        """Return the first result of `examine`; see TimeSearch."""
        for extent in self.extents:
            if extent.max_timestamp < timestamp_ms:
                continue
            for hit in self._hits(extent, timestamp_ms):
                found = examine(hit)
                if found is not None:
                    return found
        return None

    def newest(self) -> TimestampHit | None:
        """Return the first batch with the largest timestamp; see TimeSearch."""
        best: TimestampHit | None = None
        for extent in self.extents:
            newest = -1 if best is None else best.max_timestamp
            if extent.max_timestamp <= newest:
                continue
            for hit in self._hits(extent, newest + 1):
                if best is None or hit.max_timestamp > best.max_timestamp:
                    best = hit
        return best

    def _hits(self, extent: Extent, timestamp_ms: int) -> Iterator[TimestampHit]:
        """Yield the batches between start and limit that have a time not before `timestamp_ms`."""
        limit = min(self.limit, extent.end_offset)
        start = max(self.start_offset, extent.first_offset)
        with open_extent(self.place, extent) as opened:
            for block, newest in enumerate(opened.summary.blocks.max_timestamps):
                if newest < timestamp_ms:
                    continue
                for header, batch in opened.batches(block):
                    is_here = start <= header.last_offset < limit
                    if is_here and header.max_timestamp >= timestamp_ms:
                        offset = Offset(header.base_offset)
                        yield TimestampHit(offset, header.max_timestamp, batch)
