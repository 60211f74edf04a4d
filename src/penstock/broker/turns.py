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
SLICE_US = 1_000
"""A slice ends earlier once it has taken so long: steps of one handler cost ten times another's."""
CHECKED_STEPS = 8
"""Steps between two looks at the clock."""

R = TypeVar("R")


class Turns:
    """The tasks that wait for a slice, in order of arrival."""

    __slots__ = ("_clock", "_quiet", "_waiting")

    def __init__(self, scheduler: Scheduler, clock: Clock) -> None:
        self._clock = clock
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._quiet = QuietTurns(scheduler.call_soon, self._give)

    def now_us(self) -> int:
        """Return the time from some moment on; it stands still in a turn of the simulator."""
        return self._clock.monotonic_us()

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
    """For a handler that processes many items: waits for another iteration after each slice."""

    __slots__ = ("_begun_us", "_checked", "_count", "_turns")

    def __init__(self, turns: Turns | None) -> None:
        """Without turns nothing waits: the request is a short one."""
        self._turns = turns
        self._count = 0
        self._checked = 0
        """The count at the last look at the clock."""
        self._begun_us = 0 if turns is None else turns.now_us()

    async def step(self, count: int = 1) -> None:
        """Call before `count` further items are processed.

        Items that waited count in the slice that they are processed in: else a large step, such as
        a metric that is decoded at once, would be followed by another one in the same turn.
        """
        self._count += count
        if self._turns is not None and self._is_over(self._turns):
            await self._turns.next()
            self._count = max(0, min(count, SLICE) - 1)  # so that SLICE equal steps fill it
            self._checked = 0
            self._begun_us = self._turns.now_us()

    def _is_over(self, turns: Turns) -> bool:
        if self._count >= SLICE:
            return True
        if self._count - self._checked < CHECKED_STEPS:
            return False
        self._checked = self._count
        return turns.now_us() - self._begun_us >= SLICE_US
