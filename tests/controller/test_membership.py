"""Cluster, brokers, replica sets, masterships, sync-state sets, producer ids."""

from dataclasses import replace

import pytest

from harness.ids import as_brokers
from penstock.base.ack_policy import AckPolicy, PolicyKind
from penstock.base.ids import BrokerEpoch, BrokerId, ReplicaId, ReplicaSetId
from penstock.controller import errors
from penstock.controller.commands.command import (
    AllocateProducerIds,
    BeginMastership,
    ChangeSyncStateSet,
    CreateCluster,
    CreateReplicaSet,
    CreateTopics,
    DrainBroker,
    EndMastership,
    LeaveSyncStateSets,
    NewTopic,
    RegisterBroker,
    RegisterReplica,
    SetAckPolicy,
)
from penstock.controller.metadata.image import NO_MASTER
from tests.controller.cluster import Cluster
from tests.controller.joining import joining


def test_cluster_keeps_its_first_id() -> None:
    cluster = Cluster()
    assert cluster.submit(CreateCluster(cluster_id="another")) == "the-cluster"
    assert cluster.image.cluster_id == "the-cluster"


def test_same_registration_again_writes_nothing_and_a_new_address_does() -> None:
    cluster = Cluster()
    before = len(cluster.log)
    cluster.submit(RegisterBroker(broker_id=BrokerId(0), host="localhost", port=9092))
    assert len(cluster.log) == before
    cluster.submit(RegisterBroker(broker_id=BrokerId(0), host="localhost", port=1, rack="r"))
    broker = cluster.image.brokers[BrokerId(0)]
    assert (broker.port, broker.rack) == (1, "r")


def test_every_mastership_has_the_next_epoch() -> None:
    cluster = Cluster()
    assert cluster.image.replica_sets[ReplicaSetId(0)].leader_epoch == 0
    assert cluster.submit(BeginMastership(replica_set_id=ReplicaSetId(0), master=BrokerId(0))) == 1
    assert cluster.submit(BeginMastership(replica_set_id=ReplicaSetId(0), master=BrokerId(0))) == 2
    assert cluster.image.replica_sets[ReplicaSetId(0)].leader_epoch == 2


def test_a_set_whose_mastership_ended_gets_no_new_partitions_until_one_begins_again() -> None:
    cluster = Cluster(sets=((0,), (0,)))
    assert cluster.submit(EndMastership(replica_set_id=ReplicaSetId(0))) == 1
    assert cluster.submit(EndMastership(replica_set_id=ReplicaSetId(0))) == 1
    assert cluster.image.replica_sets[ReplicaSetId(0)].master == NO_MASTER
    assert _sets_of_new_topic(cluster, "without") == {1}
    cluster.submit(BeginMastership(replica_set_id=ReplicaSetId(0), master=BrokerId(0)))
    assert _sets_of_new_topic(cluster, "with") == {0}


def _sets_of_new_topic(cluster: Cluster, name: str) -> set[int]:
    topic = NewTopic(name=name, partition_count=2, replication_factor=1)
    (outcome,) = cluster.submit(CreateTopics(topics=(topic,)))
    assert outcome.error is None
    return {partition.replica_set_id for partition in cluster.image.topics_by_name[name].partitions}


def test_replica_set_is_created_once_and_of_known_brokers() -> None:
    cluster = Cluster(sets=((0, 1),))
    before = len(cluster.log)
    cluster.submit(CreateReplicaSet(replica_set_id=ReplicaSetId(0), replicas=as_brokers(0, 1)))
    assert len(cluster.log) == before
    with pytest.raises(errors.InvalidMetadataRequest):
        cluster.submit(CreateReplicaSet(replica_set_id=ReplicaSetId(0), replicas=as_brokers(1, 0)))
    with pytest.raises(errors.InvalidMetadataRequest):
        cluster.submit(CreateReplicaSet(replica_set_id=ReplicaSetId(1), replicas=as_brokers(1, 1)))
    with pytest.raises(errors.UnknownBroker):
        cluster.submit(CreateReplicaSet(replica_set_id=ReplicaSetId(1), replicas=as_brokers(5)))


def _change(cluster: Cluster, **changed: object) -> int:
    fields: dict[str, object] = {
        "replica_set_id": 0,
        "master": 0,
        "leader_epoch": 0,
        "sync_state_set_epoch": cluster.image.replica_sets[ReplicaSetId(0)].sync_state_set_epoch,
        "sync_state_set": (0,),
    }
    return cluster.submit(ChangeSyncStateSet(**{**fields, **changed}))  # type: ignore[arg-type]


def _shrunk() -> Cluster:
    """Set 0 has the members 0, 1, 2 with registered logs; 1 is out of step."""
    cluster = Cluster(sets=((0, 1, 2),))
    for broker_id in range(3):
        log_id = f"log-{broker_id}"
        cluster.submit(
            RegisterReplica(
                replica_set_id=ReplicaSetId(0), broker_id=BrokerId(broker_id), log_id=log_id
            )
        )
    assert _change(cluster, sync_state_set=(0, 2)) == 1
    assert cluster.image.replica_sets[ReplicaSetId(0)].sync_state_set == (0, 2)
    return cluster


def test_master_shrinks_and_extends_its_sync_state_set() -> None:
    cluster = _shrunk()
    named = joining(cluster.image.replica_sets[ReplicaSetId(0)], cluster.image.brokers, (1,))
    assert _change(cluster, sync_state_set=(2, 1, 0), joining=named) == 2
    assert cluster.image.replica_sets[ReplicaSetId(0)].sync_state_set == (0, 1, 2)


def test_the_set_as_it_is_gets_a_new_epoch_which_ends_every_change_on_its_way() -> None:
    cluster = _shrunk()
    named = joining(cluster.image.replica_sets[ReplicaSetId(0)], cluster.image.brokers, (1,))
    assert _change(cluster, sync_state_set=(0, 2)) == 2
    with pytest.raises(errors.StaleSyncStateSet):
        _change(cluster, sync_state_set=(0, 1, 2), sync_state_set_epoch=1, joining=named)


@pytest.mark.parametrize("named", ["nothing", "other log", "other process", "other broker"])
def test_a_member_gets_in_step_with_the_log_and_process_that_were_judged_only(named: str) -> None:
    cluster = _shrunk()
    (judged,) = joining(cluster.image.replica_sets[ReplicaSetId(0)], cluster.image.brokers, (1,))
    wrong = {
        "nothing": (),
        "other log": (replace(judged, replica_id=ReplicaId(judged.replica_id + 1)),),
        "other process": (replace(judged, broker_epoch=BrokerEpoch(judged.broker_epoch + 1)),),
        "other broker": (replace(judged, broker_id=BrokerId(2)),),
    }
    with pytest.raises(errors.InvalidMetadataRequest):
        _change(cluster, sync_state_set=(0, 1, 2), joining=wrong[named])
    assert cluster.image.replica_sets[ReplicaSetId(0)].sync_state_set == (0, 2)
    assert _change(cluster, sync_state_set=(0, 1, 2), joining=(judged,)) == 2


def test_stale_or_impossible_sync_state_sets_are_refused() -> None:
    cluster = Cluster(sets=((0, 1),))
    cluster.submit(BeginMastership(replica_set_id=ReplicaSetId(0), master=BrokerId(0)))
    with pytest.raises(errors.StaleLeaderEpoch):
        _change(cluster)
    with pytest.raises(errors.StaleSyncStateSet):
        _change(cluster, leader_epoch=1, sync_state_set_epoch=4)
    for changed in ({"master": 1}, {"sync_state_set": (1,)}, {"sync_state_set": (0, 9)}):
        with pytest.raises(errors.InvalidMetadataRequest):
            _change(cluster, leader_epoch=1, **changed)
    with pytest.raises(errors.UnknownReplicaSet):
        _change(cluster, replica_set_id=8)


def test_master_must_be_in_step() -> None:
    cluster = Cluster(sets=((0, 1),))
    _change(cluster)
    with pytest.raises(errors.InvalidMetadataRequest):
        cluster.submit(BeginMastership(replica_set_id=ReplicaSetId(0), master=BrokerId(1)))


def test_producer_id_blocks_never_overlap() -> None:
    cluster = Cluster()
    blocks = [cluster.submit(AllocateProducerIds(broker_id=BrokerId(0))) for _ in range(3)]
    assert [(block.first_producer_id, block.next_producer_id) for block in blocks] == [
        (0, 1000),
        (1000, 2000),
        (2000, 3000),
    ]
    with pytest.raises(errors.UnknownBroker):
        cluster.submit(AllocateProducerIds(broker_id=BrokerId(9)))


def test_under_adaptive_only_the_master_stays_in_step_where_a_counted_copy_is_drained() -> None:
    # Records may be on brokers 0 and 1 alone: of the two that stay, broker 2 could be elected.
    cluster = Cluster(sets=((0, 1, 2),))
    policy = AckPolicy(kind=PolicyKind.ADAPTIVE, required=2, minimum=1)
    cluster.submit(SetAckPolicy(replica_set_id=ReplicaSetId(0), policy=policy))
    assert list(cluster.image.replica_sets[ReplicaSetId(0)].sync_state_set) == [0, 1, 2]
    cluster.submit(DrainBroker(broker_id=BrokerId(1)))
    assert cluster.submit(LeaveSyncStateSets(broker_id=BrokerId(1))) == ()
    assert list(cluster.image.replica_sets[ReplicaSetId(0)].sync_state_set) == [0]
