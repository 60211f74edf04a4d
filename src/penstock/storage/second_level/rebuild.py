"""Writes a damaged extent file anew: of its own bytes what is whole, of other members' the rest.

    extents that are held of the file, in its order
        block whole  ─► copied
        block bad    ─► Missing ─► batches of another member, up to the block's end, same checksum
        summary bad  ─► Missing ─► all batches of the extent; counts and times as the directory says

The new file has what is held of the old one, and nothing that retention or a cut has dropped. A
batch of another member is taken where its own CRC agrees and it follows the one before. It is the
batch that was here: below the confirm position all members have the same bytes, as long as nobody
has rewritten them. An extent that was rewritten here is refused: what another member's cleaning
has left of the range is not what this one's has.

Source: docs/adr/0109. It asks nobody and knows no members.
"""

from collections.abc import Generator, Sequence
from typing import NamedTuple

from crc32c import crc32c

from penstock.base.ids import TopicPartition
from penstock.base.ports import DiskFile
from penstock.extents.errors import CorruptExtentFile, ExtentError
from penstock.extents.layout import NO_ABORTED, Aborted
from penstock.extents.reader import Summary, batches_of, read_block, read_summary
from penstock.extents.writer import ExtentFileWriter
from penstock.record.batch import BatchHeader
from penstock.record.errors import RecordError
from penstock.record.marker import NOTHING_OPEN, read_marker
from penstock.storage.errors import BadBatches, RangeRewritten
from penstock.storage.index.aborted import UNKNOWN
from penstock.storage.second_level.held import Extent
from penstock.storage.second_level.manifest import extent_path
from penstock.storage.second_level.reading import ExtentPlace
from penstock.storage.second_level.split import Identity, appending

BYTES_PER_STEP = 4 << 20
"""Copied in one call: a few milliseconds of a thread that shares the interpreter with the loop."""


class Missing(NamedTuple):
    """Batches that another member has to give: the one that begins at `start_offset`, and more."""

    topic_partition: TopicPartition
    start_offset: int
    """Inclusive."""
    end_offset: int
    """Exclusive."""


class _Filled:
    """What has come of one missing range."""

    def __init__(self, start_offset: int) -> None:
        self.end_offset = start_offset
        self.crc = 0
        self.batch_count = 0
        self.batch_bytes = 0
        self.times = (0, -1)
        """Base timestamp of the first batch, largest timestamp of all, ms."""
        self.aborted: list[list[int]] = [[], [], [], []]

    def add(self, header: BatchHeader, batch: memoryview) -> None:
        """Take the next batch into account."""
        self.end_offset = header.last_offset + 1
        self.crc = crc32c(batch, self.crc)
        self.batch_count += 1
        self.batch_bytes += len(batch)
        first_ms, newest_ms = self.times
        if self.batch_count == 1:
            first_ms, newest_ms = header.base_timestamp, header.max_timestamp
        self.times = first_ms, max(newest_ms, header.max_timestamp)
        if header.is_control:
            self._note_marker(header, batch)

    def _note_marker(self, header: BatchHeader, batch: memoryview) -> None:
        """Note what a marker has aborted; what was still open then is not known."""
        try:
            marker = read_marker(batch)
        except RecordError:
            return  # a control record of another kind
        if marker is None or marker.is_commit or marker.first_offset == NOTHING_OPEN:
            return
        row = header.producer_id, marker.first_offset, header.base_offset, UNKNOWN
        for column, value in zip(self.aborted, row, strict=True):
            column.append(value)


Steps = Generator[Missing | None, memoryview, None]


class Rebuild:
    """One file that is written anew. Used off the loop, one call at a time."""

    def __init__(
        self,
        place: ExtentPlace,
        file_number: int,
        extents: Sequence[Extent],
        *,
        unfinished: str,
        identity: Identity,
    ) -> None:
        """`extents`: what is held of the file. It is written to `unfinished`."""
        self._place = place
        self._path = extent_path(place.directory, file_number)
        self._extents = extents
        self._unfinished = unfinished
        self._identity = identity
        self._steps: Steps | None = None
        self.copied_bytes = 0
        """Of own batches."""
        self.fetched_bytes = 0
        """Of other members' batches."""

    def go_on(self, batches: memoryview | None = None) -> Missing | bool:
        """Write the next part. Returns what is missing, or whether there is more to do.

        `batches` answers what was missing; they may be fewer than asked for. The file's bytes are
        durable at the end. Waits for the disk. Raises BadBatches: not the batches that were asked
        for; RangeRewritten; OSError.
        """
        try:
            if self._steps is None:
                self._steps = self._writing()
                step = next(self._steps)
            elif batches is None:
                step = next(self._steps)
            else:
                step = self._steps.send(batches)
        except StopIteration:
            return False
        return True if step is None else step

    def close(self) -> None:
        """Close the files; it is not gone on with."""
        if self._steps is not None:
            self._steps.close()

    def _writing(self) -> Steps:
        target = self._place.disk.open(self._unfinished, create=True)
        try:
            writer = ExtentFileWriter(appending(target), *self._identity)
            source = self._open_source()
            try:
                for extent in self._extents:
                    yield from self._write_extent(source, writer, extent)
            finally:
                if source is not None:
                    source.close()
            writer.finish()
            target.sync()
        finally:
            target.close()

    def _open_source(self) -> DiskFile | None:
        try:
            return self._place.disk.open(self._path)
        except OSError:
            return None

    def _write_extent(
        self, source: DiskFile | None, writer: ExtentFileWriter, extent: Extent
    ) -> Steps:
        entry = extent.entry
        if entry.generation:
            raise RangeRewritten(f"what is here of {entry.topic_partition} was cleaned")
        writer.begin(entry.topic_partition)
        summary = self._summary(source, extent)
        if summary is None or source is None:
            yield from self._fill_extent(writer, extent)
            return
        blocks = summary.blocks
        ends = [*blocks.first_offsets[1:], entry.end_offset]
        for block, (start, end) in enumerate(zip(blocks.first_offsets, ends, strict=True)):
            if start >= extent.end_offset:
                break
            batches = self._block(source, summary, block)
            if batches is None:
                filled = _Filled(start)
                yield from self._fill(writer, extent, filled, min(end, extent.end_offset))
                if end <= extent.end_offset and filled.crc != blocks.checksums[block]:
                    raise BadBatches(f"offsets [{start}, {end}) are others than they were here")
                continue
            for header, batch in batches:
                if header.base_offset < extent.end_offset:
                    writer.add(batch)
                    self.copied_bytes += len(batch)
            if block % (BYTES_PER_STEP >> 20) == 0:
                yield None
        _end(writer, extent, summary)

    def _summary(self, source: DiskFile | None, extent: Extent) -> Summary | None:
        if source is None:
            return None
        try:
            return read_summary(self._path, extent.entry, source.read)
        except (ExtentError, OSError):
            return None

    def _block(
        self, source: DiskFile, summary: Summary, block: int
    ) -> list[tuple[BatchHeader, memoryview]] | None:
        """Return the batches of a block; None if it is damaged."""
        at = summary.blocks.places[block]
        try:
            data = read_block(self._path, summary.blocks, block, source.read)
            return list(batches_of(self._path, at, data))
        except (ExtentError, OSError):
            return None

    def _fill_extent(self, writer: ExtentFileWriter, extent: Extent) -> Steps:
        """Write an extent of which only the directory's entry is known."""
        entry, filled = extent.entry, _Filled(extent.entry.first_offset)
        yield from self._fill(writer, extent, filled, extent.end_offset)
        said = entry.batch_count, entry.batch_bytes, (entry.first_timestamp, entry.max_timestamp)
        found = filled.batch_count, filled.batch_bytes, filled.times
        if not extent.is_cut and found != said:
            raise BadBatches(f"they are {found}, and {said} were here")
        writer.end(Aborted(*filled.aborted), UNKNOWN)

    def _fill(self, writer: ExtentFileWriter, extent: Extent, filled: _Filled, end: int) -> Steps:
        """Write other members' batches from where `filled` ends up to offset `end`."""
        key = extent.entry.topic_partition
        while filled.end_offset < end:
            data = yield Missing(key, filled.end_offset, end)
            before = filled.end_offset
            try:
                for header, batch in batches_of("what another member has sent", 0, data):
                    if header.base_offset >= end:
                        break
                    if header.base_offset != filled.end_offset or header.last_offset >= end:
                        raise BadBatches(f"offset {header.base_offset} after {filled.end_offset}")
                    writer.add(batch)
                    filled.add(header, batch)
            except CorruptExtentFile as error:
                raise BadBatches(str(error)) from error
            if filled.end_offset == before:
                raise BadBatches("there are none")
            self.fetched_bytes += len(data)


def _end(writer: ExtentFileWriter, extent: Extent, summary: Summary) -> None:
    """End an extent with the notes that it had, as far as they are of what is held of it."""
    notes = summary.notes
    if not extent.is_cut:
        writer.end(notes.aborted, notes.decided_end)
        return
    columns: Sequence[Sequence[int]] = notes.aborted
    kept = [
        at for at, marker in enumerate(notes.aborted.marker_offsets) if marker < extent.end_offset
    ]
    aborted = Aborted(*([column[at] for at in kept] for column in columns)) if kept else NO_ABORTED
    writer.end(aborted, UNKNOWN)
