"""Settings of one commit log.

Source: each field names Kafka's broker setting of the same meaning. Relations between fields are
checked in `__post_init__`; the bounds are annotations, which the settings loader checks.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, NamedTuple

from annotated_types import Ge, Le, Unit

from penstock.base.errors import ConfigError


class FlushPolicy(StrEnum):
    """When an append counts as durable."""

    SYNC = "sync"
    """After fdatasync; one sync at a time covers everything written before it began."""
    ASYNC = "async"
    """When it is in the page cache; a power loss may lose what is not synced yet."""


class Retention(NamedTuple):
    """How much of a partition is kept; -1 in a field means no limit."""

    bytes: int
    ms: int
    is_movable: bool = False
    """Whether the owner can append the live records again and raise the log start to them."""
    is_compacted: bool = False
    """Whether it is cleaned, for which its closed batches go to extent files at once."""
    close_ms: int = -1
    """How long a batch may be in the open segment before that is closed, so that it can be cleaned
    or deleted; -1: until it is full."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogConfig:
    """Settings of one commit log; all sizes in bytes, all times in milliseconds."""

    segment_bytes: Annotated[int, Ge(65_536), Le(1 << 31), Unit("bytes")] = 256 << 20
    """Size of one log file, allocated whole. Large: fewer files. Small: space is freed sooner,
    because a file is deleted only when everything in it is out of retention. (log.segment.bytes)"""

    first_segment_bytes: Annotated[int, Ge(65_536), Le(1 << 31), Unit("bytes")] = 16 << 20
    """Size of a log's first file. Each next one is as large as all before it together, up to
    `segment_bytes`, so that a small log takes little space. For a batch that would not fit, the
    next file has the full size."""

    flush_policy: FlushPolicy = FlushPolicy.SYNC
    """`sync` answers after fdatasync. `async` is faster, and a power loss may lose the last flush
    interval; with replicas on other machines that may be acceptable. (flush.messages)"""

    flush_interval_ms: Annotated[int, Ge(1), Le(60_000), Unit("ms")] = 200
    """Under `async`: the longest time written data waits for its sync. (flush.ms)"""

    flush_interval_bytes: Annotated[int, Ge(4096), Le(1 << 31), Unit("bytes")] = 64 << 20
    """Under `async`: written bytes that start a sync before the interval is over."""

    staging_bytes: Annotated[int, Ge(16_384), Le(64 << 20), Unit("bytes")] = 1 << 20
    """Buffer in which the appends of one loop turn are gathered into one write."""

    large_batch_bytes: Annotated[int, Ge(1024), Le(64 << 20), Unit("bytes")] = 64 << 10
    """A batch of this size or more is written at once, straight from the caller's memory."""

    checkpoint_interval_bytes: Annotated[int, Ge(4096), Le(1 << 40), Unit("bytes")] = 64 << 20
    """Appended bytes between two snapshots; bounds what a start after a crash has to replay."""

    checkpoint_interval_ms: Annotated[int, Ge(0), Le(3_600_000), Unit("ms")] = 1000
    """Shortest time between two snapshots, which bounds their cost under fast writes."""

    reserve_bytes: Annotated[int, Ge(0), Le(1 << 40), Unit("bytes")] = 64 << 20
    """Free space that segments may not use, so that snapshots, indexes and deletes still work when
    the disk counts as full."""

    space_check_ms: Annotated[int, Ge(10), Le(600_000), Unit("ms")] = 1000
    """How often a full log checks whether there is space again."""

    recycle_count: Annotated[int, Ge(0), Le(64), Unit("files")] = 2
    """Deleted segment files kept for reuse: overwriting allocated blocks is several times cheaper
    than writing to new ones."""

    producer_id_expiration_ms: Annotated[int, Ge(1000), Le(1 << 40), Unit("ms")] = 86_400_000
    """A producer id that has not written for this long is forgotten. (producer.id.expiration.ms)"""

    producer_ids_max: Annotated[int, Ge(1), Le(10_000_000), Unit("entries")] = 100_000
    """(producer id, partition) pairs remembered; the longest idle one is forgotten first."""

    index_cache_bytes: Annotated[int, Ge(65_536), Le(1 << 34), Unit("bytes")] = 32 << 20
    """Memory for index blocks of closed segments."""

    check_reads: bool = True
    """Whether the checksums of every batch are verified before it is sent. Off: only that it is the
    right batch; damage is then found by clients that verify, by the scrub and by slaves.
    (check.crcs, of consumers)"""

    scrub_bytes_per_second: Annotated[int, Ge(0), Le(1 << 34), Unit("bytes/s")] = 4 << 20
    """How fast all logs together are read in the background to find damage; 0: only logs that had
    damage, or whose bytes a slave refused, are read."""

    scrub_interval_ms: Annotated[int, Ge(0), Le(1 << 40), Unit("ms")] = 86_400_000
    """Pause of the scrub after it has read everything once."""

    level0_ms: Annotated[int, Ge(-1), Le(1 << 40), Unit("ms")] = -1
    """How long records stay in files that all partitions of a set share. What is kept for longer,
    because of its retention or because nothing deletes it, is then moved to files sorted by
    partition, so that the shared ones go. -1: `level0_bytes` alone decides; if both are -1, nothing
    is moved, and one partition with long retention keeps the records of all."""

    level0_bytes: Annotated[int, Ge(-1), Le(1 << 50), Unit("bytes")] = -1
    """Newest bytes of a set that stay in shared files whatever their age; what is kept of older
    ones is moved, as by `level0_ms`. Bounds the shared files; -1: no bound. With either of the two,
    compacted topics are moved at once and cleaned; without, they keep every record."""

    close_early_ms: Annotated[int, Ge(1_000), Le(1 << 40), Unit("ms")] = 600_000
    """How often, at most, the open file of a set is closed before it is full, because it has a
    record that is older than its topic's `max.compaction.lag.ms` or `retention.ms`: only closed
    files are cleaned and deleted. Small: those times are kept more exactly on a quiet node, by more
    and smaller files. Nothing is closed early where nothing is moved. (segment.ms)"""

    housekeeper_bytes_per_second: Annotated[int, Ge(0), Le(1 << 34), Unit("bytes/s")] = 32 << 20
    """How fast the housekeeper reads and writes, both counted, for all logs of a node together;
    0: as fast as it can. It is halved, down to a sixteenth, while syncs are slow
    (`housekeeper_sync_ms`); where so much is due that shared files outgrow their bound it is not
    less than this, and up to four times as much."""

    housekeeper_sync_ms: Annotated[int, Ge(0), Le(60_000), Unit("ms")] = 30
    """How long one of a hundred syncs of the node may take, in the last seconds, before the
    housekeeper gives way. Rounded up to a power of two of microseconds; 0: it never gives way."""

    cleaner_memory_bytes: Annotated[int, Ge(1 << 20), Le(512 << 20), Unit("bytes")] = 128 << 20
    """Memory of the housekeeper for the keys of one pass over a compacted partition, 24 bytes for
    each and a tenth more: 128 MiB take five million. More keys take several passes, each of which
    rewrites what is clean. (log.cleaner.dedupe.buffer.size)"""

    open_segments_max: Annotated[int, Ge(2), Le(100_000), Unit("files")] = 64
    """Closed segment files held open for reading."""

    @property
    def moves(self) -> bool:
        """Whether a housekeeper moves what is kept for long, and cleans compacted topics."""
        return self.level0_ms >= 0 or self.level0_bytes >= 0

    def __post_init__(self) -> None:
        """Check the relations between fields."""
        if self.large_batch_bytes + 1024 > self.staging_bytes:
            raise ConfigError(
                f"staging_bytes ({self.staging_bytes}) must exceed large_batch_bytes "
                f"({self.large_batch_bytes}) by 1024 or more"
            )
