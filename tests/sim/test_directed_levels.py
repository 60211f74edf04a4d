"""The metadata's level goes down and up while controllers fail, in simulated clusters."""

import asyncio

import pytest

from penstock.controller.errors import MetadataError
from penstock.controller.metadata.levels import FIRST_LEVEL, METADATA, METADATA_LEVELS
from penstock.node.node import Node
from penstock.runtime.session.messages import ChangeFeature
from simulator.run.one_run import Run
from simulator.run.plan import Shape
from tests.sim.test_directed_voters import (
    APART,
    COMPACTED,
    CONTROLLERS,
    active,
    change_metadata,
    cut_off,
    follow,
    server,
)

pytestmark = [
    pytest.mark.timeout(600),  # hangs only; what a run may take is bounded in the run
    pytest.mark.usefixtures("quiet"),
    # Processes that are cut off close nothing, and say so when they are collected.
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


async def set_level(run: Run, level: int, *, is_lowering: bool) -> None:
    """Ask until it is done: it is refused while somebody is not heard."""

    async def work(node: Node) -> None:
        assert node.sessions is not None
        while True:
            try:
                await node.sessions.commands.operate(
                    lambda request_id: ChangeFeature(
                        request_id=request_id,
                        feature=METADATA,
                        level=level,
                        is_lowering=is_lowering,
                    )
                )
            except MetadataError:
                await asyncio.sleep(0.1)
            else:
                return

    assert run.cluster.ask("level", work)
    await run.until(lambda: levels(run) == {level}, seconds=20)


def levels(run: Run) -> set[int]:
    """The levels that the images of all brokers are at."""
    return {node.image.metadata_level for node in run.cluster.nodes()}


@pytest.mark.parametrize("shape", [APART, COMPACTED], ids=["log", "snapshots"])
def test_a_level_is_lowered_and_raised_while_controllers_die_and_come_back(
    shape: Shape,
) -> None:
    # Whoever is behind a lowering gets a snapshot: its entries are kept by nobody.
    async def schedule(run: Run) -> None:
        leader = await active(run)
        one, other = (server(run, host) for host in CONTROLLERS if host != leader.name)
        await run.until(lambda: levels(run) == {METADATA_LEVELS.highest}, seconds=5)
        await set_level(run, FIRST_LEVEL, is_lowering=True)
        one.kill()
        await change_metadata(run)
        leader.kill()
        one.start()
        leader.start()
        await set_level(run, METADATA_LEVELS.highest, is_lowering=False)
        cut = cut_off(run, other.name)
        await change_metadata(run)
        run.cluster.weather.remove(cut)
        await set_level(run, FIRST_LEVEL, is_lowering=True)
        await change_metadata(run)

    follow(schedule, shape)
