"""One partition of a shared commit log: where the log has its bytes, and its index of the active
segment. What a consumer sees of it is a PartitionView (stores/view.py).

The index has four columns with one entry per batch, oldest first:

    bases       base offset
    positions   position of the frame in the log
    sizes       bytes of the batch, without the frame header
    timestamps  largest timestamp of the batch

`array.array` columns cost 28 bytes per batch and can be searched by `bisect` as they are; a closed
segment's index file holds the same columns, so that the same searches work on a piece of the file.
A partition without batches in the active segment shares one empty column and costs next to nothing.

Source: Kafka's offset index and time index, RocketMQ's consume queue; ours has every batch.
"""

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from typing import NamedTuple

from penstock.base.ids import TopicPartition
from penstock.storage.commit_log.frames import FRAME_HEADER_BYTES, frame_key
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

    def entry_of(self, offset: int) -> int:
        """Return the entry that holds `offset`, which must not be below the first base offset."""
        return bisect_right(self.bases, offset) - 1

    def first_entry_at(self, position: int) -> int:
        """Return the first entry whose frame does not end at or below `position`."""
        entry = bisect_left(self.positions, position)
        if entry > 0:
            before = entry - 1
            end = self.positions[before] + FRAME_HEADER_BYTES + self.sizes[before]
            if end > position:
                return before
        return entry


class PartitionLog(PartitionView):
    """One partition, and where the commit log has it. Written by the log alone."""

    __slots__ = (
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
    )

    def __init__(
        self, topic_partition: TopicPartition, serial: int, states: ProducerStates
    ) -> None:
        super().__init__(topic_partition, serial, states)
        self.frame_key = frame_key(topic_partition)
        self.size_bytes = 0
        """Bytes of batches that the commit log keeps for the partition; what lies below its start
        goes with the next retention."""
        self.sized_from = 0
        """Segments below this position are no longer counted in `size_bytes`."""
        self.is_dirty = False
        """Whether the log has noted the partition as changed in this segment since a snapshot."""
        self.is_dropped = False
        """Whether it was dropped: no snapshot names it any more."""
        self.side_count = 0
        """Entries of the columns that the side file holds already."""
        self.bases = self.positions = self.sizes = self.timestamps = EMPTY

    @property
    def columns(self) -> Columns:
        """The index of the active segment."""
        return Columns(self.bases, self.positions, self.sizes, self.timestamps)

    def open_columns(self) -> None:
        """Give the partition columns of its own, before its first batch in a segment."""
        self.bases = array("q")
        self.positions = array("q")
        self.sizes = array("i")
        self.timestamps = array("q")

    def take_columns(self) -> Columns:
        """Hand over the columns of a segment that closes, and begin with empty ones."""
        columns = self.columns
        self.bases = self.positions = self.sizes = self.timestamps = EMPTY
        self.side_count = 0
        self.is_dirty = False
        return columns
