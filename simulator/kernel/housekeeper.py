"""The housekeeper of a simulated process: the same jobs, as work of one more thread of its disk.

It ends with the process, wherever its work stands, as the real one does. A real one that dies alone
is not simulated here.
"""

from collections.abc import Callable

from penstock.base.ports import Disk, Offload
from penstock.housekeeper.jobs import run_job
from penstock.housekeeper.messages import Answer, Job
from penstock.housekeeper.metered import MeteredDisk


class SimHousekeeper:
    """See penstock.housekeeper.port.Housekeeper."""

    def __init__(self, disk: Disk, offload: Offload) -> None:
        self._disk = MeteredDisk(disk, _count_nothing)
        self._offload = offload
        self._is_stopped = False
        self.starts = 0

    def submit(self, job: Job, done: Callable[[Answer], None]) -> None:
        self.starts = 1

        def finished(answer: Answer | None, error: BaseException | None) -> None:
            if error is not None:
                raise error
            if answer is not None and not self._is_stopped:
                done(answer)

        self._offload.submit(lambda: run_job(self._disk, job), finished)

    def set_rate(self, bytes_per_second: int) -> None:
        """Ignore it: work takes the time that the thread gives it."""

    async def stop(self) -> None:
        self._is_stopped = True


def _count_nothing(_: int) -> None:
    """Stand in for a meter: work takes the time that the thread gives it."""
