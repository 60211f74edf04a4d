"""The housekeeper of a simulated process: the same jobs, as work of one more thread of its disk.

It ends with the process, wherever its work stands, as the real one does. In some plans it also dies
alone: between two operations of its disk, leaving what it has written, and another one is started
for the next job.
"""

from collections.abc import Callable
from random import Random

from penstock.base.ports import Disk, DiskFile, Offload
from penstock.housekeeper.jobs import run_job
from penstock.housekeeper.messages import Answer, Failed, Job
from penstock.housekeeper.metered import MeteredDisk

OPERATIONS_MAX = 60
"""A job that dies does so before at most so many reads and writes; one that has fewer is done."""


class SimHousekeeper:
    """See penstock.housekeeper.port.Housekeeper."""

    def __init__(
        self, disk: Disk, offload: Offload, draw: Random, *, death_share: float = 0.0
    ) -> None:
        """`death_share`: of the jobs in which it dies."""
        self._disk = disk
        self._offload = offload
        self._random = draw
        self._death_share = death_share
        self._is_stopped = False
        self._is_alive = False
        self.starts = 0

    def submit(self, job: Job, done: Callable[[Answer], None]) -> None:
        self.starts += not self._is_alive
        self._is_alive = True
        disk = self._disk_of_job()

        def work() -> Answer:
            try:
                return run_job(disk, job)
            except _Died:
                return Failed("the housekeeper has died")

        def finished(answer: Answer | None, error: BaseException | None) -> None:
            if error is not None:
                raise error
            self._is_alive = self._is_alive and not disk.is_dead
            if answer is not None and not self._is_stopped:
                done(answer)

        self._offload.submit(work, finished)

    def _disk_of_job(self) -> "_MortalDisk":
        dies = self._death_share > 0 and self._random.random() < self._death_share
        return _MortalDisk(self._disk, self._random.randrange(OPERATIONS_MAX) if dies else -1)

    def set_rate(self, bytes_per_second: int) -> None:
        """Ignore it: work takes the time that the thread gives it."""

    async def stop(self) -> None:
        self._is_stopped = True


class _Died(BaseException):
    """Nothing of the job runs any more."""


class _MortalDisk(MeteredDisk):
    """A job's disk that ends it after some operations; what comes then does nothing."""

    def __init__(self, disk: Disk, operations: int) -> None:
        """`operations` may be negative: it lives on."""
        super().__init__(disk, self._count)
        self._left = operations
        self._remove = disk.remove
        self.is_dead = False
        self.remove = self._remove_alive

    def open(self, path: str, *, create: bool = False) -> DiskFile:
        self._go_on()
        return super().open(path, create=create)

    def _remove_alive(self, path: str) -> None:
        self._go_on()
        self._remove(path)

    def _count(self, _: int) -> None:
        self._go_on()

    def _go_on(self) -> None:
        if self._left == 0:
            self.is_dead = True
            raise _Died
        self._left -= 1
