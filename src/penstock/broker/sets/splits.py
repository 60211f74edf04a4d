"""Has what logs want to have split made into extent files, one file of the node at a time.

    every second: the next log with a plan ─► a job for the housekeeper
      ─► its file is taken over ─► retention again: files that all partitions share go
    soon after a job: the next one, if it is known
    failed: told once, counted, tried again after RETRY_MS, then later each time; others go on

Cleanings (cleanings.py), where there are some, and shrinkings (shrinkings.py) take turns with it.

Every member of a set does it for itself, whatever its role. A log that was opened anew meanwhile
has another `splitting`: the file was made of what may be cut by now, and is dropped.

Source: docs/adr/0104, docs/adr/0130.
"""

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Protocol

from penstock.base.errors import PlatformError
from penstock.base.ids import Position, ReplicaSetId
from penstock.base.ports import Clock
from penstock.broker.sets.cleanings import Cleanings
from penstock.broker.sets.failing import FailingLogs
from penstock.broker.sets.shrinkings import Shrinker, Shrinkings
from penstock.housekeeper.messages import UNFINISHED, Answer, Failed, Made
from penstock.replica.replica_set import ReplicaSetMember
from penstock.storage.second_level.planning import SplitPlan
from penstock.storage.second_level.splitting import Splitting

log = logging.getLogger(__name__)


class Splitter(Shrinker, Protocol):
    """Makes the files: the housekeeper, as the node knows it."""

    @property
    def starts(self) -> int:
        """How often the housekeeper was started."""

    def split(
        self,
        replica_set_id: ReplicaSetId,
        plan: SplitPlan,
        unfinished: str,
        done: Callable[[Answer], None],
    ) -> None:
        """Make the file of a plan at `unfinished`; `done(answer)` on the loop."""


class _Jobs(Protocol):
    """Another kind of jobs of the housekeeper."""

    def begin(self, new_name: Callable[[str], str], over: Callable[[], None]) -> bool: ...


@dataclass(slots=True)
class SplitStats:
    """Counters for the metrics page."""

    files: int = 0
    bytes: int = 0
    """Of the batches in them."""
    failures: int = 0


class Splits:
    """Keeps the housekeeper busy with the logs of one node."""

    def __init__(
        self,
        members: Mapping[ReplicaSetId, ReplicaSetMember],
        splitter: Splitter,
        clock: Clock,
        apply_retention: Callable[[ReplicaSetMember], None],
        *,
        token: str,
        cleanings: Cleanings | None = None,
    ) -> None:
        """`token` is of this start of the node alone: no other one writes files of its names."""
        self.cleanings = cleanings
        self.shrinkings = Shrinkings(members, splitter, clock)
        others: list[_Jobs] = [*([] if cleanings is None else [cleanings]), self.shrinkings]
        self._kinds: list[Callable[[], bool]] = [self._begin_split]
        self._kinds += (partial(self._begin_other, one) for one in others)
        """Begin a job of their kind if there is one, and return whether; first whose turn it is."""
        self._has_waited = False
        """Whether the last look left its turn to a retention pass; the next one does not."""
        self._members = members
        self._splitter = splitter
        self._apply_retention = apply_retention
        self._token = token
        if cleanings is not None:
            cleanings.is_moved = self._may_work
        self._file_number = 0
        self._last = 0
        """The set whose turn was last."""
        self._is_at_work = False
        self._may_go_on = False
        """Whether a job was begun, and nothing was looked for since."""
        self.failing = FailingLogs(clock)
        """Logs whose last split failed."""
        self.stats = SplitStats()

    @property
    def failing_count(self) -> int:
        """Number of logs whose last split failed, and of those with a file that is not shrunk."""
        return len(self.failing) + len(self.shrinkings.failing)

    @property
    def starts(self) -> int:
        """How often the housekeeper was started."""
        return self._splitter.starts

    def look(self) -> None:
        """Begin a job if there is one to do and none is under way; called about every second."""
        self.failing.keep(self._members)
        self.shrinkings.failing.keep(self._members)
        self._retain_outdated()
        if self.cleanings is not None:
            self.cleanings.look()
        if self._is_at_work:
            return
        self._has_waited = not self._has_waited and self._awaits_plan()
        if not (self._has_waited and self._kinds[0] == self._begin_split):
            self._begin_next()

    def _retain_outdated(self) -> None:
        """Have retention tell what is to be split, where it did not since a file came."""
        for member in list(self._members.values()):
            if member.log.splitting.is_outdated and not member.log.is_busy:
                self._apply_retention(member)

    def go_on(self) -> None:
        """Begin a job soon after one that is over; called several times a second.

        Not before retention has told what else is to be split. What is not known yet, as the dirt
        of what was moved just now, is for the next look.
        """
        if self._may_go_on and not self._is_at_work and not self._awaits_plan():
            self._begin_next()

    def _begin_next(self) -> None:
        self._may_go_on = False
        for begin in self._kinds:
            if begin():
                self._may_go_on = True
                self._kinds.remove(begin)
                self._kinds.append(begin)
                return

    def _awaits_plan(self) -> bool:
        """Whether a retention pass is about to tell what to split: else cleaning, after which
        another pass has to tell, would always come before it.
        """
        outdated = [one for one in self._members.values() if one.log.splitting.is_outdated]
        return any(self._may_work(member) for member in outdated)

    def _begin_other(self, others: _Jobs) -> bool:
        """Begin a job that is no split, if one is due; return whether."""

        def over() -> None:
            self._is_at_work = False
            self._retain_outdated()

        # The job may be over before this returns.
        self._is_at_work = True
        if others.begin(self._new_name, over):
            return True
        self._is_at_work = False
        return False

    def _new_name(self, directory: str) -> str:
        self._file_number += 1
        return f"{directory}/second/{self._token}-{self._file_number}{UNFINISHED}"

    def _begin_split(self) -> bool:
        """Begin a job for the next log with a plan, if there is one; return whether."""
        ids = sorted(self._members)
        for set_id in [*(one for one in ids if one > self._last), *ids]:
            member = self._members[set_id]
            plan = member.log.splitting.plan
            if plan is not None and self._may_work(member):
                self._last = set_id
                self._begin(member, plan)
                return True
        return False

    def _may_work(self, member: ReplicaSetMember) -> bool:
        is_waiting = self.failing.is_waiting(member.replica_set_id)
        return not (is_waiting or member.log.is_busy or member.log.is_fenced)

    def _begin(self, member: ReplicaSetMember, plan: SplitPlan) -> None:
        self._is_at_work = True
        splitting = member.log.splitting
        name = self._new_name(plan.directory)

        def done(answer: Answer) -> None:
            self._is_at_work = False
            self._made(member, splitting, name, answer)

        self._splitter.split(member.replica_set_id, plan, name, done)

    def _made(
        self, member: ReplicaSetMember, splitting: Splitting, name: str, answer: Answer
    ) -> None:
        is_void = member.log.splitting is not splitting or member.log.is_busy
        if is_void or isinstance(answer, Failed):
            # A housekeeper that was killed, or a log that was opened anew meanwhile, leaves it.
            member.log.splitting.discard(name)
        if is_void or not self._is_here(member):
            return
        if isinstance(answer, Failed):
            if answer.damage_position >= 0:
                splitting.on_damage(Position(answer.damage_position), answer.reason)
            self._note_failure(member, answer.reason)
        elif answer.extents == 0:
            self._note_failure(member, "no file has what is to be moved")
        else:
            assert isinstance(answer, Made), "a file of another kind of job"
            self._take_over(member, splitting, name, answer.batch_bytes)

    def _is_here(self, member: ReplicaSetMember) -> bool:
        return self._members.get(member.replica_set_id) is member

    def _take_over(
        self, member: ReplicaSetMember, splitting: Splitting, name: str, batch_bytes: int
    ) -> None:
        self._is_at_work = True

        def taken(error: PlatformError | None) -> None:
            self._is_at_work = False
            if not self._is_here(member) or member.log.splitting is not splitting:
                return
            if error is not None:
                self._note_failure(member, str(error))
                return
            self.stats.files += 1
            self.stats.bytes += batch_bytes
            if self.failing.succeeded(member.replica_set_id):
                log.info("set=%d is split again", member.replica_set_id)
            self._apply_retention(member)

        splitting.take_over(name, taken)

    def _note_failure(self, member: ReplicaSetMember, reason: str) -> None:
        self.stats.failures += 1
        is_first = self.failing.failed(member.replica_set_id)
        level = logging.WARNING if is_first else logging.DEBUG
        text = "set=%d can not be split, so its log keeps what could go: %s; it is tried again"
        log.log(level, text, member.replica_set_id, reason)
