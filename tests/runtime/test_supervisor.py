import asyncio
import logging

import pytest

from penstock.base.errors import PlatformError
from penstock.base.invariant import InvariantViolation
from penstock.runtime.io import supervisor as room
from penstock.runtime.io.supervisor import Supervisor
from tests.net.serving import run


class Unavailable(PlatformError):
    """An expected error."""


@pytest.fixture(autouse=True)
def no_delay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(room, "RESTART_DELAY_S", 0)


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


@pytest.mark.parametrize("error", [Unavailable("later"), OSError(5, "later")])
def test_a_service_is_started_again_after_an_expected_error(error: Exception) -> None:
    async def scenario() -> None:
        reasons: list[str] = []
        attempts: list[int] = []
        worked = asyncio.Event()

        async def service() -> None:
            attempts.append(len(attempts))
            if len(attempts) < 3:
                raise error
            worked.set()

        supervisor = Supervisor(reasons.append)
        supervisor.run_service("the-service", service)
        await worked.wait()
        await supervisor.stop()
        assert (len(attempts), reasons) == (3, [])

    run(scenario())


def test_a_service_that_never_works_stops_the_process_in_the_end() -> None:
    async def scenario() -> None:
        stopped: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        attempts: list[int] = []

        async def service() -> None:
            attempts.append(1)
            raise Unavailable("never")

        Supervisor(stopped.set_result).run_service("the-service", service)
        assert "the-service" in await stopped
        assert len(attempts) == room.RESTARTS_MAX

    run(scenario())


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
