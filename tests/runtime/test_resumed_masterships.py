"""Masterships that a process takes up again after a restart, without a controller's word."""

from pathlib import Path

import pytest

from harness.ha_cluster import HaCluster, ha_cluster
from penstock.base.ids import BrokerId, LeaderEpoch, ReplicaSetId
from penstock.controller.commands.command import AddReplica, RemoveReplica
from penstock.replica.replica_set import ReplicaSetMember, Role
from penstock.storage.commit_log.set_log import SetLog
from penstock.storage.errors import OutOfSpace
from tests.net.serving import run


def fill(cluster: HaCluster, broker: int) -> None:
    for number in range(20):
        cluster[broker].append(3, fill=number)


async def master_is_back_without_controllers_and_broker_3(cluster: HaCluster) -> None:
    await cluster.make_set(1, 2, 3)
    fill(cluster, 1)
    await cluster.confirmed(1)
    for broker in cluster.brokers.values():
        broker.cut_off()
    await cluster[3].crash()
    await cluster[1].crash()
    await cluster[1].start(is_registering=False)
    await cluster.until(lambda: 1 in cluster[1].manager.members)


def test_without_controllers_a_restarted_master_resumes_without_alarm_when_all_replicas_agree(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", logger="penstock.runtime.ha.set_driver")

    async def scenario() -> None:
        async with ha_cluster(tmp_path, 1, 2, 3) as cluster:
            await master_is_back_without_controllers_and_broker_3(cluster)
            await cluster.until(
                lambda: (
                    cluster[1].manager.server.sets[ReplicaSetId(1)].sessions.get(BrokerId(2))
                    is not None
                    and cluster[1]
                    .manager.server.sets[ReplicaSetId(1)]
                    .sessions[BrokerId(2)]
                    .is_streaming
                )
            )
            assert cluster[1].member().role is Role.IDLE, "broker 3 has not agreed"
            await cluster[3].start(is_registering=False)
            await cluster.leads(1)
            assert cluster[1].member().leader_epoch == 0
            fill(cluster, 1)
            await cluster.confirmed(1)
            await cluster.equal(1, 2, 3)

    run(scenario())
    said = [each for each in caplog.records if "mastership" in each.message]
    assert [each.levelname for each in said] == ["INFO"]
    assert "WARNING" not in {each.levelname for each in caplog.records if "was master" in each.msg}


def roles_of(member: ReplicaSetMember) -> list[tuple[Role, int]]:
    """Roles that it takes from now on, with their epochs."""
    roles: list[tuple[Role, int]] = []
    member.on_role_changed.append(lambda one: roles.append((one.role, one.leader_epoch)))
    return roles


def test_a_mastership_that_was_resumed_goes_on_when_its_set_becomes_its_own(tmp_path: Path) -> None:
    # It would be an ordinary one then. To begin it anew would refuse all writes under way.
    async def scenario() -> None:
        async with ha_cluster(tmp_path, 1, 2, 3) as cluster:
            await master_is_back_without_controllers_and_broker_3(cluster)
            await cluster[3].start(is_registering=False)
            await cluster.leads(1)
            member = cluster[1].member()
            roles = roles_of(member)
            for broker in cluster.brokers.values():
                broker.cut_off(is_cut=False)
            for broker_id in (2, 3):
                cluster.controllers.submit(
                    RemoveReplica(replica_set_id=ReplicaSetId(1), broker_id=BrokerId(broker_id))
                )
            await cluster.until(lambda: member.confirm.membership.replicas == (1,))
            fill(cluster, 1)
            await cluster.confirmed(1)
            assert roles == []

    run(scenario())


def test_a_restarted_master_of_a_set_of_its_own_leads_on_when_the_set_grows(tmp_path: Path) -> None:
    # It is as if it resumed, but nobody has to agree any more: it leads already.
    async def scenario() -> None:
        async with ha_cluster(tmp_path, 1, 2) as cluster:
            await cluster.make_set(1)
            fill(cluster, 1)
            await cluster.confirmed(1)
            await cluster[1].crash()
            await cluster[1].start(is_registering=False)
            await cluster.leads(1)
            roles = roles_of(cluster[1].member())
            cluster.controllers.submit(
                AddReplica(replica_set_id=ReplicaSetId(1), broker_id=BrokerId(2))
            )
            await cluster.in_step(1, 2)
            fill(cluster, 1)
            await cluster.confirmed(1)
            await cluster.equal(1, 2)
            assert roles == []

    run(scenario())


def test_a_mastership_that_could_not_be_resumed_for_want_of_room_is_resumed_when_there_is_some(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # All have agreed by then, and no slave shakes hands again for the master to notice.
    full: set[SetLog] = set()
    begin_epoch = SetLog.begin_epoch

    def begin(own_log: SetLog, leader_epoch: LeaderEpoch) -> None:
        if own_log in full:
            raise OutOfSpace(own_log.directory)
        begin_epoch(own_log, leader_epoch)

    async def scenario() -> None:
        async with ha_cluster(tmp_path, 1, 2, 3) as cluster:
            await master_is_back_without_controllers_and_broker_3(cluster)
            full.add(cluster[1].member().log)
            await cluster[3].start(is_registering=False)
            await cluster.until(lambda: "resume" in cluster[1].trouble())
            assert cluster[1].member().role is Role.IDLE
            full.clear()
            await cluster.leads(1)
            assert not cluster[1].trouble()
            fill(cluster, 1)
            await cluster.confirmed(1)

    monkeypatch.setattr(SetLog, "begin_epoch", begin)
    run(scenario())
