"""Settings of one commit log.

Source: Kafka's broker settings of the same meaning are named with each field. Relations between
fields are checked in `__post_init__`; bounds stand in the annotations, for the settings loader.
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
    """When it is in the page cache; power loss may take what was not synced yet."""


class Retention(NamedTuple):
    """How much of a partition is kept; -1 in a field means without limit."""

    bytes: int
    ms: int
    is_movable: bool = False
    """Whether its owner can write what lives of it anew at the end, and cut off what is older."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogConfig:
    """Settings of one commit log; all sizes in bytes, all times in milliseconds."""

    segment_bytes: Annotated[int, Ge(65_536), Le(1 << 31), Unit("bytes")] = 256 << 20
    """Size of one log file, allocated whole. Large: fewer files. Small: space comes back sooner,
    because a file goes only when everything in it is out of retention. (log.segment.bytes)"""

    first_segment_bytes: Annotated[int, Ge(65_536), Le(1 << 31), Unit("bytes")] = 16 << 20
    """Size of a log's first file. Each next one is as large as all before it together, up to
    `segment_bytes`: a small log takes little of the disk. A batch that does not fit the next one
    gets one of full size."""

    flush_policy: FlushPolicy = FlushPolicy.SYNC
    """`sync` answers after fdatasync. `async` is faster and loses the last flush interval at power
    loss; with replicas on other machines that may be what you want. (flush.messages)"""

    flush_interval_ms: Annotated[int, Ge(1), Le(60_000), Unit("ms")] = 200
    """Under `async`: the longest time written data waits for its sync. (flush.ms)"""

    flush_interval_bytes: Annotated[int, Ge(4096), Le(1 << 31), Unit("bytes")] = 64 << 20
    """Under `async`: written bytes that start a sync before the time is over."""

    staging_bytes: Annotated[int, Ge(16_384), Le(64 << 20), Unit("bytes")] = 1 << 20
    """Buffer in which the appends of one loop turn are gathered into one write."""

    large_batch_bytes: Annotated[int, Ge(1024), Le(64 << 20), Unit("bytes")] = 64 << 10
    """A batch of this size or more is written at once, straight from the caller's memory."""

    checkpoint_interval_bytes: Annotated[int, Ge(4096), Le(1 << 40), Unit("bytes")] = 64 << 20
    """Appended bytes between two snapshots; bounds what a start after a crash has to replay."""

    checkpoint_interval_ms: Annotated[int, Ge(0), Le(3_600_000), Unit("ms")] = 1000
    """Shortest time between two snapshots, so that a fast writer does not write them all day."""

    reserve_bytes: Annotated[int, Ge(0), Le(1 << 40), Unit("bytes")] = 64 << 20
    """Free space that no segment may take: snapshots, indexes and deletes go on in it when the
    disk counts as full."""

    space_check_ms: Annotated[int, Ge(10), Le(600_000), Unit("ms")] = 1000
    """How often a full log looks whether there is room again."""

    recycle_count: Annotated[int, Ge(0), Le(64), Unit("files")] = 2
    """Deleted segment files kept for use again: writing over allocated blocks is several times
    cheaper than writing to new ones."""

    producer_id_expiration_ms: Annotated[int, Ge(1000), Le(1 << 40), Unit("ms")] = 86_400_000
    """A producer id not heard of for this long is forgotten. (producer.id.expiration.ms)"""

    producer_ids_max: Annotated[int, Ge(1), Le(10_000_000), Unit("entries")] = 100_000
    """(producer id, partition) pairs remembered; the longest silent one goes first."""

    index_cache_bytes: Annotated[int, Ge(65_536), Le(1 << 34), Unit("bytes")] = 32 << 20
    """Memory for index blocks of closed segments."""

    check_reads: bool = True
    """Whether every batch is checked before a client gets it. Off: only that it is the right one;
    damage is then found by clients that check, by the scrub and by slaves. (check.crcs, of
    consumers)"""

    scrub_bytes_per_second: Annotated[int, Ge(0), Le(1 << 34), Unit("bytes/s")] = 4 << 20
    """How fast all logs together are read in the background to find damage; 0: only logs that had
    some, or that a slave could not use a copy of, are read."""

    scrub_interval_ms: Annotated[int, Ge(0), Le(1 << 40), Unit("ms")] = 86_400_000
    """Pause of the scrub after it has read everything once."""

    open_segments_max: Annotated[int, Ge(2), Le(100_000), Unit("files")] = 64
    """Closed segment files held open for reading."""

    def __post_init__(self) -> None:
        """Check the relations between fields."""
        if self.large_batch_bytes + 1024 > self.staging_bytes:
            raise ConfigError(
                f"staging_bytes ({self.staging_bytes}) must exceed large_batch_bytes "
                f"({self.large_batch_bytes}) by 1024 or more"
            )
