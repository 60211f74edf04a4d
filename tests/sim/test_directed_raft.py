"""Moments of the controllers' group from which it lives on under bad luck, on copies of its logs.

See simulator/trials/raft_walk.py: what no run has the time for.
"""

import asyncio

import pytest

from simulator.run.one_run import Run, run_plan
from simulator.run.plan import Plan, Shape
from tests.sim.test_directed_voters import (
    APART,
    COMPACTED,
    CONTROLLERS,
    Schedule,
    active,
    change_metadata,
    cut_off,
    server,
)

pytestmark = [
    pytest.mark.timeout(600),  # hangs only; what a run may take is bounded in the run
    pytest.mark.usefixtures("quiet"),
    # Processes that are cut off close nothing, and say so when they are collected.
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

WALKS = 12


def follow(schedule: Schedule, shape: Shape, seed: int) -> None:
    """Run it once; nothing may be wrong."""
    result = run_plan(Plan(seed=seed, shape=shape), schedule)
    assert not result.findings, result.findings[:3]
    assert result.acked > 0


def walk(run: Run) -> None:
    """Live on from here, a few times."""
    before = run.raft_walks.walks
    run.raft_walks.walk(run.cluster.servers.values(), WALKS)
    assert run.raft_walks.walks == before + WALKS
    assert not run.invariants.findings, run.invariants.findings


@pytest.mark.parametrize("shape", [APART, COMPACTED], ids=["log", "snapshots"])
def test_from_logs_of_several_terms(shape: Shape) -> None:
    async def schedule(run: Run) -> None:
        for _ in range(2):
            leader = await active(run)
            leader.kill()
            await change_metadata(run, 2)
            leader.start()
        walk(run)

    follow(schedule, shape, seed=1)


def test_from_logs_that_part() -> None:
    async def schedule(run: Run) -> None:
        leader = await active(run)
        cut_off(run, leader.name)
        await asyncio.sleep(0.05)
        await change_metadata(run, 2)
        walk(run)
        run.cluster.weather.clear()

    follow(schedule, APART, seed=2)


def test_from_a_voter_that_has_lost_its_disk() -> None:
    async def schedule(run: Run) -> None:
        leader = await active(run)
        wiped = next(server(run, host) for host in CONTROLLERS if host != leader.name)
        wiped.replace_disk()
        wiped.start()
        await asyncio.sleep(0.3)
        walk(run)

    follow(schedule, COMPACTED, seed=3)
