"""States of replica sets, with everything else that masters and slaves might hear from there on.

Random runs go a walk now and then (sim/trials/replicas.py). These come to a set that is whole, one
that has shrunk, one under another policy, and go many.
"""

import asyncio
from dataclasses import replace

import pytest

from penstock.base.ack_policy import PolicyKind
from penstock.base.ids import ReplicaSetId
from penstock.node.node import Node
from simulator.run.one_run import Run, run_plan
from simulator.run.plan import Fault, FaultKind, Plan
from tests.sim.test_directed import (
    APART,
    BUSY,
    SET_WITH_RECORDS,
    image_of,
    leader_epoch,
    server,
)

pytestmark = [
    pytest.mark.timeout(600),
    pytest.mark.usefixtures("quiet"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

WALKS = 40
SLOW_MS = 40


def walk(run: Run, count: int = WALKS) -> None:
    """Go so many walks from the state that the set with records has now."""
    master = server(run, f"master:{SET_WITH_RECORDS}")
    assert isinstance(master.node, Node)
    assert master.node.manager is not None
    member = master.node.manager.members[ReplicaSetId(run.cluster.set_ids()[SET_WITH_RECORDS])]
    run.invariants.replica_trials.walk(master, member, count)


# A run under async-may-lose keeps no promises; walks draw that policy as well.
@pytest.mark.parametrize("policy", [one for one in PolicyKind if one is not PolicyKind.ASYNC])
def test_what_else_a_master_might_hear(policy: PolicyKind) -> None:
    async def schedule(run: Run) -> None:
        walk(run)
        slave = server(run, f"slave:{SET_WITH_RECORDS}")
        slave.kill()
        await run.until(lambda: len(image_of(run, SET_WITH_RECORDS).sync_state_set) < 3)
        walk(run)
        slave.start()
        await asyncio.sleep(0.3)
        walk(run)

    result = run_plan(Plan(seed=1, shape=replace(APART, policy=policy.value)), schedule)
    assert not result.findings, result.findings[:3]
    assert result.acked > 0


@pytest.mark.parametrize("amount", [0, 1])
def test_handing_over_and_electing_while_disks_are_slow(amount: int) -> None:
    """What is written and not durable yet is there all the time: nobody may count on it."""

    async def schedule(run: Run) -> None:
        for each in run.cluster.servers.values():
            each.disk.sync_delay_ms += SLOW_MS
        for _ in range(3):
            wish = Fault(kind=FaultKind.TRANSFER, at_ms=0, lasting_ms=0, targets=(), amount=amount)
            heal = run.faults.begin(wish)
            await asyncio.sleep(0.4)
            if heal is not None:
                heal()
        epoch = leader_epoch(run, SET_WITH_RECORDS)
        one = server(run, f"master:{SET_WITH_RECORDS}")
        one.kill()
        await run.until(lambda: leader_epoch(run, SET_WITH_RECORDS) > epoch)
        one.start()
        for each in run.cluster.servers.values():
            each.disk.sync_delay_ms = max(0.0, each.disk.sync_delay_ms - SLOW_MS)

    result = run_plan(Plan(seed=amount, shape=replace(BUSY, records_per_second=200)), schedule)
    assert not result.findings, result.findings[:3]
    assert result.acked > 0


def test_handing_over_to_a_member_that_is_slow() -> None:
    """Under a quorum nobody waits for it: it is behind for most of the time."""

    async def schedule(run: Run) -> None:
        for _ in range(6):
            master = server(run, f"master:{SET_WITH_RECORDS}")
            slow = [one for one in run.cluster.servers.values() if one is not master][-1]
            slow.disk.sync_delay_ms += 2 * SLOW_MS
            for amount in range(3):
                wish = Fault(
                    kind=FaultKind.TRANSFER, at_ms=0, lasting_ms=0, targets=(), amount=amount
                )
                heal = run.faults.begin(wish)
                await asyncio.sleep(0.15)
                if heal is not None:
                    heal()
            slow.disk.sync_delay_ms = max(0.0, slow.disk.sync_delay_ms - 2 * SLOW_MS)

    shape = replace(BUSY, policy=PolicyKind.QUORUM.value, records_per_second=200)
    result = run_plan(Plan(seed=1, shape=shape), schedule)
    assert not result.findings, result.findings[:3]
    assert result.acked > 0
