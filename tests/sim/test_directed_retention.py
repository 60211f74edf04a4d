"""Schedules for retention on members that do not lead: their logs take a master's bytes only."""

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from penstock.base.errors import PlatformError
from penstock.base.ids import ReplicaSetId
from penstock.node.node import Node
from penstock.replica.followed_set import FollowedSet
from penstock.replica.replica_set import ReplicaSetMember, Role
from penstock.replication.config import FirstSync
from penstock.storage.config import Retention
from simulator.run.one_run import Run
from simulator.run.server import Server
from tests.sim.test_directed import SET_WITH_RECORDS, follow, leader_epoch, server
from tests.sim.test_directed_logs import set_directory
from tests.sim.test_directed_sets import in_step, member_of

pytestmark = [
    pytest.mark.timeout(600),
    pytest.mark.usefixtures("quiet"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

MUCH_LATER_MS = 1 << 50
PASSES = 3
"""What lies in the active segment goes when a second pass finds it as it was."""


def retain(member: ReplicaSetMember) -> None:
    # Not by the log itself, which would forget its producers, too: they are not older than ever.
    log = member.log
    log.parts.retention.begin(log.partitions, MUCH_LATER_MS, lambda _: Retention(-1, 1))


async def retained(member: ReplicaSetMember) -> int:
    """Let retention pass over a log in which all is old; return how far that grew."""
    end = member.log.end_position
    for _ in range(PASSES):
        retain(member)
        await asyncio.sleep(0.05)
    return member.log.end_position - end


def opened(one: Server, set_id: int) -> ReplicaSetMember | None:
    manager = one.node.manager if isinstance(one.node, Node) else None
    return None if manager is None else manager.members.get(ReplicaSetId(set_id))


def test_retention_appends_nothing_to_the_log_of_a_member_without_a_role() -> None:
    grown: list[int] = []

    async def schedule(run: Run) -> None:
        # The last member in step is down, so nobody is elected when another one comes back.
        master = server(run, f"master:{SET_WITH_RECORDS}")
        brokers = [one for name, one in run.cluster.servers.items() if name.startswith("b")]
        slaves = [one for one in brokers if one is not master]
        set_id = run.cluster.set_ids()[SET_WITH_RECORDS]
        run.clients.stop_writing()
        await asyncio.sleep(0.5)
        slaves[0].kill()
        await run.until(lambda: in_step(run) == 2)
        slaves[1].kill()
        await run.until(lambda: in_step(run) == 1)
        master.kill()
        await asyncio.sleep(2.0)
        alone = slaves[1]
        alone.start()
        await run.until(lambda: opened(alone, set_id) is not None)
        await run.until(lambda: leader_epoch(run, SET_WITH_RECORDS) < 0)
        before = opened(alone, set_id)
        alone.kill()  # it knows of no master when it starts again: it has not even followed one
        alone.start()
        await run.until(lambda: opened(alone, set_id) not in {None, before})
        member = opened(alone, set_id)
        assert member is not None
        assert member.role is Role.IDLE
        member.log.note_confirmed(member.log.end_position)  # as it was, before the kill
        grown.append(await retained(member))
        for one in (master, slaves[0]):
            one.start()
        await run.until(lambda: in_step(run) == 3, seconds=10)

    follow(schedule)
    assert grown == [0, 0, 0]


def test_retention_appends_nothing_to_a_log_that_was_just_copied(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    grown: list[int] = []

    async def schedule(run: Run) -> None:
        one = server(run, f"slave:{SET_WITH_RECORDS}")
        settings = one._settings
        newest = replace(settings.replication, first_sync=FirstSync.NEWEST)
        one._settings = replace(settings, replication=newest)
        one.lose_disk(set_directory(run, one, SET_WITH_RECORDS))
        await run.until(lambda: in_step(run) == 2)
        master = server(run, f"master:{SET_WITH_RECORDS}")
        member_of(run, master).log.checkpoint()
        with monkeypatch.context() as patch:
            copied = hold_after_a_copy(run, patch)
            one.start()
            await run.until(lambda: bool(copied), seconds=10)
            grown.append(await retained(copied[0].member))
        await run.until(lambda: in_step(run) == 3, seconds=10)
        one._settings = settings

    follow(schedule)
    assert grown == [0, 0, 0]


def hold_after_a_copy(run: Run, patch: pytest.MonkeyPatch) -> list[FollowedSet]:
    """Let a slave that has copied its master's log greet only a second later; note it."""
    installed, copied = FollowedSet._installed, []
    set_id = run.cluster.set_ids()[SET_WITH_RECORDS]

    def slowly(followed: FollowedSet, error: PlatformError | None) -> Any:
        installed(followed, error)
        if error is None and followed.replica_set_id == set_id:
            followed._wait(1_000)
            copied.append(followed)

    patch.setattr(FollowedSet, "_installed", slowly)
    return copied
