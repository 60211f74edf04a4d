"""What a log wants to have split or cleaned, and how a file that was made of it is taken over.

    retention pass ─► plan ─► somebody makes the file ─► take_over ─► next pass: segments released

One for each opening of a log: a plan of before a truncation is void, and so is a file made by it.

Source: docs/adr/0104. It does not make files: split.py does, in another process.
"""

from collections.abc import Callable, Mapping

from penstock.base.callbacks import nothing
from penstock.base.ids import Position, TopicPartition
from penstock.storage.commit_log.pins import Movable
from penstock.storage.config import LogConfig
from penstock.storage.index.partition_log import PartitionLog
from penstock.storage.second_level.changes import Changed
from penstock.storage.second_level.cleaning_plan import (
    CleaningPlan,
    CleaningSettings,
    plan_cleaning,
)
from penstock.storage.second_level.held import Extent
from penstock.storage.second_level.planning import FILE_BYTES_MAX, SplitPlan, SplitPlanner
from penstock.storage.second_level.store import SecondLevel

DROPPED = 1 << 62
"""Stands for the log start of a partition that is gone: none of its offsets can be missed."""

NOT_YET = -1
FILES_BEHIND = 2


class Splitting:
    """The plans of one open log. Used on the loop."""

    def __init__(
        self,
        second_level: SecondLevel,
        directory: str,
        config: LogConfig,
        partitions: Callable[[], Mapping[TopicPartition, PartitionLog]],
    ) -> None:
        self._second_level = second_level
        self._directory = directory
        self._config = config
        self._partitions = partitions
        self._behind_bytes = _behind_bytes(config)
        self._plan: SplitPlan | None = None
        self._planned_before = NOT_YET
        """Number of the file that was to be the next one when the plan was begun."""
        self._beginning = NOT_YET
        self.backlog_bytes = 0
        """Bytes of batches that were due in the last retention pass, and in no file."""
        self.damage = second_level.damage
        """The extent files that are known to be damaged."""
        self.pieces = second_level.damage.pieces
        """What other members may get of its extents."""
        self.copies = second_level.copies
        """What the tier gets of them."""
        self.shrinking = second_level.shrinking
        """The extent files that are to be written anew because too little of them is held."""
        self.on_damage: Callable[[Position, str], None] = nothing
        """on_damage(position, reason): call it where making a file has found damaged bytes of the
        log. Nothing happens if the log has that position no longer."""

    def planner(self, *, now_ms: int, end: int, flushed: int) -> SplitPlanner:
        """Return the planner of a retention pass that begins."""
        self._beginning = self._second_level.next_number
        return SplitPlanner(self._directory, self._config, now_ms=now_ms, end=end, flushed=flushed)

    def planned(self, planner: SplitPlanner) -> None:
        """Take the result of a whole pass."""
        self._plan = planner.plan()
        self._planned_before = self._beginning
        self.backlog_bytes = planner.backlog_bytes

    @property
    def plan(self) -> SplitPlan | None:
        """What to make the next file of; None if nothing is due, or another pass has to tell."""
        is_current = self._planned_before == self._second_level.next_number
        return self._plan if is_current else None

    @property
    def is_outdated(self) -> bool:
        """Whether a file was taken over since the last whole pass began."""
        return NOT_YET < self._planned_before < self._second_level.next_number

    @property
    def is_behind(self) -> bool:
        """Whether so much is due that level 0 outgrows its bound: files have to be made faster."""
        return self.backlog_bytes > self._behind_bytes

    @property
    def movable(self) -> Movable:
        """The extent files that only movable partitions needed in the last retention pass."""
        return self._second_level.pins.movable

    @property
    def file_count(self) -> int:
        """Number of extent files."""
        return self._second_level.file_count

    @property
    def file_bytes(self) -> int:
        """Bytes of the extent files."""
        return self._second_level.file_bytes

    def moved_bytes(self, partition: PartitionLog) -> int:
        """Return the bytes of a partition that extents have and the commit log has not."""
        start, end = partition.log_start_offset, partition.commit_log_start_offset
        return self._second_level.size_bytes(partition.topic_partition, start, end)

    def start_of(self, partition: PartitionLog) -> int:
        """Return the first offset (inclusive) that no extent has."""
        held = self._second_level.held(partition.topic_partition)
        start = partition.commit_log_start_offset
        return start if held is None else max(start, held.end_offset)

    def held_partitions(self) -> list[TopicPartition]:
        """Return the partitions that extents have batches of."""
        return self._second_level.held_partitions()

    def extents(self, topic_partition: TopicPartition) -> list[Extent]:
        """Return the extents of a partition, oldest first."""
        return self._second_level.extents(topic_partition)

    def cleaning_plan(
        self,
        topic_partition: TopicPartition,
        settings: CleaningSettings,
        *,
        now_ms: int,
        salt: bytes,
    ) -> CleaningPlan | None:
        """Return the plan of a pass over a partition; None if no extent has it."""
        extents = self.extents(topic_partition)
        if not extents:
            return None
        where = self._directory, self._config
        return plan_cleaning(*where, extents, settings, now_ms=now_ms, salt=salt)

    def take_over(self, unfinished: str, done: Changed) -> None:
        """Take over a file that was made by a plan of this object; see SecondLevel.take_over."""
        self._second_level.take_over(unfinished, self._log_start_of, done)

    def put_instead(self, file_number: int, unfinished: str, done: Changed) -> None:
        """Take over a file that was written anew in the place of the one it was made of."""
        self._second_level.take_over(unfinished, self._log_start_of, done, instead_of=file_number)

    def _log_start_of(self, topic_partition: TopicPartition) -> int:
        partition = self._partitions().get(topic_partition)
        return DROPPED if partition is None else partition.log_start_offset

    def discard(self, unfinished: str) -> None:
        """Remove a file that is not taken over, if it is there."""
        self._second_level.discard(unfinished, nothing)


def _behind_bytes(config: LogConfig) -> int:
    """Return the due bytes above which level 0 runs short: two files, or half its bound."""
    most = FILES_BEHIND * FILE_BYTES_MAX
    if config.level0_bytes < 0:
        return most
    return min(most, max(config.level0_bytes // 2, config.segment_bytes))
