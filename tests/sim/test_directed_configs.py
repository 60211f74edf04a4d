"""Brokers are configured anew while controllers fail, in simulated clusters."""

import asyncio

import pytest

from penstock.controller.commands.command import (
    AlterConfigs,
    ConfigEdit,
    ConfigOperation,
    ResourceEdits,
)
from penstock.controller.errors import MetadataError
from penstock.controller.metadata.kinds import ResourceType
from penstock.node.node import Node
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
RETENTION = "log.retention.ms"


async def alter(run: Run, broker: str, value: str | None) -> None:
    """Ask until it is taken; asking twice does no harm."""
    operation = ConfigOperation.DELETE if value is None else ConfigOperation.SET
    edits = (ConfigEdit(key=RETENTION, operation=operation, value=value),)
    resource = ResourceEdits(resource_type=ResourceType.BROKER, resource_name=broker, edits=edits)

    async def work(node: Node) -> None:
        assert node.sessions is not None
        while True:
            try:
                (outcome,) = await node.sessions.submit(AlterConfigs(resources=(resource,)))
            except MetadataError:
                await asyncio.sleep(0.1)
            else:
                assert outcome.error is None, outcome.error
                return

    assert run.cluster.ask("configuration", work)


def in_force(run: Run) -> dict[int, set[int]]:
    """What topics come to on each broker, and what new ones would."""
    return {
        node.image.controller_id if broker_id is None else broker_id: {
            node.image.defaults.retention_ms,
            *(topic.settings.retention_ms for topic in node.image.topics_by_id.values()),
        }
        for node in run.cluster.nodes()
        for broker_id in (node._broker.broker_id,)
    }


async def until_in_force(run: Run, wanted: dict[int, int]) -> None:
    def is_so() -> bool:
        found = in_force(run)
        return found == {one: {wanted.get(one, wanted[0])} for one in found} and len(found) > 1

    await run.until(is_so, seconds=20)


@pytest.mark.parametrize("shape", [APART, COMPACTED], ids=["log", "snapshots"])
def test_every_broker_goes_by_what_is_set_while_controllers_die_and_come_back(
    shape: Shape,
) -> None:
    # Whoever is behind gets entries or a snapshot: in both the defaults of topics change.
    async def schedule(run: Run) -> None:
        leader = await active(run)
        one, other = (server(run, host) for host in CONTROLLERS if host != leader.name)
        first = min(in_force(run))
        one.kill()
        await alter(run, "", "1000")
        await until_in_force(run, {0: 1000})
        leader.kill()
        one.start()
        await alter(run, str(first), "2000")
        leader.start()
        await until_in_force(run, {0: 1000, first: 2000})
        cut = cut_off(run, other.name)
        await change_metadata(run)
        await alter(run, "", "3000")
        await alter(run, str(first), None)
        run.cluster.weather.remove(cut)
        await until_in_force(run, {0: 3000})
        await change_metadata(run)
        await until_in_force(run, {0: 3000})

    follow(schedule, shape)
