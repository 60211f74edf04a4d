"""What a log takes of its disk, and what an operator watches of it.

Source: Kafka's DescribeLogDirs, and its log metrics. Plain numbers, made by SetLog.
"""

from typing import NamedTuple

from penstock.base.ids import TopicPartition


class Usage(NamedTuple):
    """What the log takes and what is left, in bytes."""

    partitions: dict[TopicPartition, int]
    """Bytes of kept batches, without frame headers."""
    segment_bytes: int
    """All segment files, the allocated rest of the active one included."""
    free_bytes: int


class LogNumbers(NamedTuple):
    """What an operator watches of a log beside its positions. Cheap to ask for."""

    segment_count: int
    segment_bytes: int
    free_bytes: int
    snapshot_position: int
    """A start after a crash replays from here."""
    deleted_segments: int
    """By retention and deletes, since the start."""
    has_checkpoint_failed: bool
