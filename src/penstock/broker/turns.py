"""Time sharing of long requests: one slice of one request at a time.

    request A   slice │ wait ............... │ slice
    request B         │ wait │ slice │ wait ...
    the loop          quiet turns    quiet turns

However many long requests there are, everything else on the node waits for one slice at a time:
heartbeats, leases and Raft, and clients with small requests. Between two slices there are turns
without any (net/quiet_turns.py). ADR 0033, ADR 0076.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Generator
from typing import TypeVar

from penstock.base.ports import Clock, Scheduler
from penstock.net.quiet_turns import QuietTurns

SLICE = 100
"""Steps of a handler per slice, such as a look-up of a topic name or a partition of an answer."""

R = TypeVar("R")


class Turns:
    """The tasks that wait for a slice, in order of arrival."""

    __slots__ = ("_clock", "_quiet", "_waiting")

    def __init__(self, scheduler: Scheduler, clock: Clock) -> None:
        self._clock = clock
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._quiet = QuietTurns(scheduler.call_soon, self._give)

    async def next(self) -> None:
        """Wait for a loop iteration in which no other long work runs, nor ran just before."""
        turn = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        self._quiet.ask()
        await turn

    async def run(self, slices: Generator[object, None, R], note: Callable[[int], None]) -> R:
        """Run a generator, each step in its own iteration; `note` gets the microseconds of each."""
        while True:
            await self.next()
            begun = self._clock.monotonic_us()
            try:
                next(slices)
            except StopIteration as end:
                result: R = end.value
                return result
            finally:
                note(self._clock.monotonic_us() - begun)

    def _give(self) -> None:
        while self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():  # else the waiting task was cancelled
                self._quiet.rest()
                turn.set_result(None)
                break
        if self._waiting:
            self._quiet.ask()


class Pace:
    """For a handler that processes many items: waits for another iteration after `SLICE` steps."""

    __slots__ = ("_count", "_turns")

    def __init__(self, turns: Turns | None) -> None:
        """Without turns nothing waits: the request is a short one."""
        self._turns = turns
        self._count = 0

    async def step(self, count: int = 1) -> None:
        """Call before `count` further items are processed."""
        self._count += count
        if self._count >= SLICE and self._turns is not None:
            self._count = 0
            await self._turns.next()
