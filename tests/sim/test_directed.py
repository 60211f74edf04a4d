"""Schedules for histories that random faults hardly ever come to."""

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from penstock.base.ids import ReplicaSetId
from penstock.controller.metadata.image import NO_MASTER, ReplicaSetImage
from penstock.node.node import Node
from simulator.faults.weather import Effect, pairs
from simulator.run.one_run import Run, run_plan
from simulator.run.plan import Plan, Shape
from simulator.run.server import Server

pytestmark = [
    pytest.mark.timeout(600),  # hangs only; what a run may take is bounded in the run
    pytest.mark.usefixtures("quiet"),
    # Processes that are cut off close nothing, and say so when they are collected.
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

APART = Shape(is_apart=True, partitions=1, producers=1)
BUSY = replace(APART, producers=3)
SET_WITH_RECORDS, EMPTY_SET = 0, 1


def follow(schedule: Callable[[Run], Coroutine[Any, Any, None]], shape: Shape = APART) -> None:
    """Run the schedule under a few seeds; nothing may be wrong with any."""
    for seed in range(3):
        result = run_plan(Plan(seed=seed, shape=shape), schedule)
        assert not result.findings, (seed, result.findings[:3])
        assert result.acked > 0


def image_of(run: Run, number: int) -> ReplicaSetImage:
    image = run.cluster.newest_image()
    assert image is not None
    return image.replica_sets[ReplicaSetId(run.cluster.set_ids()[number])]


def leader_epoch(run: Run, number: int) -> int:
    """The set's leader epoch, -1 while nobody leads it."""
    one = image_of(run, number)
    return -1 if one.master == NO_MASTER else one.leader_epoch


def server(run: Run, role: str) -> Server:
    (host,) = run.cluster.hosts([role])
    return run.cluster.servers[host]


def test_two_failovers_within_a_second() -> None:
    async def schedule(run: Run) -> None:
        before, begun_s = leader_epoch(run, SET_WITH_RECORDS), run.simulation.now_s
        victims = []
        for number in (1, 2):
            victims.append(server(run, f"master:{SET_WITH_RECORDS}"))
            victims[-1].kill()
            epoch = before + number
            await run.until(
                partial(lambda epoch: leader_epoch(run, SET_WITH_RECORDS) >= epoch, epoch)
            )
        assert run.simulation.now_s - begun_s < 1.0
        assert len({victim.name for victim in victims}) == 2

    follow(schedule)


def test_leader_epochs_without_writes() -> None:
    async def schedule(run: Run) -> None:
        for number in range(8):
            epoch = leader_epoch(run, EMPTY_SET)
            victim = server(run, f"master:{EMPTY_SET}")
            (victim.power_off if number % 2 else victim.kill)()
            await run.until(partial(lambda epoch: leader_epoch(run, EMPTY_SET) > epoch, epoch))
            victim.start()
            await run.until(lambda: len(image_of(run, EMPTY_SET).sync_state_set) > 1)
        for one in run.cluster.servers.values():
            one.power_off()
            one.start()

    follow(schedule)


@pytest.mark.parametrize("operations", range(0, 24, 3))
def test_a_truncation_that_loss_of_power_interrupts(operations: int) -> None:
    cuts: list[int] = []

    async def schedule(run: Run) -> None:
        old = server(run, f"master:{SET_WITH_RECORDS}")
        epoch = leader_epoch(run, SET_WITH_RECORDS)
        others = [host for host in run.cluster.servers if host != old.name]
        cut = Effect(pairs=pairs([old.name], others, both_ways=True), is_cut=True)
        run.cluster.weather.add(cut)
        await run.until(lambda: _is_ahead(run, old))  # else there is nothing to cut
        await run.until(lambda: leader_epoch(run, SET_WITH_RECORDS) > epoch)
        _lose_power_in_a_truncation(old, operations, cuts)
        run.cluster.weather.remove(cut)
        await run.until(lambda: not old.is_up, seconds=5)
        await asyncio.sleep(0.1)
        old.start()

    result = run_plan(Plan(seed=operations, shape=BUSY, settle_ms=800), schedule)
    assert cuts
    assert not result.findings, result.findings[:3]


def _is_ahead(run: Run, one: Server) -> bool:
    """Whether its log ends above those of all others in the set."""
    set_id = run.cluster.set_ids()[SET_WITH_RECORDS]
    ends = {
        server.name: server.node.manager.members[ReplicaSetId(set_id)].log.end_position
        for server in run.cluster.servers.values()
        if isinstance(server.node, Node) and server.node.manager is not None
    }
    return ends.pop(one.name) > max(ends.values())


def _lose_power_in_a_truncation(old: Server, operations: int, cuts: list[int]) -> None:
    def look(_: str, path: str) -> None:
        if "pending-change" in path and not cuts:
            cuts.append(operations)
            old.lose_power_after(operations)

    old.disk.on_operation = look


def test_a_late_change_of_the_sync_state_set_by_a_master_that_was_replaced() -> None:
    async def schedule(run: Run) -> None:
        old = server(run, f"master:{SET_WITH_RECORDS}")
        slave = server(run, f"slave:{SET_WITH_RECORDS}")
        epoch = leader_epoch(run, SET_WITH_RECORDS)
        controllers = [host for host in run.cluster.servers if host.startswith("c")]
        cut = Effect(pairs=pairs([old.name], controllers, both_ways=True), is_cut=True)
        run.cluster.weather.add(cut)
        slave.kill()  # the old master asks for a smaller set, and is not heard
        await run.until(lambda: leader_epoch(run, SET_WITH_RECORDS) > epoch)
        run.cluster.weather.remove(cut)
        await asyncio.sleep(1.0)
        assert leader_epoch(run, SET_WITH_RECORDS) > epoch

    follow(schedule)
