"""Log starts after falling back to an older snapshot, when segments that it names were deleted.

    newest snapshot damaged ─► older snapshot with older log starts ─► raised to what still exists

Retention removes a segment once a snapshot has the log starts behind it. If exactly that snapshot
is damaged, an older one has log starts at records that were deleted since. A reader there would
find nothing, and retention, which works from the log start on, would never move it again. Deleted
segments may lie behind others that are kept for another partition; records before such a gap are
given up too.

The same scan finds from where on the commit log has a partition whose older records are in another
store.

Source: the order of retention (stores/retention.py); Kafka's log start checkpoint has the same gap.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from penstock.base.ids import Offset, Position, TopicPartition
from penstock.base.ports import Disk
from penstock.storage.commit_log.segments import Segment
from penstock.storage.index.lookup import ClosedSegment, SealedLookup
from penstock.storage.index.partition_log import PartitionLog
from penstock.storage.stores.older import OlderStores


class FirstKept(NamedTuple):
    """The start from which the commit log has a partition's records without a gap."""

    offset: Offset
    position: Position
    """All records before `offset` lie below this position of the log."""


class KeptStarts:
    """Finds what the segments of a log still have. Waits for the disk.

    `closed` are all closed segments, oldest first, each with an index or readable to rebuild it.
    """

    def __init__(
        self,
        disk: Disk,
        directory: str,
        closed: Sequence[Segment],
        partitions: Mapping[TopicPartition, PartitionLog],
    ) -> None:
        segments = [ClosedSegment(one.base, one.path) for one in closed]
        lookup = SealedLookup(disk, directory, segments)
        self._entries = [(one, entry) for one in segments for entry in lookup.directory_of(one)]
        self._sized_from = closed[0].base if closed else Position(0)
        self._partitions = partitions
        self._firsts = {
            key: FirstKept(Offset(partition.bases[0]), Position(partition.positions[0]))
            if partition.bases
            else FirstKept(partition.log_end_offset, partition.last_end_position)
            for key, partition in partitions.items()
        }
        for segment, entry in reversed(self._entries):
            key = entry.topic_partition
            if key in self._firsts and self._firsts[key].offset == entry.end_offset:
                self._firsts[key] = FirstKept(entry.first_offset, segment.base)

    def release(self, older: OlderStores, directory: str, *, are_starts_lost: bool) -> None:
        """Set the commit log starts by what the segments have; older stores have the rest.

        If log starts are lost, raise them to the first record without a gap behind it, and compute
        the partitions' sizes anew.

        Raises CorruptLog: no store has records that are to be kept.
        """
        for key, partition in self._partitions.items():
            first = self._firsts[key]
            if first.offset > partition.log_start_offset:
                partition.release(first.offset)
                older.released(first.position)
            if are_starts_lost:
                partition.raise_log_start(older.start_offset(partition))
            held_start = older.held_start(partition)
            if held_start is not None:
                # What lies below was out of retention when it was left out of the oldest store.
                partition.raise_log_start(held_start)
            older.check(directory, partition)
        if are_starts_lost:
            self._count()

    def _count(self) -> None:
        """Compute sizes. Bytes below a log start count until a retention pass subtracts them."""
        counted: Counter[TopicPartition] = Counter()
        for _, entry in self._entries:
            counted[entry.topic_partition] += entry.batch_bytes
        for key, partition in self._partitions.items():
            partition.size_bytes = counted[key] + sum(partition.sizes)
            partition.sized_from = self._sized_from
