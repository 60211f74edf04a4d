"""Long work takes turns: one slice at a time, whoever waits, and others in between."""

import asyncio
from collections.abc import Generator
from itertools import pairwise

from penstock.broker.turns import SLICE, Pace, Turns
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


def test_a_pace_waits_after_every_slice_of_a_long_request_alone() -> None:
    async def scenario() -> None:
        waits = 0

        class Counted(Turns):
            async def next(self) -> None:
                nonlocal waits
                waits += 1

        turns = Counted(LoopScheduler(asyncio.get_running_loop()), SystemClock())
        pace = Pace(turns)
        for _ in range(3 * SLICE):
            await pace.step()
        assert waits == 3
        for _ in range(3 * SLICE):
            await Pace(None).step()

    run(scenario())
