"""What is known of the dirt of a compacted partition, and the order to clean it.

    extents    [ rewritten ... )[ as produced, old enough ... )[ younger than the lag ... )
                 clean            dirty                          not to be cleaned yet

Nothing is read for it: the entries of the extents are in memory. What is still in shared files is
not counted; a closed file of a compacted partition is moved at once (planning.py).

Source: docs/adr/0108; Kafka `LogToClean`. Departure: of an extent with a batch that is younger than
the lag nothing is counted, and all that is old enough is cleaned.
"""

from collections.abc import Sequence
from itertools import takewhile
from typing import NamedTuple

from penstock.base.ids import TopicPartition
from penstock.compaction.choose import Dirt
from penstock.storage.config import LogConfig, Retention
from penstock.storage.second_level.cleaning import CleaningOrder, newest_horizon_ms
from penstock.storage.second_level.held import Extent

EXTENTS_MAX = 10_000
"""Of one pass: bounds the message that asks for it. Newer ones come with a later pass."""
EXTENT_BYTES_MAX = 64 << 20
"""An extent of a cleaned range is what retention drops at once; Kafka drops segment.bytes."""
EXTENT_BYTES_MIN = 1 << 20
PARTS = 8
"""Parts in which retention drops a cleaned range, about: it is exact to an eighth."""


class CleaningSettings(NamedTuple):
    """What of a topic's settings is about cleaning; see the topic configurations."""

    dirty_ratio_min: float
    delete_retention_ms: int
    lag_ms_min: int
    lag_ms_max: int
    retention: Retention
    """-1 in both where nothing is deleted by retention."""


class CleaningPlan(NamedTuple):
    """What one pass over one partition is to do."""

    directory: str
    """Of the log, in the data directory."""
    reserve_bytes: int
    """To be left free on the disk."""
    order: CleaningOrder


def dirt_of(
    key: TopicPartition, extents: Sequence[Extent], settings: CleaningSettings, now_ms: int
) -> Dirt:
    """Return what is dirty of a partition's extents."""
    newest_ms = now_ms - settings.lag_ms_min
    produced = [extent for extent in extents if not extent.is_cleaned]
    dirty = list(takewhile(lambda one: one.max_timestamp <= newest_ms, produced))
    times = [one.entry.first_timestamp for one in dirty if one.entry.first_timestamp >= 0]
    return Dirt(
        topic_partition=key,
        clean_bytes=sum(one.batch_bytes for one in extents if one.is_cleaned),
        dirty_bytes=sum(one.batch_bytes for one in dirty),
        oldest_dirty_ms=min(times, default=None),
        newest_horizon_ms=newest_horizon_ms(extents),
        dirty_ratio_min=settings.dirty_ratio_min,
        compaction_lag_ms_max=settings.lag_ms_max,
    )


def plan_cleaning(
    directory: str,
    config: LogConfig,
    extents: Sequence[Extent],
    settings: CleaningSettings,
    *,
    now_ms: int,
    salt: bytes,
) -> CleaningPlan:
    """Return the plan of a pass over all extents of one partition. `salt`: 16 random bytes."""
    keep_bytes, keep_ms = settings.retention.bytes, settings.retention.ms
    extent_bytes = EXTENT_BYTES_MAX
    if keep_bytes >= 0:
        extent_bytes = max(EXTENT_BYTES_MIN, min(extent_bytes, keep_bytes // PARTS))
    order = CleaningOrder(
        extents[0].entry.topic_partition,
        tuple(extents[:EXTENTS_MAX]),
        now_ms=now_ms,
        newest_ms=now_ms - settings.lag_ms_min,
        delete_retention_ms=settings.delete_retention_ms,
        memory_bytes=config.cleaner_memory_bytes,
        salt=salt,
        extent_bytes=extent_bytes,
        extent_ms=max(keep_ms // PARTS, 1) if keep_ms >= 0 else 0,
    )
    return CleaningPlan(directory, config.reserve_bytes, order)
