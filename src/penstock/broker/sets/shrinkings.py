"""Has extent files of which half or less is held written anew without the rest, one at a time.

    the next log with such a file ─► what is held of it ─► a job for the housekeeper
      ─► its file is taken over in the place of the old one, which goes
    failed: told once, counted, tried again later each time; other logs go on

Every member of a set does it for itself, whatever its role: what is kept is equal on all, and in
which files it lies is not.

Source: docs/adr/0130. Which files: storage/second_level/shrinking.py.
"""

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from penstock.base.errors import PlatformError
from penstock.base.ids import ReplicaSetId
from penstock.base.ports import Clock
from penstock.broker.sets.failing import FailingLogs
from penstock.housekeeper.messages import Answer, Failed, Made
from penstock.replica.replica_set import ReplicaSetMember
from penstock.storage.errors import ExtentDamaged
from penstock.storage.second_level.shrinking import ShrinkPlan
from penstock.storage.second_level.splitting import Splitting

log = logging.getLogger(__name__)


class Shrinker(Protocol):
    """Makes the files: the housekeeper, as the node knows it."""

    def shrink(
        self,
        replica_set_id: ReplicaSetId,
        plan: ShrinkPlan,
        unfinished: str,
        done: Callable[[Answer], None],
    ) -> None:
        """Make the file of a plan at `unfinished`; `done(answer)` on the loop."""


@dataclass(slots=True)
class ShrinkStats:
    """Counters for the metrics page."""

    files: int = 0
    """That were written anew."""
    copied_bytes: int = 0
    """Of batches that were kept."""
    freed_bytes: int = 0
    """By which the files became smaller."""
    failures: int = 0


class _Job(NamedTuple):
    """The file that is being written anew."""

    member: ReplicaSetMember
    splitting: Splitting
    file_number: int
    unfinished: str


class Shrinkings:
    """Has the files of one node's logs shrunk; logs take turns."""

    def __init__(
        self, members: Mapping[ReplicaSetId, ReplicaSetMember], shrinker: Shrinker, clock: Clock
    ) -> None:
        self._members = members
        self._shrinker = shrinker
        self._last = 0
        """The set whose turn was last."""
        self._over: Callable[[], None] = _nobody
        self.failing = FailingLogs(clock)
        self.stats = ShrinkStats()

    def begin(self, new_name: Callable[[str], str], over: Callable[[], None]) -> bool:
        """Begin a job if there is one; return whether. `over()` when it has ended.

        `new_name(directory)` returns the name of the file to be made.
        """
        ids = sorted(self._members)
        for set_id in [*(one for one in ids if one > self._last), *ids]:
            member = self._members[set_id]
            if member.log.is_busy or member.log.is_fenced or self.failing.is_waiting(set_id):
                continue
            splitting = member.log.splitting
            number = splitting.shrinking.next_file(member.log.config)
            if number is not None:
                self._last, self._over = set_id, over
                self._plan(_Job(member, splitting, number, new_name(member.log.directory)))
                return True
        return False

    def _plan(self, job: _Job) -> None:
        def planned(plan: ShrinkPlan | None) -> None:
            if plan is None or self._is_void(job):
                self._over()
                return
            set_id = job.member.replica_set_id
            self._shrinker.shrink(set_id, plan, job.unfinished, lambda one: self._made(job, one))

        job.splitting.shrinking.plan(job.file_number, job.member.log.config, planned)

    def _is_void(self, job: _Job) -> bool:
        return job.member.log.splitting is not job.splitting or job.member.log.is_busy

    def _made(self, job: _Job, answer: Answer) -> None:
        is_void = self._is_void(job)
        if is_void or isinstance(answer, Failed):
            # A housekeeper that was killed, or a log that was opened anew meanwhile, leaves it.
            job.member.log.splitting.discard(job.unfinished)
        if is_void:
            self._over()
        elif isinstance(answer, Failed):
            self._failed(job, answer)
            self._over()
        else:
            assert isinstance(answer, Made), "a file of another kind of job"
            self._take_over(job, answer.batch_bytes)

    def _failed(self, job: _Job, answer: Failed) -> None:
        if not job.splitting.shrinking.is_held(job.file_number):
            return  # retention has dropped all of it meanwhile, or a repair has replaced it
        if answer.damaged_file >= 0:
            job.splitting.damage.heard(ExtentDamaged(answer.damaged_file, answer.reason))
        self._note_failure(job, answer.reason)

    def _take_over(self, job: _Job, batch_bytes: int) -> None:
        before = job.splitting.file_bytes

        def taken(error: PlatformError | None) -> None:
            if not self._is_void(job):
                if error is None:
                    self._note_success(job, batch_bytes, before - job.splitting.file_bytes)
                else:
                    self._note_failure(job, str(error))
            self._over()

        job.splitting.put_instead(job.file_number, job.unfinished, taken)

    def _note_success(self, job: _Job, copied_bytes: int, freed_bytes: int) -> None:
        self.stats.files += 1
        self.stats.copied_bytes += copied_bytes
        self.stats.freed_bytes += max(freed_bytes, 0)
        if self.failing.succeeded(job.member.replica_set_id):
            log.info("set=%d: extent files are shrunk again", job.member.replica_set_id)

    def _note_failure(self, job: _Job, reason: str) -> None:
        self.stats.failures += 1
        set_id = job.member.replica_set_id
        is_first = self.failing.failed(set_id)
        level = logging.WARNING if is_first else logging.DEBUG
        text = "set=%d file=%d can not be shrunk, so disk is not freed: %s; it is tried again"
        log.log(level, text, set_id, job.file_number, reason)


def _nobody() -> None:
    """Stands in before the first job."""
