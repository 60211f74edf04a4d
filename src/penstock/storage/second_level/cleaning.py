"""Cleans one partition: its extents go through both passes of the cleaner, into one new file.

    extents held     [ rewritten, clean ........ )[ as produced ... )[ as produced ... )
    pass 1           the dirty ones, until the key map is full or something must not be cleaned yet
    pass 2           all up to there ─► [ rewritten )[ rewritten )     one range, in the new file

The bound of the pass is the largest decided end of the extents: every transaction that begins below
it is decided by a marker in them, and they are confirmed by the set. So it is not above the last
stable offset, and all aborted transactions that begin below it are in the notes.

The range is cut into extents of some size and some time, since retention drops whole extents. What
begins below the end of the pass and goes on above it is left where it is (held.py). Only reads
extents; for the unfinished file see split.py. Memory: the key map, and a block.

Source: docs/adr/0107 (the passes), 0108; Kafka `Cleaner.doClean`. No state of producers is looked
at: snapshots carry it, and no log is rebuilt from extents.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from penstock.base.ids import EpochStart, Offset, TopicPartition
from penstock.base.ports import Disk
from penstock.compaction.clean import CleaningPass, CleaningRules
from penstock.compaction.fill import Dirty, fill_key_map
from penstock.compaction.key_map import new_key_map, slots_for
from penstock.compaction.transactions import PassTransactions
from penstock.extents.layout import Aborted
from penstock.extents.writer import ExtentFileWriter
from penstock.record.batch import BatchHeader, read_header
from penstock.storage.second_level.held import Extent
from penstock.storage.second_level.reading import Batch, ExtentPlace, open_extent
from penstock.storage.second_level.split import Identity, appending

EXTENTS_MADE_MAX = 64
"""Of one range. Timestamps that jump would make one of each batch; beyond, size alone decides."""


class CleaningOrder(NamedTuple):
    """What to clean and by which rules."""

    topic_partition: TopicPartition
    extents: tuple[Extent, ...]
    """All that are held of the partition, oldest first."""
    now_ms: int
    newest_ms: int
    """No batch with a larger timestamp is cleaned."""
    delete_retention_ms: int
    memory_bytes: int
    """Of the key map."""
    salt: bytes
    """16 bytes, new for each pass."""
    extent_bytes: int
    """The made extents end with the batch that reaches it."""
    extent_ms: int
    """They also end where their timestamps are so far apart; 0: they do not."""

    @property
    def dirty_start(self) -> int:
        """The first offset that was not cleaned (inclusive)."""
        return clean_end(self.extents)

    @property
    def has_passed_horizon(self) -> bool:
        """Whether a delete horizon has passed that the last pass has left."""
        return 0 <= newest_horizon_ms(self.extents) <= self.now_ms


class Cleaned(NamedTuple):
    """What a pass did; no extents: nothing could be cleaned, and there is no file."""

    extents: int
    read_bytes: int
    kept_bytes: int
    dropped_records: int


NOTHING_CLEANED = Cleaned(0, 0, 0, 0)


def clean_end(extents: Sequence[Extent]) -> int:
    """Return where the last pass ended (exclusive); where the extents begin if there was none."""
    ends = [extent.end_offset for extent in extents if extent.is_cleaned]
    return ends[-1] if ends else extents[0].first_offset


def rewritten_end(extents: Sequence[Extent]) -> int:
    """Return where the last rewritten range ends (exclusive); -1 if there is none."""
    return max((extent.end_offset for extent in extents if extent.is_rewritten), default=-1)


def newest_horizon_ms(extents: Sequence[Extent]) -> int:
    """Return the last delete horizon that the last pass has left; -1 if there is none."""
    horizons = (one.entry.newest_horizon_ms for one in extents if one.is_cleaned)
    return max(horizons, default=-1)


def clean_extents(
    disk: Disk, directory: str, order: CleaningOrder, *, unfinished: str, identity: Identity
) -> Cleaned:
    """Write the file `unfinished` with what is left of a partition; its bytes are durable.

    Waits for the disk. Raises ReadFailed: an extent can not be read; CompactionError and
    RecordError kinds, OSError. The file is removed again then.
    """
    place = ExtentPlace(disk, directory)
    known = _read_notes(place, order.extents)
    transactions = PassTransactions(known.aborted)
    start = order.dirty_start
    dirty = Dirty(start, known.bound_offset, order.newest_ms)
    keys_max = known.bound_offset - start  # a record has an offset of its own
    key_map = new_key_map(slots_for(keys_max, order.memory_bytes), order.salt)
    end = fill_key_map(key_map, _batches(place, order.extents, start), dirty, transactions)
    if end == order.extents[0].first_offset or (end == start and not order.has_passed_horizon):
        return NOTHING_CLEANED
    rules = CleaningRules(
        end_offset=end, now_ms=order.now_ms, delete_retention_ms=order.delete_retention_ms
    )
    cleaning = CleaningPass(key_map, rules, transactions)
    file = disk.open(unfinished, create=True)
    try:
        writer = ExtentFileWriter(appending(file), *identity)
        _Range(order, known, cleaning, writer).write(_batches(place, order.extents, 0))
        count = len(writer.finish())
        file.sync()
    except BaseException:
        disk.remove(unfinished)
        raise
    finally:
        file.close()
    report = cleaning.report
    return Cleaned(count, report.read_bytes, report.kept_bytes, report.dropped_records)


class _Known(NamedTuple):
    """What the notes of the extents tell."""

    epochs: list[EpochStart]
    aborted: Aborted
    bound_offset: int


def _read_notes(place: ExtentPlace, extents: Sequence[Extent]) -> _Known:
    """Read the notes of all extents: of the parts of them that are held."""
    epochs: list[EpochStart] = []
    aborted: list[list[int]] = [[], [], [], []]
    bound = 0
    for extent in extents:
        with open_extent(place, extent) as opened:
            notes = opened.summary.notes
        newest = epochs[-1][0] if epochs else -1
        epochs += [
            (epoch, max(start, extent.first_offset))
            for epoch, start in notes.epochs
            if epoch > newest and start < extent.end_offset
        ]
        markers = notes.aborted.marker_offsets
        first = bisect_left(markers, extent.first_offset)
        count = bisect_left(markers, extent.end_offset)
        for column, added in zip(aborted, notes.aborted, strict=True):
            column.extend(added[first:count])
        if not extent.is_cut:
            # Of a cut one it tells what markers have decided that are gone.
            bound = max(bound, min(notes.decided_end, extent.end_offset))
    return _Known(epochs, Aborted(*aborted), bound)


def _batches(place: ExtentPlace, extents: Sequence[Extent], start: int) -> Iterator[Batch]:
    """Yield the batches from the one that holds `start` on, of what is held of the extents."""
    for extent in extents:
        if extent.end_offset <= start:
            continue
        with open_extent(place, extent) as opened:
            for header, batch in opened.batches_from(max(start, extent.first_offset)):
                if header.base_offset >= extent.end_offset:
                    break
                yield header, batch


@dataclass(slots=True)
class _Undecided:
    """The transactions that are open behind the batches that went by."""

    first_offsets: dict[int, int] = field(default_factory=dict)
    """By producer id, in the order in which they began."""

    def note(self, header: BatchHeader) -> None:
        if header.is_control:
            self.first_offsets.pop(header.producer_id, None)
        elif header.is_transactional:
            self.first_offsets.setdefault(header.producer_id, header.base_offset)

    def stable_end(self, end: int) -> int:
        return min(self.first_offsets.values(), default=end)


class _Range:
    """Writes what a pass leaves of a partition as extents that follow each other."""

    def __init__(
        self, order: CleaningOrder, known: _Known, cleaning: CleaningPass, writer: ExtentFileWriter
    ) -> None:
        self._order = order
        self._known = known
        self._cleaning = cleaning
        self._writer = writer
        self._generation = 1 + max(extent.entry.generation for extent in order.extents)
        self._undecided = _Undecided()
        self._begin = order.extents[0].first_offset
        """Where the open extent begins, or the next one will."""
        self._begin_ms: int | None = None
        """The first timestamp of the open extent; None if none is open."""
        self._made = 0

    def write(self, batches: Iterator[Batch]) -> None:
        """Write all that is left of `batches`."""
        end = self._begin
        for before, left in self._cleaning.clean(self._noted(batches)):
            batch = memoryview(left)
            header = before if type(left) is memoryview else read_header(batch)
            if self._begin_ms is None:
                key = self._order.topic_partition
                self._writer.begin(key, self._generation, first_offset=self._begin)
                self._begin_ms = header.max_timestamp
            self._writer.add(batch, header)
            end = Offset(header.last_offset + 1)
            if self._is_full(header):
                self._end(end)
        if self._begin_ms is not None:
            self._end(end)

    def _noted(self, batches: Iterator[Batch]) -> Iterator[Batch]:
        for one in batches:
            self._undecided.note(one[0])
            yield one

    def _is_full(self, header: BatchHeader) -> bool:
        order = self._order
        if self._writer.extent_bytes >= order.extent_bytes:
            return True
        assert self._begin_ms is not None
        is_apart = 0 < order.extent_ms <= header.max_timestamp - self._begin_ms
        return is_apart and self._made < EXTENTS_MADE_MAX

    def _end(self, end: Offset) -> None:
        left = self._cleaning.aborted_left(self._known.aborted)
        first = bisect_left(left.marker_offsets, self._begin)
        count = bisect_left(left.marker_offsets, end)
        self._writer.end(
            Aborted(*(column[first:count] for column in left)),
            self._undecided.stable_end(end),
            epochs=self._epochs(end),
            newest_horizon_ms=self._cleaning.report.newest_horizon_ms,
        )
        self._made += 1
        self._begin, self._begin_ms = end, None

    def _epochs(self, end: int) -> list[EpochStart]:
        """Return the epochs of [begin, end), the first of which is in force where it begins."""
        starts = [start for _, start in self._known.epochs]
        first = max(bisect_right(starts, self._begin) - 1, 0)
        count = bisect_left(starts, end)
        return [
            (epoch, max(start, self._begin)) for epoch, start in self._known.epochs[first:count]
        ]
