"""The log is the only truth: replaying it, or a snapshot of it, gives the same image anywhere."""

import sys
from dataclasses import replace
from types import FrameType

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.ids import as_brokers
from penstock.base.ack_policy import AckPolicy, PolicyKind
from penstock.base.ids import (
    BrokerId,
    LeaderEpoch,
    PartitionId,
    ProducerId,
    ReplicaSetId,
    SyncStateSetEpoch,
    TopicId,
)
from penstock.base.invariant import InvariantViolation
from penstock.controller.commands import command as c
from penstock.controller.errors import RefusedCommand, UnsupportedMetadata
from penstock.controller.metadata import records as r
from penstock.controller.metadata.causes import Cause
from penstock.controller.metadata.image import ClusterDelta, ClusterImage
from penstock.controller.metadata.install import install
from penstock.controller.metadata.record_codec import decode_records, encode_records
from penstock.controller.metadata.replay import replay
from penstock.controller.metadata.snapshot import snapshot_records
from penstock.controller.topic_config.describe import broker_defaults
from tests.controller.cluster import Cluster

_names = st.sampled_from(["a", "b", "a.b", "a_b", "..", "__consumer_offsets"])
_configs = st.dictionaries(
    st.sampled_from(["retention.ms", "compression.type", "segment.bytes"]),
    st.sampled_from(["1", "lz4", "-1"]),
    max_size=2,
)
_new_topics = st.builds(
    c.NewTopic,
    name=_names,
    partition_count=st.integers(-2, 5),
    replication_factor=st.sampled_from([-1, 1, 2, 3]),
    configs=_configs,
)
_edits = st.builds(
    c.ConfigEdit,
    key=st.sampled_from(["retention.ms", "max.message.bytes", "cleanup.policy"]),
    operation=st.integers(0, 4),
    value=st.sampled_from(["5", "delete", None]),
)
_set_ids = st.integers(0, 3)
_policies = st.builds(
    AckPolicy,
    kind=st.sampled_from(PolicyKind),
    required=st.integers(2, 3),
    minimum=st.integers(1, 2),
)
_masterships = st.builds(
    c.NewMastership,
    replica_set_id=_set_ids,
    master=st.integers(-1, 2),
    leader_epoch=st.integers(-1, 1),
    sync_state_set_epoch=st.integers(0, 1),
    cause=st.sampled_from(Cause),
    sync_state_set=st.one_of(st.none(), st.lists(st.integers(0, 2), max_size=3).map(tuple)),
    is_unclean=st.booleans(),
)
_commands = st.one_of(
    st.builds(c.CreateTopics, topics=st.lists(_new_topics, max_size=3).map(tuple)),
    st.builds(
        c.DeleteTopics,
        topics=st.lists(st.builds(c.TopicReference, name=_names), max_size=2).map(tuple),
    ),
    st.builds(
        c.CreatePartitions,
        topics=st.lists(
            st.builds(c.MorePartitions, name=_names, partition_count=st.integers(0, 8)),
            max_size=2,
        ).map(tuple),
    ),
    st.builds(
        c.AlterConfigs,
        resources=st.lists(
            st.builds(
                c.ResourceEdits,
                resource_type=st.just(2),
                resource_name=_names,
                edits=st.lists(_edits, max_size=2).map(tuple),
            ),
            max_size=2,
        ).map(tuple),
        replace=st.booleans(),
    ),
    st.builds(c.AllocateProducerIds, broker_id=st.integers(0, 3)),
    st.builds(
        c.RegisterBroker,
        broker_id=st.integers(0, 3),
        host=st.just("localhost"),
        port=st.just(9092),
        rack=st.sampled_from([None, "r"]),
        identity=st.sampled_from(["", "d"]),
        incarnation=st.sampled_from(["", "1", "2"]),
    ),
    st.builds(c.ForgetIdentity, broker_id=st.integers(0, 3)),
    st.builds(c.RemoveBroker, broker_id=st.integers(0, 4)),
    st.builds(c.DrainBroker, broker_id=st.integers(0, 3), is_draining=st.booleans()),
    st.builds(c.LeaveSyncStateSets, broker_id=st.integers(0, 3)),
    st.builds(
        c.RegisterReplica,
        replica_set_id=_set_ids,
        broker_id=st.integers(0, 3),
        log_id=st.sampled_from(["a", "b"]),
    ),
    st.builds(c.AddReplica, replica_set_id=_set_ids, broker_id=st.integers(0, 3)),
    st.builds(c.RemoveReplica, replica_set_id=_set_ids, broker_id=st.integers(0, 3)),
    st.builds(c.SetAckPolicy, replica_set_id=_set_ids, policy=_policies),
    st.builds(c.SetDefaultPolicy, policy=_policies),
    st.builds(c.SetUncleanElection, replica_set_id=_set_ids, is_allowed=st.booleans()),
    st.builds(c.SetFailover, is_enabled=st.booleans()),
    st.builds(
        c.CreateReplicaSet,
        replica_set_id=st.integers(-1, 4),
        replicas=st.lists(st.integers(0, 3), max_size=3).map(tuple),
    ),
    st.builds(
        c.FenceBrokers,
        brokers=st.lists(st.tuples(st.integers(0, 3), st.integers(0, 4)), max_size=2).map(tuple),
        masterships=st.lists(_masterships, max_size=2).map(tuple),
    ),
    st.builds(c.EndMastership, replica_set_id=_set_ids),
    st.builds(c.BeginMastership, replica_set_id=st.integers(0, 3), master=st.integers(0, 2)),
    st.builds(
        c.ChangeSyncStateSet,
        replica_set_id=st.integers(0, 2),
        master=st.integers(0, 1),
        leader_epoch=st.integers(0, 2),
        sync_state_set_epoch=st.integers(0, 2),
        sync_state_set=st.lists(st.integers(0, 2), max_size=3).map(tuple),
    ),
)


def _check_twin(image: ClusterImage) -> None:
    """Everything that is derived, derived again the dumb way."""
    topics = image.topics_by_name
    assert image.topics_by_id == {one.topic_id: one for one in topics.values()}
    assert image.names_by_metric == {name.replace(".", "_"): name for name in topics}
    counts = dict.fromkeys(image.replica_sets, 0)
    for topic in topics.values():
        assert [partition.partition for partition in topic.partitions] == list(
            range(len(topic.partitions))
        )
        for placed in topic.partitions:
            counts[placed.replica_set_id] += 1
    assert image.partition_counts == counts


@settings(max_examples=150, deadline=None)
@given(st.lists(_commands, max_size=25))
def test_replaying_the_log_gives_the_same_image_after_any_commands(
    commands: list[c.Command[object]],
) -> None:
    cluster = Cluster(sets=((0,), (0, 1), (1, 0)))
    for command in commands:
        try:
            cluster.submit(command)
        except RefusedCommand:
            continue
        _check_twin(cluster.image)
    again = ClusterImage()
    for entry in cluster.log:
        replay(again, decode_records(entry))
    assert again == cluster.image
    shortened = ClusterImage()
    snapshot = encode_records(snapshot_records(cluster.image))
    replay(shortened, decode_records(snapshot))
    assert shortened == cluster.image
    assert encode_records(snapshot_records(shortened)) == snapshot
    behind = ClusterImage()
    for entry in cluster.log[: len(cluster.log) // 2]:
        replay(behind, decode_records(entry))
    install(behind, decode_records(snapshot))
    assert behind == cluster.image


def _deltas(cluster: Cluster) -> list[ClusterDelta]:
    seen: list[ClusterDelta] = []
    cluster.image.subscribe(seen.append)
    return seen


def test_listeners_get_one_delta_per_entry_with_the_newest_images() -> None:
    cluster = Cluster()
    seen = _deltas(cluster)
    cluster.create(c.NewTopic(name="t", configs={"retention.ms": "1"}), "u")
    (delta,) = seen
    assert [topic.name for topic in delta.created_topics] == ["t", "u"]
    assert delta.created_topics[0].settings.retention_ms == 1
    assert delta.changed_configs == ()


def test_deltas_name_what_changed_and_nothing_else() -> None:
    cluster = Cluster()
    cluster.create("t")
    seen = _deltas(cluster)
    more = c.MorePartitions(name="t", partition_count=3)
    cluster.submit(c.CreatePartitions(topics=(more,)))
    edits = (c.ConfigEdit(key="retention.ms", operation=0, value="1"),)
    resource = c.ResourceEdits(resource_type=2, resource_name="t", edits=edits)
    cluster.submit(c.AlterConfigs(resources=(resource,)))
    cluster.submit(c.BeginMastership(replica_set_id=ReplicaSetId(1), master=BrokerId(0)))
    cluster.submit(c.RegisterBroker(broker_id=BrokerId(4), host="h", port=1))
    before = cluster.image.topics_by_name["t"]
    cluster.submit(c.DeleteTopics(topics=(c.TopicReference(name="t"),)))
    grown, configured, promoted, registered, deleted = seen
    assert [
        (partition.topic.name, partition.first_partition) for partition in grown.added_partitions
    ] == [("t", 1)]
    assert [config.settings.retention_ms for config in configured.changed_configs] == [1]
    assert [replica_set.leader_epoch for replica_set in promoted.changed_replica_sets] == [1]
    assert [broker.broker_id for broker in registered.changed_brokers] == [4]
    assert deleted == ClusterDelta(deleted_topics=(before,))


def _topic(name: str, topic_id: bytes = b"1" * 16) -> r.TopicCreated:
    return r.TopicCreated(
        name=name, topic_id=TopicId(topic_id), replica_set_ids=(ReplicaSetId(0),), internal=False
    )


@pytest.mark.parametrize(
    "records",
    [
        [r.ClusterCreated(cluster_id="second")],
        [r.ReplicaSetCreated(replica_set_id=ReplicaSetId(0), replicas=as_brokers(0))],
        [
            r.MastershipBegun(
                replica_set_id=ReplicaSetId(0), master=BrokerId(0), leader_epoch=LeaderEpoch(0)
            )
        ],
        [
            r.MastershipBegun(
                replica_set_id=ReplicaSetId(0), master=BrokerId(5), leader_epoch=LeaderEpoch(9)
            )
        ],
        [
            r.MastershipBegun(
                replica_set_id=ReplicaSetId(9), master=BrokerId(0), leader_epoch=LeaderEpoch(1)
            )
        ],
        [
            r.SyncStateSetChanged(
                replica_set_id=ReplicaSetId(0),
                sync_state_set=as_brokers(0),
                sync_state_set_epoch=SyncStateSetEpoch(0),
            )
        ],
        [
            r.SyncStateSetChanged(
                replica_set_id=ReplicaSetId(0),
                sync_state_set=(),
                sync_state_set_epoch=SyncStateSetEpoch(1),
            )
        ],
        [
            r.SyncStateSetChanged(
                replica_set_id=ReplicaSetId(0),
                sync_state_set=as_brokers(7),
                sync_state_set_epoch=SyncStateSetEpoch(1),
            )
        ],
        [_topic("t"), _topic("t", b"2" * 16)],
        [_topic("t"), _topic("u")],
        [replace(_topic("t"), replica_set_ids=())],
        [replace(_topic("t"), replica_set_ids=(ReplicaSetId(9),))],
        [r.TopicDeleted(topic_id=TopicId(b"9" * 16))],
        [
            r.PartitionsAdded(
                topic_id=TopicId(b"9" * 16),
                first_partition=PartitionId(1),
                replica_set_ids=(ReplicaSetId(0),),
            )
        ],
        [
            _topic("t"),
            r.PartitionsAdded(
                topic_id=TopicId(b"1" * 16),
                first_partition=PartitionId(2),
                replica_set_ids=(ReplicaSetId(0),),
            ),
        ],
        [r.ConfigChanged(resource_type=2, resource_name="no", key="retention.ms", value="1")],
        [r.ConfigChanged(resource_type=8, resource_name="0", key="x", value="1")],
        [
            r.ProducerIdBlockAllocated(
                broker_id=BrokerId(0),
                first_producer_id=ProducerId(0),
                next_producer_id=ProducerId(5),
            ),
            r.ProducerIdBlockAllocated(
                broker_id=BrokerId(0),
                first_producer_id=ProducerId(4),
                next_producer_id=ProducerId(9),
            ),
        ],
    ],
)
def test_records_that_contradict_the_past_are_corrupt_state(
    records: list[r.MetadataRecord],
) -> None:
    with pytest.raises(InvariantViolation):
        Cluster().controller.replay(records)


def test_configuration_of_a_newer_release_is_not_guessed_at() -> None:
    records: list[r.MetadataRecord] = [
        _topic("t"),
        r.ConfigChanged(resource_type=2, resource_name="t", key="x", value=""),
    ]
    with pytest.raises(UnsupportedMetadata):
        Cluster().controller.replay(records)


def _config_changed(key: str, value: str | None) -> r.ConfigChanged:
    return r.ConfigChanged(
        resource_type=r.ResourceType.TOPIC, resource_name="t", key=key, value=value
    )


def test_overrides_of_a_topic_are_read_once_for_an_entry() -> None:
    """Read with each of 35 records they are 35 times as many, for each of 50 topics."""
    cluster = Cluster()
    cluster.create("t")
    entries = broker_defaults(cluster.image.defaults)
    changes = [
        _config_changed(entry.name, entry.value)
        for entry in entries
        if entry.name not in {"unclean.leader.election.enable", "remote.storage.enable"}
    ]
    calls = 0

    def count(_frame: FrameType, event: str, _argument: object) -> None:
        nonlocal calls
        calls += event == "call"

    sys.setprofile(count)
    try:
        replay(cluster.image, changes)
    finally:
        sys.setprofile(None)
    assert calls < 20 * len(changes)
    assert cluster.image.topics_by_name["t"].settings == cluster.image.defaults


def test_override_of_a_topic_that_the_same_entry_deletes_is_let_be() -> None:
    cluster = Cluster()
    cluster.create("t")
    topic_id = cluster.image.topics_by_name["t"].topic_id
    replay(cluster.image, [_config_changed("retention.ms", "5"), r.TopicDeleted(topic_id=topic_id)])
    assert not cluster.image.topics_by_id


def test_a_partition_that_its_set_does_not_count_is_corrupt_state() -> None:
    cluster = Cluster()
    cluster.create("t")
    placed = cluster.image.topics_by_name["t"]
    cluster.image.partition_counts[placed.partitions[0].replica_set_id] = 0
    with pytest.raises(InvariantViolation, match="hosts what is deleted"):
        cluster.controller.replay([r.TopicDeleted(topic_id=placed.topic_id)])
