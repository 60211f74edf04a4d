"""A snapshot over an image that is not empty."""

import pytest

from penstock.base.ids import BrokerId, ReplicaSetId
from penstock.base.invariant import InvariantViolation
from penstock.controller.commands import command as c
from penstock.controller.metadata import records as r
from penstock.controller.metadata.image import ClusterDelta, ClusterImage
from penstock.controller.metadata.install import install
from penstock.controller.metadata.record_codec import decode_records, encode_records
from penstock.controller.metadata.replay import replay
from penstock.controller.metadata.snapshot import snapshot_records
from tests.controller.cluster import Cluster


def _follower(cluster: Cluster) -> tuple[ClusterImage, list[ClusterDelta]]:
    """An image that has everything so far, and what its listeners are told."""
    image = ClusterImage()
    for entry in cluster.log:
        replay(image, decode_records(entry))
    seen: list[ClusterDelta] = []
    image.subscribe(seen.append)
    return image, seen


def _snapshot(cluster: Cluster) -> list[r.MetadataRecord]:
    return decode_records(encode_records(snapshot_records(cluster.image)))


def test_listeners_hear_of_everything_that_a_snapshot_changes_deletions_included() -> None:
    cluster = Cluster(sets=((0,), (1, 0)))
    cluster.create("stays", "grows", "goes", "configured")
    cluster.submit(c.RegisterBroker(broker_id=BrokerId(5), host="h", port=1))
    image, _ = _follower(cluster)
    topics, sets = image.topics_by_name, image.replica_sets
    cluster.submit(c.DeleteTopics(topics=(c.TopicReference(name="goes"),)))
    cluster.submit(c.CreatePartitions(topics=(c.MorePartitions(name="grows", partition_count=3),)))
    edits = (c.ConfigEdit(key="retention.ms", operation=0, value="1"),)
    resource = c.ResourceEdits(resource_type=2, resource_name="configured", edits=edits)
    cluster.submit(c.AlterConfigs(resources=(resource,)))
    cluster.create("new")
    cluster.submit(c.BeginMastership(replica_set_id=ReplicaSetId(1), master=BrokerId(0)))
    cluster.submit(c.RegisterBroker(broker_id=BrokerId(0), host="moved", port=1))
    cluster.submit(c.RemoveBroker(broker_id=BrokerId(5)))
    delta = install(image, _snapshot(cluster))
    assert [topic.name for topic in delta.deleted_topics] == ["goes"]
    assert [topic.name for topic in delta.created_topics] == ["new"]
    assert [
        (partition.topic.name, partition.first_partition) for partition in delta.added_partitions
    ] == [("grows", 1)]
    assert [config.name for config in delta.changed_configs] == ["configured"]
    assert [replica_set.replica_set_id for replica_set in delta.changed_replica_sets] == [1]
    assert [broker.broker_id for broker in delta.changed_brokers] == [0]
    assert [broker.broker_id for broker in delta.removed_brokers] == [5]
    assert image == cluster.image
    assert image.topics_by_name is topics
    assert image.replica_sets is sets


def test_the_same_state_again_changes_nothing() -> None:
    cluster = Cluster()
    cluster.create("t")
    image, _ = _follower(cluster)
    assert install(image, _snapshot(cluster)) == ClusterDelta()


def test_an_older_snapshot_or_one_of_another_cluster_is_corrupt_state() -> None:
    cluster = Cluster()
    cluster.create("t")
    older = _snapshot(cluster)
    cluster.submit(c.BeginMastership(replica_set_id=ReplicaSetId(0), master=BrokerId(0)))
    image, _ = _follower(cluster)
    for records in (older, [], [r.ClusterCreated(cluster_id="another")]):
        before = snapshot_records(image)
        with pytest.raises(InvariantViolation):
            install(image, records)
        assert snapshot_records(image) == before


def test_a_controller_installs_and_publishes() -> None:
    cluster = Cluster()
    records = _snapshot(cluster)
    seen: list[ClusterDelta] = []
    cluster.image.subscribe(seen.append)
    delta = cluster.controller.install(records)
    assert seen == [delta] == [ClusterDelta()]


def test_a_snapshot_in_which_a_topic_has_fewer_partitions_is_corrupt_state() -> None:
    cluster = Cluster()
    cluster.create("t")
    fewer = _snapshot(cluster)
    cluster.submit(c.CreatePartitions(topics=(c.MorePartitions(name="t", partition_count=3),)))
    image, _ = _follower(cluster)
    with pytest.raises(InvariantViolation, match="does not lose partitions"):
        install(image, fewer)
