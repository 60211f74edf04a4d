"""Log starts after a fall back to an older snapshot, when segments that it knows are gone.

    newest snapshot damaged ─► an older one: log starts as they were then ─► raised to what is there

Retention removes a segment once a snapshot has the log starts behind it. Where just that one is
damaged, an older one names log starts at records that went since: whoever reads from there would
find nothing, and retention, which goes from a log start on, would never move it again. Segments may
be gone behind others that are kept for another partition: what lies before such a gap goes too.

The same look tells what the commit log has of a partition whose older records another store has.

Source: the order of retention (stores/retention.py); Kafka's log start checkpoint has the same gap.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from penstock.base.ids import TopicPartition
from penstock.base.ports import Disk
from penstock.storage.commit_log.segments import Segment
from penstock.storage.index.lookup import ClosedSegment, SealedLookup
from penstock.storage.index.partition_log import PartitionLog
from penstock.storage.stores.older import OlderStores


class FirstKept(NamedTuple):
    """From where on a partition's records are in the commit log without a gap."""

    offset: int
    position: int
    """What lies before `offset` lies below this position of the log."""


class KeptStarts:
    """What the segments of a log still have. Waits for the disk.

    `closed` are all closed segments, oldest first, each with an index or whole enough to make one.
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
        self._sized_from = closed[0].base if closed else 0
        self._partitions = partitions
        self._firsts = {
            key: FirstKept(partition.bases[0], partition.positions[0])
            if partition.bases
            else FirstKept(partition.log_end_offset, partition.last_end_position)
            for key, partition in partitions.items()
        }
        for segment, entry in reversed(self._entries):
            key = entry.topic_partition
            if key in self._firsts and self._firsts[key].offset == entry.end_offset:
                self._firsts[key] = FirstKept(entry.first_offset, segment.base)

    def release(self, older: OlderStores, directory: str, *, are_starts_lost: bool) -> None:
        """Let older stores have what the segments have not. Where log starts are lost, raise them
        to where records are without a gap from, and count what is there anew.

        Raises CorruptLog: no store has what is to be kept.
        """
        for key, partition in self._partitions.items():
            first = self._firsts[key]
            if first.offset > partition.log_start_offset:
                partition.release(first.offset)
                older.released(first.position)
            if are_starts_lost:
                partition.raise_log_start(older.start_offset(partition))
            older.check(directory, partition)
        if are_starts_lost:
            self._count()

    def _count(self) -> None:
        """What lies below a log start counts too, until a pass of retention takes it from the
        count.
        """
        counted: Counter[TopicPartition] = Counter()
        for _, entry in self._entries:
            counted[entry.topic_partition] += entry.batch_bytes
        for key, partition in self._partitions.items():
            partition.size_bytes = counted[key] + sum(partition.sizes)
            partition.sized_from = self._sized_from
