"""Operators who insist: what they asked for before, the opposite of it, is recorded later."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from penstock.base.ids import BrokerId
from penstock.controller.session import DrainRequest
from penstock.node.node import Node
from simulator.run.cluster import SURELY_DONE_SECONDS
from simulator.run.one_run import Run, run_plan
from simulator.run.plan import Plan, Shape
from tests.sim.test_directed import server

pytestmark = [
    pytest.mark.timeout(600),
    pytest.mark.usefixtures("quiet"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


def drain(broker_id: int, *, is_draining: bool) -> Callable[[Node], Coroutine[Any, Any, object]]:
    def work(node: Node) -> Coroutine[Any, Any, object]:
        assert node.sessions is not None
        return node.sessions.commands.operate(
            lambda number: DrainRequest(
                request_id=number, broker_id=BrokerId(broker_id), is_draining=is_draining
            )
        )

    return work


def is_draining(run: Run, broker_id: int) -> bool:
    image = run.cluster.newest_image()
    return image is not None and image.brokers[BrokerId(broker_id)].is_draining


def test_a_drain_that_is_recorded_long_after_it_was_ended_is_ended_again() -> None:
    """Seed 5255: a controller that was alone had the drain in its log, and found others later."""
    seen: list[bool] = []

    async def schedule(run: Run) -> None:
        active = server(run, "active")
        others = [one for one in run.cluster.servers.values() if one is not active]
        for one in others:
            one.kill()
        broker_id = others[-1].host.process_id
        assert run.cluster.ask("drain", drain(broker_id, is_draining=True))
        await asyncio.sleep(0.3)
        run.cluster.insist_on(
            "drain ends",
            drain(broker_id, is_draining=False),
            lambda image: not image.brokers[BrokerId(broker_id)].is_draining,
        )
        await asyncio.sleep(SURELY_DONE_SECONDS + 1.0)
        assert not is_draining(run, broker_id)
        others[0].start()  # it can not lead: its log is the shorter one
        await run.until(lambda: is_draining(run, broker_id))
        seen.append(True)
        others[-1].start()

    assert run_plan(Plan(seed=3, shape=Shape(), settle_ms=300), schedule).findings == []
    assert seen
