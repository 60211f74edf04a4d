"""Writes what cleaning has left of a partition anew, as one other member has it.

    here     [ rewritten, damaged ...... )[ as produced ................ )
    there    [ rewritten ............................ )[ as produced ... )
    made     [ all of the other member's ............ )  takes the place of all below its end

What cleaning leaves differs among members, so nothing below the end of either one's cleaned range
may be of two of them: a marker that one has dropped ends a transaction of which the other still has
batches. Above both ends all members have the same batches, so there nothing is taken.

The made extents are a rewritten range of the next generation, as a pass of the cleaner makes one:
they are taken over by the same step, and fit or are refused by the same rules (fitting.py). What
the other member has not cleaned yet says so in its entry, and is dirty here, too.

Every byte is checked by the checksums that come with it; one block is in memory.

Source: docs/adr/0114. It asks nobody and knows no members.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from typing import NamedTuple

from penstock.base.ids import TopicPartition
from penstock.base.ports import DiskFile
from penstock.extents.errors import ExtentError
from penstock.extents.layout import ENTRY, ENTRY_BYTES, NOT_CLEANED, Aborted, Entry, Notes
from penstock.extents.reader import Summary, batches_of, check_entry, read_block, read_summary
from penstock.extents.writer import ExtentFileWriter
from penstock.storage.errors import BadBatches
from penstock.storage.index.aborted import UNKNOWN
from penstock.storage.second_level.cleaning import rewritten_end
from penstock.storage.second_level.held import Extent
from penstock.storage.second_level.pieces import Marks
from penstock.storage.second_level.reading import ExtentPlace
from penstock.storage.second_level.split import Identity, appending

_THERE = "what another member has sent"
_ANYWHERE = 1 << 62


class ExtentPiece(NamedTuple):
    """A piece of another member's extent, with what that one says of all of it."""

    entry: bytes
    """As in the directory of its file."""
    first_offset: int
    """Of what is held of it there, inclusive."""
    end_offset: int
    """Exclusive."""
    marks: Marks
    data: bytes


class _Coming:
    """The extent whose pieces come in."""

    def __init__(self, piece: ExtentPiece, entry: Entry) -> None:
        self.piece = piece
        self.entry = entry
        self.summary: Summary | None = None
        self.next_block = 0
        self.rest = bytearray()
        """Bytes of the summary, or of the next block, that are there so far."""

    @property
    def wanted_bytes(self) -> int:
        """Bytes of the summary, or of the next block."""
        if self.summary is None:
            return self.entry.summary_bytes
        return self.summary.blocks.stored_bytes[self.next_block]

    @property
    def is_whole(self) -> bool:
        """Whether nothing of it is missing."""
        return self.summary is not None and self.next_block == self.entry.block_count

    def is_same(self, piece: ExtentPiece) -> bool:
        """Whether a piece is of this extent."""
        return piece._replace(data=b"") == self.piece._replace(data=b"")


class RangeRebuild:
    """One range that is written anew. Used off the loop, one call at a time."""

    def __init__(
        self,
        place: ExtentPlace,
        extents: Sequence[Extent],
        *,
        end_offset: int,
        unfinished: str,
        identity: Identity,
    ) -> None:
        """`extents`: all that are held of the partition. It is written to `unfinished`.

        `end_offset`: nothing below it is left as it is here.
        """
        self._place = place
        self._held_end = extents[-1].end_offset
        self._key = extents[0].entry.topic_partition
        self._generation = 1 + max(one.entry.generation for one in extents)
        self._end = max(end_offset, rewritten_end(extents))
        self._unfinished = unfinished
        self._identity = identity
        self._file: DiskFile | None = None
        self._writer: ExtentFileWriter | None = None
        self._marks: Marks | None = None
        self._coming: _Coming | None = None
        self._written_end = 0
        """Of the batches that are written, exclusive."""
        self.offset: int = extents[0].first_offset
        """Whose extent comes next, or is coming."""
        self.skip = 0
        """Bytes of it that are there."""
        self.fetched_bytes = 0

    @property
    def topic_partition(self) -> TopicPartition:
        """The partition."""
        return self._key

    def take(self, piece: ExtentPiece) -> bool:
        """Write what can be written with one more piece; return whether more are needed.

        The file's bytes are durable at the end. Waits for the disk. Raises BadBatches: these can
        not take the place of what is here; OSError.
        """
        if self._marks is None:
            self._begin(piece.marks)
        if piece.marks != self._marks:
            raise BadBatches("it has cleaned the partition again meanwhile")
        try:
            self._add(piece)
        except ExtentError as error:
            raise BadBatches(str(error)) from error
        if self.offset < self._end:
            return True
        self._finish()
        return False

    def close(self) -> None:
        """Close the file; it is not gone on with."""
        file, self._file = self._file, None
        if file is not None:
            file.close()

    def _begin(self, marks: Marks) -> None:
        self._marks = marks
        self._end = max(self._end, marks.rewritten_end)
        if self._end > self._held_end:
            reason = f"cleaned up to {self._end}, and extents end at {self._held_end} here"
            raise BadBatches(reason)
        self._file = self._place.disk.open(self._unfinished, create=True)
        self._writer = ExtentFileWriter(appending(self._file), *self._identity)

    def _finish(self) -> None:
        assert self._writer is not None
        assert self._file is not None
        self._writer.finish()
        self._file.sync()
        self.close()

    def _add(self, piece: ExtentPiece) -> None:
        coming = self._coming
        if coming is None:
            coming = self._coming = self._begin_extent(piece)
        if not coming.is_same(piece) or not piece.data:
            raise BadBatches(f"the extent at offset {self.offset} is another one by now")
        self.skip += len(piece.data)
        self.fetched_bytes += len(piece.data)
        coming.rest += piece.data
        while not coming.is_whole and len(coming.rest) >= coming.wanted_bytes:
            size = coming.wanted_bytes
            data = memoryview(bytes(coming.rest[:size]))
            del coming.rest[:size]
            self._take_part(coming, data)
        if coming.is_whole:
            self._end_extent(coming)

    def _begin_extent(self, piece: ExtentPiece) -> _Coming:
        if len(piece.entry) != ENTRY_BYTES:
            raise BadBatches(f"an entry of {len(piece.entry)} bytes")
        entry = Entry(*ENTRY.unpack(piece.entry))
        check_entry(_THERE, entry, _ANYWHERE)
        is_first = self.fetched_bytes == 0
        follows = piece.first_offset == self.offset or (
            is_first and piece.first_offset < self.offset
        )
        is_inside = entry.first_offset <= piece.first_offset < piece.end_offset <= entry.end_offset
        if entry.topic_partition != self._key or not (follows and is_inside):
            raise BadBatches(f"no extent of offset {self.offset}: {entry}")
        assert self._writer is not None
        self._writer.begin(self._key, self._generation, first_offset=piece.first_offset)
        self._written_end = piece.first_offset
        return _Coming(piece, entry)

    def _take_part(self, coming: _Coming, data: memoryview) -> None:
        """Take the summary, or the next block."""
        if coming.summary is None:
            coming.summary = read_summary(_THERE, coming.entry, lambda _, __: data)
            return
        block, coming.next_block = coming.next_block, coming.next_block + 1
        blocks, piece = coming.summary.blocks, coming.piece
        assert self._writer is not None
        read_block(_THERE, blocks, block, lambda _, __: data)
        for header, batch in batches_of(_THERE, blocks.places[block], data):
            if not piece.first_offset <= header.base_offset < min(piece.end_offset, self._end):
                continue
            if header.base_offset < self._written_end:
                raise BadBatches(f"offset {header.base_offset} after {self._written_end}")
            self._writer.add(batch)
            self._written_end = header.last_offset + 1

    def _end_extent(self, coming: _Coming) -> None:
        assert self._writer is not None
        assert coming.summary is not None
        piece, entry = coming.piece, coming.entry
        end = min(piece.end_offset, self._end)
        if coming.rest or self._written_end != end:
            raise BadBatches(f"an extent that ends at {self._written_end}, not at {end}")
        notes = _notes_of(coming.summary.notes, piece.first_offset, end)
        is_cut = end < entry.end_offset
        self._writer.end(
            notes.aborted,
            UNKNOWN if is_cut else notes.decided_end,
            epochs=notes.epochs,
            newest_horizon_ms=entry.newest_horizon_ms if entry.generation else NOT_CLEANED,
        )
        self.offset, self.skip, self._coming = end, 0, None


def _notes_of(notes: Notes, first_offset: int, end_offset: int) -> Notes:
    """Return the notes of an extent as far as they are of [first, end)."""
    starts = [start for _, start in notes.epochs]
    in_force = max(bisect_right(starts, first_offset) - 1, 0)
    count = bisect_left(starts, end_offset)
    epochs = [(epoch, max(at, first_offset)) for epoch, at in notes.epochs[in_force:count]]
    markers = notes.aborted.marker_offsets
    low, high = bisect_left(markers, first_offset), bisect_left(markers, end_offset)
    aborted = Aborted(*(column[low:high] for column in notes.aborted))
    return Notes(epochs, aborted, notes.decided_end)
