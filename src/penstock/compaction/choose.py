"""Which partition is cleaned next, and which wait because their last pass failed.

    due      dirty / (clean + dirty) > min.cleanable.dirty.ratio, or the oldest dirty record is
             older than max.compaction.lag.ms, or every delete horizon of the partition has passed
    chosen   the dirtiest that is due; of equals the one with more dirty bytes

The third reason is for quiet partitions: nothing new comes, and tombstones are to go all the same
(KAFKA-4529, KAFKA-8522). It counts the newest horizon, so one pass drops what waits.

A partition that fails is set aside for a while that doubles with each failure in a row, and the
others go on (KAFKA-6264, KAFKA-19895: one bad partition stopped all cleaning in silence).

Source: Kafka `LogCleanerManager.grabFilthiestCompactedLog`, `maxCompactionDelay`. Departures: the
third reason; a failed partition is tried again, where Kafka waits for a restart.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from penstock.base.ids import TopicPartition

FIRST_WAIT_MS = 15_000
"""Kafka's log.cleaner.backoff.ms, the pause when nothing is due."""
WAIT_MS_MAX = 3_600_000
"""An hour: whatever made it fail may have gone by itself, as a full disk does."""
assert FIRST_WAIT_MS < WAIT_MS_MAX


@dataclass(frozen=True, slots=True, kw_only=True)
class Dirt:
    """What is known of a compacted partition without reading it."""

    topic_partition: TopicPartition
    clean_bytes: int
    dirty_bytes: int
    """Of batches that a pass may clean: below its bound, and older than min.compaction.lag.ms."""
    oldest_dirty_ms: int | None
    """Timestamp of the oldest dirty record; None if there is none."""
    newest_horizon_ms: int = -1
    """As the last pass reported it; -1 if nothing waits."""
    dirty_ratio_min: float
    compaction_lag_ms_max: int

    @property
    def dirty_ratio(self) -> float:
        """Dirty bytes by all bytes; 0 of an empty partition."""
        return self.dirty_bytes / max(self.clean_bytes + self.dirty_bytes, 1)

    def is_promised(self, now_ms: int) -> bool:
        """Whether a pass is due by time: `max.compaction.lag.ms` or a delete horizon has passed."""
        if 0 <= self.newest_horizon_ms <= now_ms:
            return True
        oldest = self.oldest_dirty_ms if self.dirty_bytes else None
        return oldest is not None and now_ms - oldest > self.compaction_lag_ms_max

    def is_due(self, now_ms: int) -> bool:
        """Whether a pass is worth its cost, or has been promised."""
        is_worth_it = self.dirty_bytes > 0 and self.dirty_ratio > self.dirty_ratio_min
        return is_worth_it or self.is_promised(now_ms)


class Failure(NamedTuple):
    """A partition that is set aside."""

    in_a_row: int
    """How often it failed since the last pass that succeeded."""
    until_ms: int
    reason: str


class SetAside:
    """The partitions whose last pass failed; times are of a monotonic clock."""

    def __init__(self) -> None:
        self._failures: dict[TopicPartition, Failure] = {}

    @property
    def failures(self) -> Mapping[TopicPartition, Failure]:
        """All of them, also those whose wait is over; for alarms."""
        return self._failures

    def failed(self, topic_partition: TopicPartition, now_ms: int, reason: str) -> Failure:
        """Set a partition aside."""
        before = self._failures.get(topic_partition)
        count = 1 if before is None else before.in_a_row + 1
        wait_ms = FIRST_WAIT_MS << min(count - 1, WAIT_MS_MAX.bit_length())
        failure = Failure(count, now_ms + min(wait_ms, WAIT_MS_MAX), reason)
        self._failures[topic_partition] = failure
        return failure

    def succeeded(self, topic_partition: TopicPartition) -> None:
        """Forget the failures of a partition; also of one that is gone."""
        self._failures.pop(topic_partition, None)

    def is_waiting(self, topic_partition: TopicPartition, now_ms: int) -> bool:
        """Whether a partition is not to be tried yet."""
        failure = self._failures.get(topic_partition)
        return failure is not None and now_ms < failure.until_ms


def choose_dirtiest(
    partitions: Iterable[Dirt], *, wall_ms: int, set_aside: SetAside, monotonic_ms: int
) -> Dirt | None:
    """Return the partition to be cleaned next; None if no pass is due."""
    due = [
        dirt
        for dirt in partitions
        if dirt.is_due(wall_ms) and not set_aside.is_waiting(dirt.topic_partition, monotonic_ms)
    ]
    return max(due, key=_by_dirt, default=None)


def _by_dirt(dirt: Dirt) -> tuple[float, int, TopicPartition]:
    return dirt.dirty_ratio, dirt.dirty_bytes, dirt.topic_partition
