"""A mastership that is held goes on when its set grows from one member or shrinks to one."""

from pathlib import Path

from harness.ha_cluster import ha_cluster

from penstock.broker.sets.replica_set import ReplicaSetMember, Role
from penstock.controller.commands.command import (
    AddReplica,
    RemoveReplica,
)
from tests.net.serving import run
from tests.runtime.test_replica_manager import fill, master_is_back_without_controllers_and_broker_3


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
                cluster.controllers.submit(RemoveReplica(replica_set_id=1, broker_id=broker_id))
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
            cluster.controllers.submit(AddReplica(replica_set_id=1, broker_id=2))
            await cluster.in_step(1, 2)
            fill(cluster, 1)
            await cluster.confirmed(1)
            await cluster.equal(1, 2)
            assert roles == []

    run(scenario())
