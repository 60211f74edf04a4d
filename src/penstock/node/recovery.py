"""Opening the commit logs at start: off the loop, with progress, cancellable.

    loop      open() ─────────────── progress to /ready and the log ───────► take over, report line
    worker           replay the files, [progress every 8 MiB] ──► done

The loop stays free, so that /health answers and SIGTERM is handled. Giving up raises from the next
progress report; until then only indexes have been written, and the next start repeats the work.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import TypeVar

from penstock.base.ports import Clock, Disk, Offload, Scheduler
from penstock.node.layout import ReplicaSetPlace
from penstock.node.pages.readiness import Readiness
from penstock.storage.commit_log.set_log import SetLog
from penstock.storage.config import LogConfig
from penstock.storage.errors import CorruptLog, NewerFormat
from penstock.storage.recover.report import RecoveryReport

T = TypeVar("T")

PROGRESS_EVERY_BYTES = 256 << 20
"""Between two log lines; /ready shows every step."""

_STOPS = {"": "the end of a segment", "magic is 0x0000": "the end of data"}

log = logging.getLogger(__name__)


class GivenUp(Exception):
    """The node is stopping while it recovers a log."""


class LogOpener:
    """Opens one log after the other. `give_up` may be called at any time."""

    def __init__(
        self, config: LogConfig, clock: Clock, scheduler: Scheduler, readiness: Readiness
    ) -> None:
        self.config = config
        """The settings of every log; those of logs that are open are told apart."""
        self._clock = clock
        self._scheduler = scheduler
        self._readiness = readiness
        self._is_given_up = False
        self._logged_bytes = 0

    def give_up(self) -> None:
        """End a running recovery at its next progress report."""
        self._is_given_up = True

    async def open(
        self, place: ReplicaSetPlace, disk: Disk, workers: Offload, *, is_sole_member: bool
    ) -> SetLog:
        """Open the log of one place. Raises StorageError, OSError."""
        loop = asyncio.get_running_loop()
        self._logged_bytes = 0

        def progress(done_bytes: int, total_bytes: int) -> None:
            if self._is_given_up:
                raise GivenUp
            loop.call_soon_threadsafe(self._show, place, done_bytes, total_bytes)

        set_log = SetLog(
            disk=disk,
            directory=place.name,
            config=self.config,
            clock=self._clock,
            offload=workers,
            scheduler=self._scheduler,
        )
        set_log.is_sole_member = is_sole_member
        try:
            set_log.open(await in_worker(workers, lambda: set_log.replay(progress)))
        except CorruptLog as error:  # the log knows its place in its directory only
            raise CorruptLog(str(place.path), error.position, error.reason) from error
        except NewerFormat as error:
            raise NewerFormat(f"{place.path}: {error.path}", error.what) from error
        log.info("recovery set=%d %s", place.replica_set_id, describe(set_log.recovery))
        return set_log

    def _show(self, place: ReplicaSetPlace, done_bytes: int, total_bytes: int) -> None:
        set_id = place.replica_set_id
        self._readiness.enter(
            "recovery", replica_set=set_id, done_bytes=done_bytes, total_bytes=total_bytes
        )
        if done_bytes - self._logged_bytes >= PROGRESS_EVERY_BYTES:
            self._logged_bytes = done_bytes
            log.info("recovery set=%d done=%d of=%d bytes", set_id, done_bytes, total_bytes)


def describe(report: RecoveryReport) -> str:
    """Return a line about a recovery; sizes in bytes."""
    stop = report.stop_reason
    parts = [
        f"end={report.end_position}",
        f"snapshot={report.snapshot_position}",
        f"replayed={report.replayed_bytes} frames={report.replayed_frames}",
        f"cut={report.cut_bytes} frames={report.frames_cut}",
        "clean" if report.was_clean else f"stopped at: {_STOPS.get(stop, stop)}",
    ]
    parts += [f"rebuilt: {damaged}" for damaged in report.damaged_files]
    return ", ".join(parts)


async def in_worker(workers: Offload, work: Callable[[], T]) -> T:
    """Run `work` on a disk's threads; return what it returns, raise what it raises."""
    outcome: asyncio.Future[T | None] = asyncio.get_running_loop().create_future()

    def done(result: T | None, error: BaseException | None) -> None:
        if outcome.done():
            return  # the waiting task was cancelled
        if error is not None:
            outcome.set_exception(error)
        else:
            outcome.set_result(result)

    workers.submit(work, done)
    result = await outcome
    assert result is not None
    return result
