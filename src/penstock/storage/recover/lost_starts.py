"""Log starts after a fall back to an older snapshot, when segments that it knows are gone.

    newest snapshot damaged ─► an older one: log starts as they were then ─► raised to what is there

Retention removes a segment once a snapshot has the log starts behind it. Where just that one is
damaged, an older one names log starts at records that went since: whoever reads from there would
find nothing, and retention, which goes from a log start on, would never move it again. Segments may
be gone behind others that are kept for another partition: what lies before such a gap goes too.

Source: the order of retention (retention.py); Kafka's log start checkpoint has the same gap.
"""

from collections import Counter
from collections.abc import Mapping, Sequence

from penstock.base.ids import TopicPartition
from penstock.base.ports import Disk
from penstock.storage.commit_log.segments import Segment
from penstock.storage.index.lookup import ClosedSegment, SealedLookup
from penstock.storage.index.partition_log import PartitionLog


def raise_lost_starts(
    disk: Disk,
    directory: str,
    closed: Sequence[Segment],
    partitions: Mapping[TopicPartition, PartitionLog],
) -> None:
    """Raise each log start to where records are without a gap from, and count what is there anew.

    What lies below a log start counts too, until a pass of retention takes it from the count.

    `closed` are all closed segments, oldest first, each with an index or whole enough to make one.
    """
    segments = [ClosedSegment(one.base, one.path) for one in closed]
    lookup = SealedLookup(disk, directory, segments)
    entries = [entry for one in segments for entry in lookup.directory_of(one)]
    firsts = {
        key: partition.bases[0] if partition.bases else partition.log_end_offset
        for key, partition in partitions.items()
    }
    for entry in reversed(entries):
        if firsts.get(entry.topic_partition) == entry.end_offset:
            firsts[entry.topic_partition] = entry.first_offset
    for key, partition in partitions.items():
        partition.log_start_offset = max(partition.log_start_offset, firsts[key])
    counted: Counter[TopicPartition] = Counter()
    for entry in entries:
        counted[entry.topic_partition] += entry.batch_bytes
    for key, partition in partitions.items():
        partition.size_bytes = counted[key] + sum(partition.sizes)
        partition.sized_from = closed[0].base if closed else 0
