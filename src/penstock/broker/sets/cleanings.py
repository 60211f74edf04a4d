"""Has compacted partitions cleaned, the dirtiest one that is due first.

    every second: look at the next partitions ─► dirt of each ─► when all were seen: the dirtiest
      ─► a job for the housekeeper ─► its file is taken over in place of the partition's extents
    failed: told once, counted, set aside for longer each time; others go on
    more of it is about to be moved: later, since one pass then reads what is clean once for all;
       not where it is due by time

Every member of a set does it for itself, whatever its role: what is left differs among members, and
the last value of each key does not. A partition of which nothing could be cleaned, since a
transaction in it is not decided by what was moved, waits until more of it is moved.

Source: docs/adr/0108; Kafka `LogCleanerManager`. Choice and back-off: compaction/choose.py.
"""

import logging
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from hashlib import blake2b
from typing import NamedTuple, Protocol

from penstock.base.errors import PlatformError
from penstock.base.ids import ReplicaSetId, TopicPartition
from penstock.base.ports import Clock
from penstock.compaction.choose import Dirt, SetAside, choose_dirtiest
from penstock.housekeeper.messages import Answer, Failed, Made
from penstock.replica.replica_set import ReplicaSetMember
from penstock.storage.second_level.cleaning import Cleaned
from penstock.storage.second_level.cleaning_plan import CleaningPlan, CleaningSettings, dirt_of
from penstock.storage.second_level.splitting import Splitting

PARTITIONS_PER_LOOK = 500
"""Partitions whose dirt is summed up in one turn, at some 10 us for ten extents each."""
SALT_BYTES = 16
DIRTY_BYTES_MAX = 1 << 30
"""Of all partitions together: with more, none waits for what else is to be moved of it. Where more
comes than is moved, cleaning would never begin."""

log = logging.getLogger(__name__)


class Topics(Protocol):
    """The topics of the node."""

    def settings_of(self, partition: TopicPartition, /) -> CleaningSettings | None:
        """Return how a partition is cleaned; None where it is not."""

    def name_of(self, partition: TopicPartition, /) -> str:
        """Return topic and partition for the node's log."""


class Cleaner(Protocol):
    """Makes the files: the housekeeper, as the node knows it."""

    def clean(
        self,
        replica_set_id: ReplicaSetId,
        plan: CleaningPlan,
        unfinished: str,
        done: Callable[[Answer], None],
    ) -> None:
        """Make the file of a plan at `unfinished`; `done(answer)` on the loop."""


@dataclass(slots=True)
class CleaningStats:
    """Counters for the metrics page."""

    passes: int = 0
    read_bytes: int = 0
    kept_bytes: int = 0
    dropped_records: int = 0
    failures: int = 0


class _Found(NamedTuple):
    """What was last seen of a compacted partition."""

    set_id: ReplicaSetId
    dirt: Dirt
    end_offset: int
    """Of its extents."""


class _Job(NamedTuple):
    """The pass that is under way."""

    member: ReplicaSetMember
    splitting: Splitting
    key: TopicPartition
    end_offset: int
    unfinished: str


class Cleanings:
    """Keeps count of the dirt of one node, and has one partition cleaned at a time."""

    def __init__(
        self,
        members: Mapping[ReplicaSetId, ReplicaSetMember],
        cleaner: Cleaner,
        clock: Clock,
        topics: Topics,
        wall_ms: Callable[[], int],
    ) -> None:
        """`wall_ms` is the time by which retention goes."""
        self._members = members
        self._cleaner = cleaner
        self._clock = clock
        self._topics = topics
        self._wall_ms = wall_ms
        self._left: deque[tuple[ReplicaSetId, TopicPartition]] = deque()
        """To be looked at in this round."""
        self._seen: dict[TopicPartition, _Found] = {}
        """In this round."""
        self._known: dict[TopicPartition, _Found] = {}
        self._stuck: dict[TopicPartition, int] = {}
        """End of the extents of partitions of which nothing could be cleaned."""
        self._set_aside = SetAside()
        self._over: Callable[[], None] = _nobody
        self.is_moved: Callable[[ReplicaSetMember], bool] = _moves_nothing
        """Whether a file may be made of a log whose plan is known."""
        self.stats = CleaningStats()

    @property
    def failing_count(self) -> int:
        """Number of partitions whose last pass failed."""
        return len(self._set_aside.failures)

    @property
    def dirty_bytes(self) -> int:
        """Bytes that a pass could clean, in all partitions."""
        return sum(found.dirt.dirty_bytes for found in self._known.values())

    @property
    def oldest_dirty_seconds(self) -> float:
        """Age of the oldest record that a pass could clean; 0 if there is none."""
        times = [found.dirt.oldest_dirty_ms for found in self._known.values()]
        oldest = min((at for at in times if at is not None), default=None)
        return 0.0 if oldest is None else max(0, self._wall_ms() - oldest) / 1000

    def look(self) -> None:
        """Look at some partitions; called about every second."""
        if not self._left:
            self._begin_round()
        for _ in range(min(PARTITIONS_PER_LOOK, len(self._left))):
            set_id, key = self._left.popleft()
            found = self._look_at(set_id, key)
            if found is not None:
                self._seen[key] = found
        if not self._left:
            self._end_round()

    def _begin_round(self) -> None:
        for set_id, member in self._members.items():
            if not member.log.is_busy:
                self._left.extend((set_id, key) for key in member.log.splitting.held_partitions())

    def _look_at(self, set_id: ReplicaSetId, key: TopicPartition) -> _Found | None:
        settings = self._topics.settings_of(key)
        member = self._members.get(set_id)
        if settings is None or member is None or member.log.is_busy:
            return None
        extents = member.log.splitting.extents(key)
        if not extents:
            return None
        dirt = dirt_of(key, extents, settings, self._wall_ms())
        return _Found(set_id, dirt, extents[-1].end_offset)

    def _end_round(self) -> None:
        self._known, self._seen = self._seen, {}
        for key in [key for key in self._set_aside.failures if key not in self._known]:
            self._set_aside.succeeded(key)
        self._stuck = {key: end for key, end in self._stuck.items() if key in self._known}

    def begin(self, new_name: Callable[[str], str], over: Callable[[], None]) -> bool:
        """Begin a pass if one is due; return whether.

        `new_name(directory)` is an unfinished file for a log. `over()` is called when its file was
        taken over or dropped.
        """
        waits, now_ms = self.dirty_bytes < DIRTY_BYTES_MAX, self._wall_ms()
        candidates = [
            found.dirt
            for key, found in self._known.items()
            if self._stuck.get(key) != found.end_offset
            and self._may_work(found)
            and not (waits and self._grows(key, found) and not found.dirt.is_promised(now_ms))
        ]
        dirt = choose_dirtiest(
            candidates,
            wall_ms=now_ms,
            set_aside=self._set_aside,
            monotonic_ms=self._clock.monotonic_ms(),
        )
        if dirt is None:
            return False
        key = dirt.topic_partition
        found, settings = self._known[key], self._topics.settings_of(key)
        member = self._members[found.set_id]
        name = new_name(member.log.directory)
        salt = blake2b(name.encode(), digest_size=SALT_BYTES).digest()
        splitting = member.log.splitting
        plan = None
        if settings is not None:
            plan = splitting.cleaning_plan(key, settings, now_ms=now_ms, salt=salt)
        if plan is None:
            del self._known[key]
            return False
        self._over = over
        job = _Job(member, splitting, key, found.end_offset, name)
        self._cleaner.clean(found.set_id, plan, name, lambda answer: self._made(job, answer))
        return True

    def _may_work(self, found: _Found) -> bool:
        member = self._members.get(found.set_id)
        return member is not None and not (member.log.is_busy or member.log.is_fenced)

    def _grows(self, key: TopicPartition, found: _Found) -> bool:
        """Whether the next file has more of a partition."""
        member = self._members[found.set_id]
        plan = member.log.splitting.plan
        return plan is not None and key in plan.wanted and self.is_moved(member)

    def _made(self, job: _Job, answer: Answer) -> None:
        assert not isinstance(answer, Made), "a file of another kind of job"
        is_void = job.member.log.splitting is not job.splitting or job.member.log.is_busy
        if is_void or isinstance(answer, Failed):
            # A housekeeper that was killed, or a log that was opened anew meanwhile, leaves it.
            job.member.log.splitting.discard(job.unfinished)
        if is_void:
            self._known.pop(job.key, None)
            self._over()
        elif isinstance(answer, Failed):
            self._note_failure(job, answer.reason)
            self._over()
        elif not answer.extents:
            self._stuck[job.key] = job.end_offset
            self._over()
        else:
            self._take_over(job, answer)

    def _take_over(self, job: _Job, cleaned: Cleaned) -> None:
        def taken(error: PlatformError | None) -> None:
            if job.member.log.splitting is job.splitting:
                if error is None:
                    self._note_success(job, cleaned)
                else:
                    self._note_failure(job, str(error))
            self._over()

        job.splitting.take_over(job.unfinished, taken)

    def _note_success(self, job: _Job, cleaned: Cleaned) -> None:
        stats = self.stats
        stats.passes += 1
        stats.read_bytes += cleaned.read_bytes
        stats.kept_bytes += cleaned.kept_bytes
        stats.dropped_records += cleaned.dropped_records
        if job.key in self._set_aside.failures:
            log.info("%s is cleaned again", self._topics.name_of(job.key))
        self._set_aside.succeeded(job.key)
        for table in (self._known, self._seen):
            table.pop(job.key, None)
        found = self._look_at(job.member.replica_set_id, job.key)
        if found is not None:
            self._known[job.key] = self._seen[job.key] = found

    def _note_failure(self, job: _Job, reason: str) -> None:
        self.stats.failures += 1
        failure = self._set_aside.failed(job.key, self._clock.monotonic_ms(), reason)
        level = logging.WARNING if failure.in_a_row == 1 else logging.DEBUG
        text = "%s can not be cleaned, and keeps old records: %s; it is tried again"
        log.log(level, text, self._topics.name_of(job.key), reason)


def _moves_nothing(_: ReplicaSetMember) -> bool:
    """Stands in where nobody makes files."""
    return False


def _nobody() -> None:
    """Stands in before the first pass."""
