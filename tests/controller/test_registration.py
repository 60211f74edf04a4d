"""Registration, replica ids, members, policies, fencing: each as a command alone."""

from dataclasses import replace

import pytest

from harness.ids import as_brokers
from penstock.base.ack_policy import AckPolicy, PolicyKind
from penstock.base.ids import BrokerEpoch, BrokerId, LeaderEpoch, ReplicaSetId
from penstock.controller import errors as e
from penstock.controller.commands import command as c
from penstock.controller.metadata.causes import Cause
from penstock.controller.metadata.image import (
    NO_EPOCH,
    NO_FLOOR,
    NO_MASTER,
    ClusterImage,
    ReplicaSetImage,
)
from penstock.controller.metadata.replay import replay
from penstock.controller.metadata.snapshot import snapshot_records
from tests.controller.cluster import Cluster
from tests.controller.joining import joining

SET = ReplicaSetId(0)
TWO_OF_THREE = AckPolicy(kind=PolicyKind.K_OF_N, required=2)


def _register(cluster: Cluster, broker_id: int = 0, **changed: object) -> int:
    fields: dict[str, object] = {
        "broker_id": broker_id,
        "host": "h",
        "port": 1,
        "identity": f"disk-{broker_id}",
        "incarnation": "run-1",
    }
    return cluster.submit(c.RegisterBroker(**{**fields, **changed}))  # type: ignore[arg-type]


def test_a_replica_set_has_an_id_that_fits_everywhere() -> None:
    cluster = _cluster()
    for set_id in (-2, 2**31, 2**40):
        with pytest.raises(e.InvalidMetadataRequest):
            cluster.submit(
                c.CreateReplicaSet(replica_set_id=ReplicaSetId(set_id), replicas=as_brokers(0, 1))
            )


def _cluster(policy: AckPolicy | None = None) -> Cluster:
    """Brokers 0 to 3; set 0 has the members 0, 1, 2 with registered logs, led by 0."""
    cluster = Cluster(sets=())
    for broker_id in range(4):
        _register(cluster, broker_id)
    cluster.submit(
        c.CreateReplicaSet(replica_set_id=SET, replicas=as_brokers(0, 1, 2), policy=policy)
    )
    for broker_id in range(3):
        _log(cluster, broker_id)
    cluster.submit(c.BeginMastership(replica_set_id=SET, master=BrokerId(0)))
    return cluster


def _log(cluster: Cluster, broker_id: int, name: str = "log") -> int:
    command = c.RegisterReplica(
        replica_set_id=SET, broker_id=BrokerId(broker_id), log_id=f"{name}-{broker_id}"
    )
    return cluster.submit(command)


def _set(cluster: Cluster) -> ReplicaSetImage:
    return cluster.image.replica_sets[SET]


def _begin(cluster: Cluster, **changed: object) -> c.NewMastership:
    one = _set(cluster)
    fields: dict[str, object] = {
        "replica_set_id": 0,
        "master": 1,
        "leader_epoch": one.leader_epoch,
        "sync_state_set_epoch": one.sync_state_set_epoch,
        "cause": Cause.OPERATOR,
        "sync_state_set": (1, 2),
    }
    return c.NewMastership(**{**fields, **changed})  # type: ignore[arg-type]


def _change(cluster: Cluster, *members: int) -> int:
    one = _set(cluster)
    return cluster.submit(
        c.ChangeSyncStateSet(
            replica_set_id=SET,
            master=one.master,
            leader_epoch=one.leader_epoch,
            sync_state_set_epoch=one.sync_state_set_epoch,
            sync_state_set=as_brokers(*members),
            joining=joining(one, cluster.image.brokers, members),
        )
    )


def test_an_id_belongs_to_the_data_directory_that_took_it_first() -> None:
    cluster = _cluster()
    with pytest.raises(e.BrokerIdTaken):
        _register(cluster, identity="another disk")
    with pytest.raises(e.InvalidMetadataRequest):
        cluster.submit(c.ForgetIdentity(broker_id=BrokerId(0)))
    cluster.submit(
        c.FenceBrokers(brokers=((BrokerId(0), cluster.image.brokers[BrokerId(0)].broker_epoch),))
    )
    cluster.submit(c.ForgetIdentity(broker_id=BrokerId(0)))
    _register(cluster, identity="another disk")
    assert cluster.image.brokers[BrokerId(0)].identity == "another disk"


def test_broker_epochs_grow_with_every_registration_and_repeats_write_nothing() -> None:
    cluster = _cluster()
    before = len(cluster.log)
    assert _register(cluster) == 1
    assert len(cluster.log) == before
    assert _register(cluster, host="elsewhere") == 5
    assert _register(cluster, 1, incarnation="run-2") == 6


def test_a_new_incarnation_ends_its_masterships_and_a_new_address_does_not() -> None:
    cluster = _cluster()
    _register(cluster, host="elsewhere")
    assert _set(cluster).master == 0
    _register(cluster, incarnation="run-2")
    one = _set(cluster)
    assert (one.master, one.leader_epoch, one.last_cause) == (NO_MASTER, 1, "restart")
    assert (one.last_master, one.sync_state_set) == (0, (0, 1, 2))


def test_replica_ids_are_given_out_once_for_each_log() -> None:
    cluster = _cluster()
    assert dict(_set(cluster).replica_ids) == {0: 1, 1: 2, 2: 3}
    assert _log(cluster, 1) == 2
    assert _log(cluster, 1, "new") == 4
    assert _log(cluster, 1) == 5
    with pytest.raises(e.NotReplica):
        _log(cluster, 3)
    with pytest.raises(e.InvalidMetadataRequest):
        cluster.submit(c.RegisterReplica(replica_set_id=SET, broker_id=BrokerId(1), log_id=""))


def test_a_lost_log_leaves_the_sync_state_set_and_a_lost_master_leads_no_more() -> None:
    cluster = _cluster()
    _log(cluster, 2, "new")
    assert _set(cluster).sync_state_set == (0, 1)
    _log(cluster, 0, "new")
    assert (_set(cluster).master, _set(cluster).sync_state_set) == (NO_MASTER, (1,))
    _log(cluster, 1, "new")
    assert _set(cluster).sync_state_set == ()


def test_a_lost_log_raises_the_epoch_also_where_the_member_was_not_in_step() -> None:
    # KIP-903: else a change that was decided on what the lost log held is still accepted.
    cluster = _cluster()
    _change(cluster, 0, 1)
    judged = joining(_set(cluster), cluster.image.brokers, (2,))
    before = _set(cluster)
    _log(cluster, 2, "new")
    assert _set(cluster).sync_state_set_epoch == before.sync_state_set_epoch + 1
    late = c.ChangeSyncStateSet(
        replica_set_id=SET,
        master=BrokerId(0),
        leader_epoch=before.leader_epoch,
        sync_state_set_epoch=before.sync_state_set_epoch,
        sync_state_set=as_brokers(0, 1, 2),
        joining=judged,
    )
    with pytest.raises(e.StaleSyncStateSet):
        cluster.submit(late)
    current = _set(cluster).sync_state_set_epoch
    with pytest.raises(e.InvalidMetadataRequest):
        cluster.submit(replace(late, sync_state_set_epoch=current))
    assert _set(cluster).sync_state_set == (0, 1)


def test_an_election_that_was_decided_on_a_log_that_is_lost_by_now_is_refused() -> None:
    cluster = _cluster()
    _change(cluster, 0, 1)
    cluster.submit(c.SetUncleanElection(replica_set_id=SET, is_allowed=True))
    decided = _begin(cluster, master=2, sync_state_set=(2,), is_unclean=True)
    _log(cluster, 2, "new")
    with pytest.raises(e.StaleSyncStateSet):
        cluster.submit(c.BeginMasterships(masterships=(decided,)))


def test_an_unclean_mastership_is_remembered_however_many_ordinary_ones_come_after_it() -> None:
    cluster = _cluster()
    assert _set(cluster).unclean_epoch == NO_EPOCH
    unclean = _begin(cluster, master=2, sync_state_set=(2,), is_unclean=True, cause=Cause.UNCLEAN)
    cluster.submit(c.BeginMasterships(masterships=(unclean,)))
    begun = _set(cluster).leader_epoch
    assert _set(cluster).unclean_epoch == begun
    cluster.submit(c.EndMastership(replica_set_id=SET))
    ordinary = _begin(cluster, master=2, sync_state_set=None, cause=Cause.RETURN)
    cluster.submit(c.BeginMasterships(masterships=(ordinary,)))
    assert (_set(cluster).leader_epoch, _set(cluster).unclean_epoch) == (begun + 2, begun)
    assert _set(cluster).may_have_lost(LeaderEpoch(begun - 1))
    assert not _set(cluster).may_have_lost(begun), "it has followed the unclean master"
    again = ClusterImage()
    replay(again, snapshot_records(cluster.image))
    assert again.replica_sets[SET].unclean_epoch == begun


def test_what_a_mastership_under_async_may_have_lost_is_known_under_a_later_policy() -> None:
    cluster = _cluster(AckPolicy(kind=PolicyKind.ASYNC))
    first = _set(cluster).leader_epoch
    cluster.submit(c.EndMastership(replica_set_id=SET))
    assert _set(cluster).unclean_epoch == first, "nobody leads: nothing is lost by that"
    cluster.submit(c.BeginMasterships(masterships=(_begin(cluster, master=1),)))
    begun = _set(cluster).leader_epoch
    cluster.submit(c.SetAckPolicy(replica_set_id=SET, policy=AckPolicy()))
    assert _set(cluster).may_have_lost(first)
    assert not _set(cluster).may_have_lost(begun), "it has followed that master"
    cluster.submit(c.EndMastership(replica_set_id=SET))
    ordinary = _begin(cluster, master=1, sync_state_set=None)
    cluster.submit(c.BeginMasterships(masterships=(ordinary,)))
    assert _set(cluster).unclean_epoch == begun, "under this policy nothing is lost"


def test_a_log_lost_before_the_first_mastership_raises_the_epoch_too() -> None:
    cluster = _cluster()
    cluster.submit(c.CreateReplicaSet(replica_set_id=ReplicaSetId(7), replicas=as_brokers(0, 1)))
    for name in ("a", "b"):
        cluster.submit(
            c.RegisterReplica(replica_set_id=ReplicaSetId(7), broker_id=BrokerId(0), log_id=name)
        )
    one = cluster.image.replica_sets[ReplicaSetId(7)]
    assert (one.sync_state_set, one.sync_state_set_epoch) == ((0, 1), 1)


def test_a_log_lost_before_anything_was_written_costs_nothing() -> None:
    cluster = _cluster()
    cluster.submit(c.CreateReplicaSet(replica_set_id=ReplicaSetId(7), replicas=as_brokers(0, 1)))
    for name in ("a", "b"):
        cluster.submit(
            c.RegisterReplica(replica_set_id=ReplicaSetId(7), broker_id=BrokerId(0), log_id=name)
        )
    assert cluster.image.replica_sets[ReplicaSetId(7)].sync_state_set == (0, 1)


def test_fencing_ends_masterships_that_nobody_was_elected_for() -> None:
    cluster = _cluster()
    epoch = cluster.image.brokers[BrokerId(0)].broker_epoch
    cluster.submit(c.FenceBrokers(brokers=((BrokerId(0), epoch),)))
    assert cluster.image.brokers[BrokerId(0)].is_fenced
    assert (_set(cluster).master, _set(cluster).last_cause) == (NO_MASTER, "eviction")


def test_a_broker_that_registered_meanwhile_is_not_fenced() -> None:
    cluster = _cluster()
    old = cluster.image.brokers[BrokerId(0)].broker_epoch
    _register(cluster, host="elsewhere")
    before = len(cluster.log)
    cluster.submit(c.FenceBrokers(brokers=((BrokerId(0), old), (BrokerId(9), BrokerEpoch(1)))))
    assert len(cluster.log) == before


def test_fence_and_masterships_are_one_entry() -> None:
    cluster = _cluster()
    before = len(cluster.log)
    brokers = ((BrokerId(0), cluster.image.brokers[BrokerId(0)].broker_epoch),)
    epochs = cluster.submit(c.FenceBrokers(brokers=brokers, masterships=(_begin(cluster),)))
    assert epochs == (1,)
    assert len(cluster.log) == before + 1
    assert (_set(cluster).master, _set(cluster).sync_state_set) == (1, (1, 2))
    assert _set(cluster).sync_state_set_epoch == 1


@pytest.mark.parametrize(
    ("changed", "error"),
    [
        ({"leader_epoch": 9}, e.StaleLeaderEpoch),
        ({"sync_state_set_epoch": 9}, e.StaleSyncStateSet),
        ({"master": 0}, e.InvalidMetadataRequest),
        ({"sync_state_set": (1, 3)}, e.InvalidMetadataRequest),
        ({"master": 3, "sync_state_set": (3,)}, e.InvalidMetadataRequest),
        ({"master": 9, "sync_state_set": (9,), "is_unclean": True}, e.InvalidMetadataRequest),
        ({"replica_set_id": 9}, e.UnknownReplicaSet),
    ],
)
def test_a_choice_that_was_overtaken_or_can_not_be_is_refused(
    changed: dict[str, object], error: type[e.MetadataError]
) -> None:
    cluster = _cluster()
    with pytest.raises(error):
        cluster.submit(c.BeginMasterships(masterships=(_begin(cluster, **changed),)))
    with pytest.raises(e.InvalidMetadataRequest):
        cluster.submit(c.BeginMasterships(masterships=(_begin(cluster), _begin(cluster))))


def test_a_fenced_broker_is_neither_elected_nor_taken_into_step() -> None:
    cluster = _cluster()
    _change(cluster, 0, 1)
    cluster.submit(
        c.FenceBrokers(brokers=((BrokerId(2), cluster.image.brokers[BrokerId(2)].broker_epoch),))
    )
    with pytest.raises(e.InvalidMetadataRequest):
        _change(cluster, 0, 1, 2)
    unclean = _begin(cluster, master=2, sync_state_set=(2,), is_unclean=True)
    with pytest.raises(e.InvalidMetadataRequest):
        cluster.submit(c.BeginMasterships(masterships=(unclean,)))
    _register(cluster, 2)
    assert _change(cluster, 0, 1, 2) == 2


def test_members_come_and_go_and_the_master_stays() -> None:
    cluster = _cluster()
    cluster.submit(c.AddReplica(replica_set_id=SET, broker_id=BrokerId(3)))
    cluster.submit(c.AddReplica(replica_set_id=SET, broker_id=BrokerId(3)))
    one = _set(cluster)
    assert (one.replicas, one.sync_state_set) == ((0, 1, 2, 3), (0, 1, 2))
    cluster.submit(c.RemoveReplica(replica_set_id=SET, broker_id=BrokerId(1)))
    cluster.submit(c.RemoveReplica(replica_set_id=SET, broker_id=BrokerId(1)))
    one = _set(cluster)
    assert (one.replicas, one.sync_state_set) == ((0, 2, 3), (0, 2))
    assert 1 not in one.replica_ids
    with pytest.raises(e.InvalidMetadataRequest):
        cluster.submit(c.RemoveReplica(replica_set_id=SET, broker_id=BrokerId(0)))
    with pytest.raises(e.UnknownBroker):
        cluster.submit(c.AddReplica(replica_set_id=SET, broker_id=BrokerId(9)))


def test_a_member_that_was_removed_and_comes_back_with_its_log_is_a_new_replica() -> None:
    cluster = _cluster()
    before = _set(cluster).replica_ids[BrokerId(1)]
    cluster.submit(c.RemoveReplica(replica_set_id=SET, broker_id=BrokerId(1)))
    assert list(_set(cluster).log_ids) == [0, 2]
    cluster.submit(c.AddReplica(replica_set_id=SET, broker_id=BrokerId(1)))
    assert _log(cluster, 1) > before
    assert _set(cluster).log_ids[BrokerId(1)] == "log-1"


def test_the_last_member_in_step_is_not_taken_away_from_a_set_without_master() -> None:
    cluster = _cluster()
    _change(cluster, 0)
    cluster.submit(c.EndMastership(replica_set_id=SET))
    with pytest.raises(e.InvalidMetadataRequest):
        cluster.submit(c.RemoveReplica(replica_set_id=SET, broker_id=BrokerId(0)))
    cluster.submit(c.RemoveReplica(replica_set_id=SET, broker_id=BrokerId(2)))
    assert _set(cluster).replicas == (0, 1)


def test_members_are_kept_that_the_policy_asks_for() -> None:
    cluster = _cluster(AckPolicy(kind=PolicyKind.K_OF_N, required=3))
    with pytest.raises(e.InvalidMetadataRequest):
        cluster.submit(c.RemoveReplica(replica_set_id=SET, broker_id=BrokerId(2)))
    policy = AckPolicy(minimum=4)
    with pytest.raises(e.InvalidMetadataRequest):
        cluster.submit(c.SetAckPolicy(replica_set_id=SET, policy=policy))


def test_a_removed_copy_of_two_in_three_is_made_up_for_before_one_answer_is_enough() -> None:
    # Records may be on 0 and 2 alone: without 0, an answer of 1 proves nothing yet.
    cluster = _cluster(TWO_OF_THREE)
    cluster.submit(c.RemoveReplica(replica_set_id=SET, broker_id=BrokerId(2)))
    one = _set(cluster)
    assert (one.sync_state_set, one.copies_floor, one.copies_held) == ((0,), 1, 1)
    _change(cluster, 0, 1)
    assert (_set(cluster).copies_floor, _set(cluster).copies_held) == (NO_FLOOR, 2)


@pytest.mark.parametrize(
    ("is_unclean", "members", "floor"),
    [(False, (0,), 1), (False, (0, 1), NO_FLOOR), (True, (0,), NO_FLOOR), (True, (1,), NO_FLOOR)],
)
def test_who_is_elected_makes_up_for_a_removed_copy_or_is_all_there_is(
    is_unclean: bool, members: tuple[int, ...], floor: int
) -> None:
    cluster = _cluster(TWO_OF_THREE)
    cluster.submit(c.RemoveReplica(replica_set_id=SET, broker_id=BrokerId(2)))
    assert _set(cluster).copies_floor == 1
    wanted = _begin(cluster, master=members[0], sync_state_set=members, is_unclean=is_unclean)
    cluster.submit(c.BeginMasterships(masterships=(wanted,)))
    assert _set(cluster).copies_floor == floor


def test_from_two_of_three_to_all_only_the_master_is_sure_at_first() -> None:
    cluster = _cluster(TWO_OF_THREE)
    cluster.submit(c.SetAckPolicy(replica_set_id=SET, policy=AckPolicy()))
    assert _set(cluster).sync_state_set == (0,)
    assert _set(cluster).sync_state_set_epoch == 1


def test_from_all_to_two_of_three_needs_two_in_step_or_every_answer() -> None:
    cluster = _cluster()
    cluster.submit(c.SetAckPolicy(replica_set_id=SET, policy=TWO_OF_THREE))
    assert (_set(cluster).sync_state_set, _set(cluster).copies_held) == ((0, 1, 2), 2)
    other = _cluster()
    _change(other, 0)
    other.submit(c.SetAckPolicy(replica_set_id=SET, policy=TWO_OF_THREE))
    assert _set(other).copies_held == 1


def test_a_policy_that_asks_for_more_copies_than_there_are_proves_nothing_about_old_records() -> (
    None
):
    # All with the master alone in step, then adaptive 2 of 1, then 2 of 3: still one copy each.
    cluster = _cluster()
    _change(cluster, 0)
    adaptive = AckPolicy(kind=PolicyKind.ADAPTIVE, required=2, minimum=2)
    cluster.submit(c.SetAckPolicy(replica_set_id=SET, policy=adaptive))
    cluster.submit(c.SetAckPolicy(replica_set_id=SET, policy=TWO_OF_THREE))
    assert _set(cluster).copies_held == 1


def test_a_policy_does_not_change_while_nobody_leads_the_set() -> None:
    cluster = _cluster()
    cluster.submit(c.EndMastership(replica_set_id=SET))
    with pytest.raises(e.InvalidMetadataRequest):
        cluster.submit(c.SetAckPolicy(replica_set_id=SET, policy=TWO_OF_THREE))


def test_new_sets_get_the_next_id_and_the_clusters_policy_as_far_as_they_are_large() -> None:
    cluster = _cluster()
    policy = AckPolicy(kind=PolicyKind.ADAPTIVE, required=3, minimum=2)
    cluster.submit(c.SetDefaultPolicy(policy=policy))
    assert (
        cluster.submit(
            c.CreateReplicaSet(replica_set_id=ReplicaSetId(-1), replicas=as_brokers(0, 1, 2))
        )
        == 1
    )
    assert (
        cluster.submit(c.CreateReplicaSet(replica_set_id=ReplicaSetId(-1), replicas=as_brokers(3)))
        == 2
    )
    sets = cluster.image.replica_sets
    assert sets[ReplicaSetId(1)].policy == policy
    assert sets[ReplicaSetId(2)].policy == AckPolicy(kind=PolicyKind.ADAPTIVE)
    with pytest.raises(e.InvalidMetadataRequest):
        cluster.submit(
            c.CreateReplicaSet(
                replica_set_id=ReplicaSetId(-1), replicas=as_brokers(3), policy=policy
            )
        )


def test_sets_decided_by_an_older_look_are_not_made_twice() -> None:
    cluster = _cluster()
    command = c.CreateReplicaSets(members=(as_brokers(0, 1), as_brokers(1, 2)), set_count=1)
    assert cluster.submit(command) == (1, 2)
    with pytest.raises(e.InvalidMetadataRequest):
        cluster.submit(command)


def test_a_broker_is_removed_only_when_it_is_member_of_nothing() -> None:
    cluster = _cluster()
    with pytest.raises(e.InvalidMetadataRequest):
        cluster.submit(c.RemoveBroker(broker_id=BrokerId(2)))
    cluster.submit(c.RemoveBroker(broker_id=BrokerId(3)))
    assert 3 not in cluster.image.brokers
    with pytest.raises(e.UnknownBroker):
        cluster.submit(c.RemoveBroker(broker_id=BrokerId(3)))


def test_switches_write_only_changes() -> None:
    cluster = _cluster()
    before = len(cluster.log)
    cluster.submit(c.SetFailover(is_enabled=True))
    cluster.submit(c.SetDefaultPolicy(policy=AckPolicy()))
    cluster.submit(c.SetUncleanElection(replica_set_id=SET, is_allowed=False))
    cluster.submit(c.DrainBroker(broker_id=BrokerId(0), is_draining=False))
    assert len(cluster.log) == before
    cluster.submit(c.SetFailover(is_enabled=False))
    cluster.submit(c.SetUncleanElection(replica_set_id=SET, is_allowed=True))
    assert not cluster.image.is_failover_enabled
    assert _set(cluster).is_unclean_allowed


def test_only_a_draining_broker_leaves_the_sync_state_sets_by_command() -> None:
    cluster = _cluster()
    with pytest.raises(e.InvalidMetadataRequest):
        cluster.submit(c.LeaveSyncStateSets(broker_id=BrokerId(1)))
    cluster.submit(c.DrainBroker(broker_id=BrokerId(1)))
    assert cluster.submit(c.LeaveSyncStateSets(broker_id=BrokerId(1))) == ()
    assert _set(cluster).sync_state_set == (0, 2)
    with pytest.raises(e.InvalidMetadataRequest):
        _change(cluster, 0, 1, 2)


def test_log_of_a_process_that_is_not_the_registered_one_is_refused() -> None:
    cluster = _cluster()
    stranger = c.RegisterReplica(
        replica_set_id=SET,
        broker_id=BrokerId(0),
        log_id="an empty one",
        incarnation="another process",
    )
    before = _set(cluster)
    with pytest.raises(e.InvalidMetadataRequest, match="not registered as this process"):
        cluster.submit(stranger)
    assert _set(cluster) == before
    _register(cluster, incarnation="another process")
    cluster.submit(stranger)
    assert _set(cluster).sync_state_set == (1, 2)
