import asyncio
import logging

import pytest

from penstock.base.invariant import InvariantViolation
from penstock.runtime.io.supervisor import Supervisor
from tests.net.serving import run


@pytest.mark.parametrize("error", [InvariantViolation("broken"), KeyError("a bug")])
def test_an_unexpected_end_of_a_task_stops_the_process_and_names_the_task(
    error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        stopped: asyncio.Future[str] = asyncio.get_running_loop().create_future()

        async def work() -> None:
            raise error

        Supervisor(stopped.set_result).run_once("the-task", work())
        assert "the-task" in await stopped

    run(scenario())
    assert caplog.records[-1].levelno == logging.CRITICAL
    assert caplog.records[-1].exc_info


def test_stopping_cancels_every_task_and_calls_it_no_failure() -> None:
    async def scenario() -> None:
        reasons: list[str] = []
        ended: list[str] = []

        async def work(name: str) -> None:
            try:
                await asyncio.Event().wait()
            finally:
                ended.append(name)

        supervisor = Supervisor(reasons.append)
        for name in ("one", "two"):
            supervisor.run_once(name, work(name))
        await asyncio.sleep(0)
        await supervisor.stop()
        assert (sorted(ended), reasons) == (["one", "two"], [])

    run(scenario())
