"""What is damaged at the end of a run is found and acted on in the process that has the disk."""

import asyncio
from dataclasses import replace

import pytest

from penstock.base.ids import ReplicaSetId
from penstock.node.node import Node
from penstock.replica.mending import DamageStats
from penstock.replica.replica_set import ReplicaSetMember
from simulator.run.last_scrub import LastScrub
from simulator.run.one_run import Run, run_plan
from simulator.run.plan import Plan
from simulator.run.server import Server
from tests.sim.test_directed import BUSY, SET_WITH_RECORDS, image_of, server

pytestmark = [
    pytest.mark.timeout(600),
    pytest.mark.usefixtures("quiet"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

SHAPE = replace(BUSY, snapshot_after_bytes=2048, preferred_master_delay_ms=200)
BELOW_SNAPSHOTS = 300
"""A position that no start reads again."""


def _log_path(run: Run, one: Server) -> str:
    set_id = run.cluster.set_ids()[SET_WITH_RECORDS]
    paths = [path for path in one.disk.names if f"set-{set_id}/log/" in path]
    return min(path for path in paths if path.endswith(".log"))


async def _damage(run: Run, one: Server) -> None:
    """Flip a bit of what it has confirmed, and let it lead again."""
    one.kill()
    one.is_disk_damaged = True
    one.disk.flip_bit(_log_path(run, one), BELOW_SNAPSHOTS, 3)
    one.start()
    await run.until(lambda: image_of(run, SET_WITH_RECORDS).master == one.host.process_id)
    await run.until(lambda: len(image_of(run, SET_WITH_RECORDS).sync_state_set) == 3)


def test_a_master_repairs_what_the_last_scrub_finds_in_its_log() -> None:
    damage: list[DamageStats] = []

    async def schedule(run: Run) -> None:
        await asyncio.sleep(2)
        victim = server(run, f"master:{SET_WITH_RECORDS}")
        epoch = image_of(run, SET_WITH_RECORDS).leader_epoch
        victim.kill()
        await run.until(lambda: image_of(run, SET_WITH_RECORDS).leader_epoch > epoch)
        await _damage(run, victim)
        assert isinstance(victim.node, Node)
        assert victim.node.manager is not None
        damage.append(victim.node.manager.damage_stats)
        assert not damage[0].found_at_start, "only a scrub comes to it"

    result = run_plan(Plan(seed=1, shape=SHAPE, settle_ms=800), schedule)
    assert not result.findings, result.findings[:3]
    assert (damage[0].found_in_use, damage[0].repaired) == (1, 1)


def test_the_world_can_not_have_a_node_act() -> None:
    async def schedule(run: Run) -> None:
        node = server(run, f"master:{SET_WITH_RECORDS}").node
        assert isinstance(node, Node)
        assert node.manager is not None
        node.manager.scrubber.hurry(ReplicaSetId(run.cluster.set_ids()[SET_WITH_RECORDS]))

    with pytest.raises(AssertionError, match="<world#1 on world> schedules for"):
        run_plan(Plan(seed=1, shape=SHAPE), schedule)


def test_a_member_whose_disk_was_damaged_is_compared_again_once_it_is_repaired() -> None:
    async def schedule(run: Run) -> None:
        await asyncio.sleep(1)
        victim = server(run, f"slave:{SET_WITH_RECORDS}")
        victim.kill()
        victim.is_disk_damaged = True
        victim.disk.flip_bit(_log_path(run, victim), BELOW_SNAPSHOTS, 3)
        victim.start()
        await run.until(lambda: len(image_of(run, SET_WITH_RECORDS).sync_state_set) == 3)
        run.clients.stop_writing()
        await run.until(lambda: run.clients.is_idle)
        node = victim.node
        assert isinstance(node, Node)
        assert node.manager is not None
        manager, scrub = node.manager, LastScrub([victim])
        await run.until(lambda: not scrub.hurry() and manager.damage_stats.found_in_use == 1)
        await run.until(lambda: manager.damage_stats.repaired == 1)
        _begin_later(manager.members[ReplicaSetId(run.cluster.set_ids()[SET_WITH_RECORDS])])

    findings = run_plan(Plan(seed=1, shape=SHAPE, settle_ms=800), schedule).findings
    assert any(" the first offsets, " in finding for finding in findings), findings[:3]


def _begin_later(member: ReplicaSetMember) -> None:
    """Let the partition of the history begin at its end, at this member alone."""
    log = max(member.log.partitions.values(), key=lambda one: one.log_end_offset)
    log.raise_log_start(log.log_end_offset)
