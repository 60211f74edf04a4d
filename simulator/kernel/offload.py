"""The threads of a simulated disk: work runs later in virtual time, then its callback.

    submit ─► a thread is free ─► latency, more on a slow disk ─► work ─► a moment ─► done

Most work is atomic. Some pauses between operations of its disk, and whatever else is due runs
there: callbacks of the same process, its end, other work (see worker.py). Between the work and
`done` the process may end, so that data is durable without the process knowing it. Each lane has
four threads as in production, so that later work may finish earlier. Work runs in the context of
its submitter, so that it ends with that process and waits while it is paused.
"""

import asyncio
from collections.abc import Callable
from random import Random
from typing import TypeVar

from penstock.base.ports import Lane
from simulator.kernel.disk import SimDisk
from simulator.kernel.process import process_of
from simulator.kernel.worker import Worker

T = TypeVar("T")

THREADS = 4
LATENCY_S = (0.00005, 0.002)
"""Of one piece of work on a disk that is not slow: from, to."""
ANSWER_S = 0.0002
"""The longest between the work and its answer."""
APART_SHARE = 0.03
"""Share of the work that stops in between; a thread costs more than most work does."""
STOP_SHARE = 0.4
"""Of such work: before how many of its operations it stops."""


class SimOffload:
    """See the module, and base.ports.Offload. One for each process and data directory."""

    def __init__(self, loop: asyncio.AbstractEventLoop, disk: SimDisk, rng: Random) -> None:
        self._loop = loop
        self._disk = disk
        self._rng = rng
        self._free_at = {lane: [0.0] * THREADS for lane in Lane}
        self._waiting: dict[int, tuple[asyncio.TimerHandle, Callable[[], None]]] = {}
        self._stopped: dict[int, Worker] = {}
        self._count = 0
        self._is_closing = False
        process = process_of(None)
        if process is not None:
            process.on_over.append(self._abandon)

    def submit(
        self,
        work: Callable[[], T],
        done: Callable[[T | None, BaseException | None], None],
        lane: Lane = Lane.WORK,
    ) -> None:
        self._count += 1
        number = self._count
        free_at = self._free_at[lane]
        start = max(self._loop.time(), min(free_at))
        at = start + self._latency()
        free_at[free_at.index(min(free_at))] = at

        def run() -> None:
            del self._waiting[number]
            if not self._is_closing and self._rng.random() < APART_SHARE:
                self._go_on(number, Worker(work, stops=self._stops), done)
                return
            result: T | None = None
            failure: BaseException | None = None
            try:
                result = work()
            except BaseException as error:  # noqa: BLE001  handed on, as a thread does
                failure = error
            self._answer(done, result, failure)

        self._waiting[number] = (self._loop.call_at(at, run), run)

    def _go_on(self, number: int, worker: Worker, done: Callable[..., None]) -> None:
        """Let it run to its next stop, and go on from there a moment later."""
        self._stopped[number] = worker
        before, self._disk.before_operation = self._disk.before_operation, worker.before_operation
        try:
            has_ended = worker.step()
        finally:
            self._disk.before_operation = before
        if worker.is_abandoned:
            return
        if has_ended:
            del self._stopped[number]
            self._answer(done, worker.result, worker.failure)
            return

        def run() -> None:
            self._waiting.pop(number, None)
            self._go_on(number, worker, done)

        self._waiting[number] = (self._loop.call_later(self._latency(), run), run)

    def _stops(self) -> bool:
        return not self._is_closing and self._rng.random() < STOP_SHARE

    def _answer(self, done: Callable[..., None], result: object, failure: object) -> None:
        self._loop.call_later(self._rng.uniform(0, ANSWER_S), done, result, failure)

    def _abandon(self) -> None:
        """The process is gone, its threads with it, and what they would have done."""
        for timer, _ in self._waiting.values():
            timer.cancel()
        self._waiting.clear()
        for worker in list(self._stopped.values()):
            before, self._disk.before_operation = (
                self._disk.before_operation,
                worker.before_operation,
            )
            worker.abandon()
            self._disk.before_operation = before
        self._stopped.clear()

    def _latency(self) -> float:
        latency = self._rng.uniform(*LATENCY_S)
        if self._disk.sync_delay_ms:
            latency += self._rng.uniform(0.5, 1.5) * self._disk.sync_delay_ms / 1000
        return latency

    def close(self) -> None:
        """Do at once what was handed in, to its end."""
        self._is_closing = True
        for timer, run in list(self._waiting.values()):
            timer.cancel()
            run()
