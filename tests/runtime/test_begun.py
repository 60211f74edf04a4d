import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest

from penstock.runtime.io.begun import begin
from penstock.runtime.io.supervisor import Supervisor
from tests.net.serving import run


def test_what_is_begun_runs_to_its_first_wait_at_once_and_goes_on_when_that_is_over() -> None:
    async def scenario() -> None:
        said: list[str] = []
        gate = asyncio.Event()

        async def work() -> None:
            said.append("begun")
            await gate.wait()
            said.append("in between")
            await asyncio.sleep(0)
            said.append("over")

        task = begin("work", work())
        assert said == ["begun"]
        await asyncio.sleep(0)
        gate.set()
        await task
        assert said == ["begun", "in between", "over"]

    run(scenario())


def test_what_waits_for_nothing_is_over_at_once() -> None:
    async def scenario() -> None:
        said: list[str] = []

        async def work() -> None:
            said.append("all")

        task = begin("work", work())
        assert said == ["all"]
        await task

    run(scenario())


@pytest.mark.parametrize("is_in_a_task", [True, False])
def test_a_time_out_of_the_first_step_ends_what_was_begun_and_not_its_caller(
    is_in_a_task: bool,
) -> None:
    async def scenario() -> None:
        outcome: asyncio.Future[str] = asyncio.get_running_loop().create_future()

        async def work() -> None:
            try:
                async with asyncio.timeout(0.01):
                    await asyncio.Event().wait()
            except TimeoutError:
                outcome.set_result("timed out")

        if is_in_a_task:
            begin("work", work())
        else:
            asyncio.get_running_loop().call_soon(begin, "work", work())
        own = asyncio.current_task()
        assert await outcome == "timed out"
        assert asyncio.current_task() is own

    run(scenario())


def test_what_is_cancelled_before_its_task_has_run_hears_of_it_where_it_waits() -> None:
    async def scenario() -> None:
        heard: list[str] = []

        async def work() -> None:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                heard.append("cancelled")
                raise

        task = begin("work", work())
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert heard == ["cancelled"]

    run(scenario())


def test_what_was_over_before_it_is_cancelled_stays_over() -> None:
    async def scenario() -> None:
        async def work() -> None:
            pass

        task = begin("work", work())
        task.cancel()
        await task

    run(scenario())


@pytest.mark.parametrize("waits", [True, False])
def test_an_unexpected_end_of_what_was_begun_stops_the_process(waits: bool) -> None:
    async def scenario() -> None:
        stopped: asyncio.Future[str] = asyncio.get_running_loop().create_future()

        async def work() -> None:
            if waits:
                await asyncio.sleep(0)
            raise KeyError("a bug")

        started: Coroutine[Any, Any, None] = work()
        Supervisor(stopped.set_result).begin("the-task", started)
        assert "the-task" in await stopped

    run(scenario())
