"""Between two starts of a housekeeper that dies with each job there are pauses that grow."""

import asyncio

import pytest

from penstock.housekeeper.messages import Failed, SplitJob
from penstock.runtime.housekeeper import PAUSE_SECONDS
from tests.runtime.test_housekeeper_process import Helped, run

JOB = SplitJob("/data", "set-1", "set-1/second/a.tmp", bytes(16), 1, 0, 0, (), ())


def test_each_pause_is_twice_as_long_as_the_one_before(monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: list[float] = []
    sleep = asyncio.sleep

    async def noted(seconds: float) -> None:
        pauses.append(seconds)
        await sleep(0)

    monkeypatch.setattr(asyncio, "sleep", noted)

    async def use(helped: Helped) -> None:
        for _ in range(4):
            assert isinstance(await helped.ask(JOB), Failed)

    run(use, ["/there/is/no/such/program"])
    assert pauses == [PAUSE_SECONDS * factor for factor in (2, 4, 8)]
