"""Schedules for voters of the controllers that lose their disks while the cluster runs."""

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import replace
from typing import Any

import pytest

from penstock.controller.commands import SetFailover
from penstock.node.node import Node
from penstock.sim.plan import Plan, Shape
from penstock.sim.run import Run, run_plan
from penstock.sim.server import Server
from penstock.sim.weather import Effect, pairs

pytestmark = [
    pytest.mark.timeout(120),  # hangs only; what a run may take is bounded in the run
    pytest.mark.usefixtures("quiet"),
    # Processes that are cut off close nothing, and say so when they are collected.
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

APART = Shape(is_apart=True, partitions=1, producers=1)
COMPACTED = replace(APART, snapshot_after_bytes=512)
CONTROLLERS = ("c1", "c2", "c3")
SHAPES = pytest.mark.parametrize("shape", [APART, COMPACTED], ids=["log", "snapshots"])
Schedule = Callable[[Run], Coroutine[Any, Any, None]]


def follow(schedule: Schedule, shape: Shape = APART) -> None:
    """Run the schedule under a few seeds; nothing may be wrong with any."""
    for seed in range(3):
        result = run_plan(Plan(seed=seed, shape=shape), schedule)
        assert not result.findings, (seed, result.findings[:3])
        assert result.acked > 0


def server(run: Run, host: str) -> Server:
    return run.cluster.servers[host]


async def active(run: Run) -> Server:
    """Wait until a controller leads; the one of the newest term."""
    await run.until(lambda: bool(run.cluster.hosts(["active"])), seconds=5)
    (host,) = run.cluster.hosts(["active"])
    return server(run, host)


def cut_off(run: Run, *hosts: str) -> Effect:
    others = [host for host in run.cluster.servers if host not in hosts]
    cut = Effect(pairs=pairs(hosts, others, both_ways=True), is_cut=True)
    run.cluster.weather.add(cut)
    return cut


async def change_metadata(run: Run, count: int = 6) -> None:
    """Commit entries that only the controllers which are up now have."""

    async def work(node: Node) -> None:
        assert node.sessions is not None
        for number in range(count):
            await node.sessions.submit(SetFailover(is_enabled=number % 2 == 1))

    image = run.cluster.newest_image()
    assert image is not None
    before = max(one.plane.log.applied_index for one in run.cluster.nodes())
    assert run.cluster.ask("change metadata", work)
    await run.until(
        lambda: max(one.plane.log.applied_index for one in run.cluster.nodes()) >= before + count,
        seconds=5,
    )


@SHAPES
def test_a_wiped_voter_does_not_vote_for_a_log_without_what_was_committed(shape: Shape) -> None:
    # What is committed while one is cut off is on two disks; then one of these is lost.
    async def schedule(run: Run) -> None:
        leader = await active(run)
        wiped, behind = (server(run, host) for host in CONTROLLERS if host != leader.name)
        cut = cut_off(run, behind.name)
        await change_metadata(run)
        leader.kill()
        wiped.replace_disk()
        run.cluster.weather.remove(cut)
        wiped.start()
        await asyncio.sleep(3.0)
        assert not run.cluster.hosts(["active"]), "elected by a voter that has forgotten"
        leader.start()
        await change_metadata(run)

    follow(schedule, shape)
