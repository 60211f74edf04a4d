"""Schedules around replica ids, registrations, members that come and go, unclean elections."""

import asyncio
from dataclasses import replace
from functools import partial

import pytest

from penstock.base.ack_policy import AckPolicy, PolicyKind
from penstock.base.ids import BrokerId, ReplicaSetId
from penstock.controller.commands.command import AddReplica, SetAckPolicy, SetUncleanElection
from penstock.controller.metadata.causes import Cause
from penstock.controller.metadata.image import NO_MASTER
from penstock.node.node import Node
from penstock.replica.master_set import MasterSet
from penstock.replica.replica_set import ReplicaSetMember
from penstock.replication.sync_state import Change
from simulator.faults.weather import Effect, pairs
from simulator.kernel.disk import SimDisk
from simulator.run.one_run import Run, run_plan
from simulator.run.plan import Plan
from simulator.run.server import Server
from tests.sim.test_directed import (
    APART,
    BUSY,
    SET_WITH_RECORDS,
    follow,
    image_of,
    leader_epoch,
    server,
)

pytestmark = [
    pytest.mark.timeout(600),  # hangs only; what a run may take is bounded in the run
    pytest.mark.usefixtures("quiet"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

QUORUM = AckPolicy(kind=PolicyKind.QUORUM)
TWO_OF_THREE = AckPolicy(kind=PolicyKind.K_OF_N, required=2)
ADAPTIVE = AckPolicy(kind=PolicyKind.ADAPTIVE, required=2)
PAIR = replace(APART, replication_factor=2)
LONE = replace(BUSY, replication_factor=1)


def master_set(run: Run, one: Server) -> MasterSet | None:
    """The mastership at work on that server, if it leads the set with records."""
    node = one.node
    manager = node.manager if isinstance(node, Node) else None
    set_id = run.cluster.set_ids()[SET_WITH_RECORDS]
    return None if manager is None else manager.server.sets.get(ReplicaSetId(set_id))


def member_of(run: Run, one: Server) -> ReplicaSetMember:
    """That server's member of the set with records."""
    assert isinstance(one.node, Node)
    assert one.node.manager is not None
    return one.node.manager.members[ReplicaSetId(run.cluster.set_ids()[SET_WITH_RECORDS])]


def lose_disk(run: Run, one: Server) -> None:
    """Cut the power, and put an empty disk in."""
    one.power_off()
    one.disk = SimDisk(run.simulation.random(f"new disk of {one.name}"))


def cut(run: Run, some: list[str], others: list[str]) -> Effect:
    effect = Effect(pairs=pairs(some, others, both_ways=True), is_cut=True)
    run.cluster.weather.add(effect)
    return effect


def controllers(run: Run) -> list[str]:
    return [host for host in run.cluster.servers if host.startswith("c")]


def in_step(run: Run) -> int:
    return len(image_of(run, SET_WITH_RECORDS).sync_state_set)


def cut_off_when_it_asks(run: Run, one: Server, cuts: list[Effect]) -> None:
    """Cut the master off from the controllers as soon as it asks for another sync-state set."""
    leading = master_set(run, one)
    assert leading is not None
    submit = leading._submit

    def cut_and_submit(asking: MasterSet, change: Change) -> None:
        if not cuts:
            cuts.append(cut(run, [one.name], controllers(run)))
        submit(asking, change)

    leading._submit = cut_and_submit


def test_an_empty_log_is_not_let_in_by_a_change_that_was_meant_for_the_lost_one() -> None:
    # KIP-903: the change is on its way when the member loses its disk and registers an empty log.
    async def schedule(run: Run) -> None:
        old, member = server(run, "master:0"), server(run, "slave:0")
        broker_id = member.host.process_id
        member.kill()
        await run.until(lambda: in_step(run) == 1)
        lost = image_of(run, SET_WITH_RECORDS).replica_ids[BrokerId(broker_id)]
        silent: list[Effect] = []
        cut_off_when_it_asks(run, old, silent)
        member.start()
        await run.until(lambda: bool(silent))
        apart = cut(run, [old.name], [member.name])
        lose_disk(run, member)
        member.start()
        await run.until(
            lambda: (
                image_of(run, SET_WITH_RECORDS).replica_ids.get(BrokerId(broker_id), lost) != lost
            )
        )
        run.cluster.weather.remove(silent[0])
        await asyncio.sleep(0.5)
        old.kill()
        run.cluster.weather.remove(apart)
        await asyncio.sleep(2.0)
        assert image_of(run, SET_WITH_RECORDS).master != broker_id, "it has nothing"

    follow(schedule, PAIR)


def test_a_master_whose_set_has_grown_follows_after_a_failover() -> None:
    # A set of one claims and snapshots what its master alone holds. It must not go on with that.
    async def schedule(run: Run) -> None:
        old = server(run, "master:0")
        set_id = run.cluster.set_ids()[SET_WITH_RECORDS]
        others = [broker for broker in run.cluster.brokers.values() if broker != old.name]
        first = run.cluster.servers[others[0]].host.process_id

        async def add(node: Node) -> None:
            assert node.sessions is not None
            await node.sessions.submit(
                AddReplica(replica_set_id=ReplicaSetId(set_id), broker_id=BrokerId(first))
            )

        run.cluster.ask("add", add)
        await run.until(lambda: in_step(run) == 2)
        await asyncio.sleep(0.3)
        leading = master_set(run, old)
        assert leading is not None
        log, member = leading.member.log, leading.member
        epoch = leader_epoch(run, SET_WITH_RECORDS)
        apart = cut(run, [old.name], [*others, *controllers(run)])
        await run.until(lambda: log.durable_position > member.confirm_position)
        saved: list[bool] = []
        log.checkpoint(saved.append)
        await run.until(lambda: leader_epoch(run, SET_WITH_RECORDS) > epoch)
        assert saved == []
        run.cluster.weather.remove(apart)
        await run.until(lambda: in_step(run) == 2)

    follow(schedule, LONE)


def test_the_old_master_follows_after_an_unclean_election_and_an_ordinary_one() -> None:
    found: list[str] = []

    async def schedule(run: Run) -> None:
        old, other = server(run, "master:0"), server(run, "slave:0")
        set_id = run.cluster.set_ids()[SET_WITH_RECORDS]
        other.kill()
        await run.until(lambda: in_step(run) == 1)
        await asyncio.sleep(0.3)  # what is acknowledged now is the old master's alone
        old.kill()
        await run.until(lambda: image_of(run, SET_WITH_RECORDS).master == NO_MASTER)

        async def allow(node: Node, *, is_allowed: bool) -> None:
            assert node.sessions is not None
            command = SetUncleanElection(replica_set_id=ReplicaSetId(set_id), is_allowed=is_allowed)
            await node.sessions.submit(command)

        other.start()
        run.cluster.ask("allow", partial(allow, is_allowed=True))
        await run.until(lambda: image_of(run, SET_WITH_RECORDS).master == other.host.process_id)
        unclean = image_of(run, SET_WITH_RECORDS).unclean_epoch
        run.cluster.ask("forbid", partial(allow, is_allowed=False))
        await run.until(lambda: not image_of(run, SET_WITH_RECORDS).is_unclean_allowed)
        await asyncio.sleep(0.3)
        other.kill()
        await run.until(lambda: image_of(run, SET_WITH_RECORDS).master == NO_MASTER)
        other.start()
        await run.until(lambda: leader_epoch(run, SET_WITH_RECORDS) > unclean)
        assert image_of(run, SET_WITH_RECORDS).last_cause is not Cause.UNCLEAN
        old.start()
        await run.until(lambda: in_step(run) == 2)
        found.append("in step")

    for seed in range(3):  # records are lost, as an unclean election may: they are not judged here
        result = run_plan(Plan(seed=seed, shape=PAIR), schedule)
        assert not [text for text in result.findings if "replicas are not equal" in text]
    assert len(found) == 3


def test_a_member_that_joins_while_its_process_is_replaced_holds_everything() -> None:
    # It begins with an empty disk, and restarts with the same log as it is about to be in step.
    async def schedule(run: Run) -> None:
        member, silent = server(run, "slave:0"), list[Effect]()
        lose_disk(run, member)
        member.start()
        await run.until(lambda: in_step(run) == 1)
        master = server(run, "master:0")
        cut_off_when_it_asks(run, master, silent)
        await run.until(lambda: bool(silent))
        member.restart()
        await asyncio.sleep(0.2)
        run.cluster.weather.remove(silent[0])
        await run.until(lambda: in_step(run) == 2)
        server(run, "master:0").kill()
        await run.until(lambda: image_of(run, SET_WITH_RECORDS).master == member.host.process_id)

    follow(schedule, PAIR)


def test_the_old_master_follows_when_async_lost_its_tail_and_the_policy_is_stricter_by_now() -> (
    None
):
    # What was confirmed on one copy may be gone after an ordinary election, whatever comes later.
    found: list[str] = []

    async def schedule(run: Run) -> None:
        old, other = server(run, "master:0"), server(run, "slave:0")
        set_id = run.cluster.set_ids()[SET_WITH_RECORDS]

        def change(kind: PolicyKind) -> None:
            command = SetAckPolicy(replica_set_id=ReplicaSetId(set_id), policy=AckPolicy(kind=kind))
            run.cluster.insist(
                kind,
                command,
                lambda image: image.replica_sets[ReplicaSetId(set_id)].policy.kind is kind,
            )

        change(PolicyKind.ASYNC)
        await run.until(lambda: image_of(run, SET_WITH_RECORDS).policy.kind is PolicyKind.ASYNC)
        await run.until(lambda: in_step(run) == 2)
        leading, following = master_set(run, old), member_of(run, other)
        assert leading is not None
        await run.until(
            lambda: leading.member.confirm.membership.policy.kind is PolicyKind.ASYNC
        )  # it has heard
        apart, silent = cut(run, [old.name], [other.name]), cut(run, [old.name], controllers(run))
        await run.until(lambda: leading.member.confirm_position > following.log.end_position)
        await run.until(lambda: image_of(run, SET_WITH_RECORDS).master == other.host.process_id)
        assert image_of(run, SET_WITH_RECORDS).last_cause is not Cause.UNCLEAN
        run.cluster.weather.remove(silent)
        change(PolicyKind.ALL)
        await run.until(lambda: image_of(run, SET_WITH_RECORDS).policy.kind is PolicyKind.ALL)
        run.cluster.weather.remove(apart)
        await run.until(lambda: in_step(run) == 2)
        found.append("in step")

    for seed in range(3):  # records are lost, as the policy's name says: they are not judged here
        result = run_plan(Plan(seed=seed, shape=PAIR), schedule)
        assert not [text for text in result.findings if "replicas are not equal" in text]
    assert len(found) == 3


@pytest.mark.parametrize("policy", [QUORUM, TWO_OF_THREE, ADAPTIVE])
def test_what_two_slaves_had_confirmed_without_their_master_outlives_its_restart(
    policy: AckPolicy,
) -> None:
    """Nobody may be cut to the log of a master that resumes: it may have less than was confirmed.

    Found by seed 3874: all lost power while the master's disk was slow, and no controller answered.
    """

    async def schedule(run: Run) -> None:
        brokers = [host for host in run.cluster.servers if host.startswith("b")]
        master = server(run, f"master:{SET_WITH_RECORDS}")
        set_id = run.cluster.set_ids()[SET_WITH_RECORDS]
        assert isinstance(master.node, Node)
        assert master.node.sessions is not None
        run.cluster.insist(
            "policy",
            SetAckPolicy(replica_set_id=ReplicaSetId(set_id), policy=policy),
            lambda image: image.replica_sets[ReplicaSetId(set_id)].policy == policy,
        )
        await run.until(lambda: image_of(run, SET_WITH_RECORDS).policy == policy)
        master.disk.sync_delay_ms += 2_000
        at = member_of(run, master).log.durable_position
        await run.until(lambda: member_of(run, master).confirm_position > at + 5_000)
        assert member_of(run, master).log.durable_position < at + 5_000
        alone = cut(run, brokers, controllers(run))
        for host in brokers:
            run.cluster.servers[host].power_off()
        master.disk.sync_delay_ms -= 2_000
        for host in brokers:
            run.cluster.servers[host].start()
        await asyncio.sleep(3.0)
        run.cluster.weather.remove(alone)

    follow(schedule)
