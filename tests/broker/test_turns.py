"""Long work takes turns: one slice at a time, whoever waits, and others in between."""

import asyncio
from collections.abc import Generator
from itertools import pairwise

from penstock.broker.turns import CHECKED_STEPS, SLICE, SLICE_US, Pace, Turns
from penstock.runtime.io.clock import LoopScheduler, SystemClock
from tests.net.serving import run


def test_those_who_wait_take_turns_and_others_go_on_between_them() -> None:
    order: list[str] = []

    def slices(name: str) -> Generator[None, None, str]:
        for _ in range(3):
            order.append(name)
            yield
        return name

    async def other() -> None:
        while len([one for one in order if one != "-"]) < 6:
            order.append("-")
            await asyncio.sleep(0)

    async def scenario() -> None:
        turns = Turns(LoopScheduler(asyncio.get_running_loop()), SystemClock())
        noted: list[int] = []
        results = await asyncio.gather(
            turns.run(slices("a"), noted.append), turns.run(slices("b"), noted.append), other()
        )
        assert list(results[:2]) == ["a", "b"]
        assert len(noted) == 8, "every step, also the last one"

    run(scenario())
    worked = [one for one in order if one != "-"]
    assert worked == ["a", "b"] * 3
    at = [place for place, one in enumerate(order) if one != "-"]
    assert all(later - earlier > 1 for earlier, later in pairwise(at))


def test_who_gives_up_holds_nobody_up() -> None:
    async def scenario() -> None:
        turns = Turns(LoopScheduler(asyncio.get_running_loop()), SystemClock())
        first = asyncio.ensure_future(turns.next())
        second = asyncio.ensure_future(turns.next())
        await asyncio.sleep(0)
        first.cancel()
        await second

    run(scenario())


class SetClock:
    """Stands still unless it is set."""

    now_us = 0

    def monotonic_us(self) -> int:
        return self.now_us

    def monotonic_ms(self) -> int:
        return self.now_us // 1_000

    def wall_ms(self) -> int:
        return self.now_us // 1_000


class Counted(Turns):
    """Each turn comes at once; the number of them is counted."""

    waits = 0

    async def next(self) -> None:
        self.waits += 1


def test_a_pace_waits_after_every_slice_of_a_long_request_alone() -> None:
    async def scenario() -> None:
        turns = Counted(LoopScheduler(asyncio.get_running_loop()), SetClock())
        pace = Pace(turns)
        for _ in range(3 * SLICE):
            await pace.step()
        assert turns.waits == 3
        for _ in range(3 * SLICE):
            await Pace(None).step()

    run(scenario())


def test_what_a_large_step_counts_for_is_of_the_slice_that_it_waited_for() -> None:
    async def scenario() -> None:
        turns = Counted(LoopScheduler(asyncio.get_running_loop()), SetClock())
        pace = Pace(turns)
        for number in range(10):
            await pace.step(SLICE - 1)
            assert turns.waits == number, "each in a slice of its own"
            await pace.step(0)
        for number in range(10, 20):
            await pace.step(5 * SLICE)
            assert turns.waits == number, "whatever it counts for"
        await pace.step()
        assert turns.waits == 20, "and nothing beside it"
        await pace.step(0)
        await pace.step(SLICE // 2)
        await pace.step(SLICE // 2 - 1)
        assert turns.waits == 20

    run(scenario())


def test_a_pace_waits_earlier_where_steps_take_long() -> None:
    async def scenario() -> None:
        clock = SetClock()
        turns = Counted(LoopScheduler(asyncio.get_running_loop()), clock)
        clock.now_us = 10 * SLICE_US
        pace = Pace(turns)
        step_us = SLICE_US // (2 * CHECKED_STEPS) + 1
        for number in range(1, 6 * CHECKED_STEPS + 1):
            clock.now_us += step_us
            await pace.step()
            assert turns.waits == number // (2 * CHECKED_STEPS)
        clock.now_us += SLICE_US
        for _ in range(CHECKED_STEPS - 1):
            await pace.step()
        assert turns.waits == 3, "the clock is not asked at each step"
        await pace.step()
        assert turns.waits == 4

    run(scenario())
