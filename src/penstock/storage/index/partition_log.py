"""One partition of a shared commit log, with its index of the active segment.

The part that a consumer sees is PartitionView (stores/view.py). The index has four columns with
one entry per batch, oldest first:

    bases       base offset
    positions   position of the frame in the log
    sizes       bytes of the batch, without the frame header
    timestamps  largest timestamp of the batch

`array.array` columns cost 28 bytes per batch and can be searched by `bisect` as they are; a closed
segment's index file holds the same columns, so that the same searches work on a piece of the file.
What its markers abort is kept beside them (aborted.py). A partition without batches in the active
segment shares one empty column and costs next to nothing.

Source: Kafka's offset index and time index, RocketMQ's consume queue; ours has every batch.
"""

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from typing import NamedTuple

from penstock.base.ids import Offset, Position, TopicPartition
from penstock.frames.frames import FRAME_HEADER_BYTES, frame_key
from penstock.record.batch import CONTROL, BatchHeader
from penstock.record.marker import NOTHING_OPEN, read_marker
from penstock.storage.index.aborted import NO_ABORTED, new_aborted
from penstock.storage.index.producers import ProducerStates
from penstock.storage.stores.view import PartitionView

EMPTY = array("q")
"""Stands for all four columns of an idle partition; never appended to."""


class Columns(NamedTuple):
    """Index entries of one partition in one segment; arrays, or views on an index file."""

    bases: Sequence[int]
    positions: Sequence[int]
    sizes: Sequence[int]
    timestamps: Sequence[int]

    def entry_of(self, offset: Offset) -> int:
        """Return the entry that holds `offset`, which must not be below the first base offset."""
        return bisect_right(self.bases, offset) - 1

    def first_entry_at(self, position: Position) -> int:
        """Return the first entry whose frame does not end at or below `position`."""
        entry = bisect_left(self.positions, position)
        if entry > 0:
            before = entry - 1
            end = self.positions[before] + FRAME_HEADER_BYTES + self.sizes[before]
            if end > position:
                return before
        return entry


class PartitionLog(PartitionView):
    """One partition, and its batches in the commit log. Only the log changes it."""

    __slots__ = (
        "aborted",
        "aborted_side_count",
        "bases",
        "frame_key",
        "is_dirty",
        "is_dropped",
        "positions",
        "side_count",
        "size_bytes",
        "sized_from",
        "sizes",
        "timestamps",
        "told_start",
    )

    def __init__(
        self, topic_partition: TopicPartition, serial: int, states: ProducerStates
    ) -> None:
        super().__init__(topic_partition, serial, states)
        self.frame_key = frame_key(topic_partition)
        self.told_start = 0
        """The largest log start in frames of this log, as far as it was read since it was opened.
        Members go by it; retention raises the log start of one member further."""
        self.size_bytes = 0
        """Bytes of the partition's batches in the commit log; bytes below its start are subtracted
        by the next retention pass."""
        self.sized_from = Position(0)
        """Segments below this position are no longer counted in `size_bytes`."""
        self.is_dirty = False
        """Whether the log has listed the partition as changed since the last snapshot."""
        self.is_dropped = False
        """Whether it was dropped: no further snapshot names it."""
        self.side_count = 0
        """Number of entries of the columns that the side file already has."""
        self.bases = self.positions = self.sizes = self.timestamps = EMPTY
        self.aborted = NO_ABORTED
        """Of the markers in the active segment."""
        self.aborted_side_count = 0
        """Number of these that the side file already has."""

    def tell_log_start(self, offset: Offset) -> None:
        """Take a log start that a frame tells: all members go by it."""
        self.told_start = max(self.told_start, offset)
        self.raise_log_start(offset)

    @property
    def columns(self) -> Columns:
        """The index of the active segment."""
        return Columns(self.bases, self.positions, self.sizes, self.timestamps)

    def open_columns(self) -> None:
        """Create the partition's columns, before its first batch in a segment."""
        self.bases = array("q")
        self.positions = array("q")
        self.sizes = array("i")
        self.timestamps = array("q")

    def take_columns(self) -> Columns:
        """Return the columns of the closing segment, and begin with empty ones."""
        columns = self.columns
        self.bases = self.positions = self.sizes = self.timestamps = EMPTY
        self.aborted = NO_ABORTED
        self.side_count = self.aborted_side_count = 0
        self.is_dirty = False
        return columns

    def add_transactional(
        self, header: BatchHeader, base_offset: Offset, position: Position, batch: memoryview
    ) -> None:
        """Record a transactional batch, or a marker, whose frame begins at `position`.

        The log end offset lies behind it already. Raises CorruptBatch for what is no marker.
        """
        serial, transactions = self.serial, self.producers.states.transactions
        if not header.attributes & CONTROL:
            transactions.begin(serial, header.producer_id, base_offset, position)
            self.producers.record(header, base_offset)
            return
        marker = read_marker(batch)
        if marker is None:
            return
        self.producers.record_marker(header, marker.coordinator_epoch)
        begun = transactions.end(serial, header.producer_id, self.last_end_position)
        first = marker.first_offset
        if begun is None and first == NOTHING_OPEN:
            return
        if not marker.is_commit:
            if self.aborted is NO_ABORTED:
                self.aborted = new_aborted()
            self.aborted.add(header.producer_id, first, base_offset, self.stable_end())

    def stable_end(self) -> Offset:
        """Return the end (exclusive) of what is decided, whether it is confirmed or not."""
        transactions = self.producers.states.transactions.of(self.serial)
        end = self.log_end_offset
        return end if transactions is None else transactions.first_open(end)
