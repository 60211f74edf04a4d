"""Deleting topics and adding partitions."""

from harness.ids import as_brokers
from penstock.base.ids import TopicId
from penstock.controller import errors
from penstock.controller.commands.command import (
    CreatePartitions,
    CreateTopics,
    DeleteTopics,
    MorePartitions,
    NewTopic,
    TopicOutcome,
    TopicReference,
)
from tests.controller.cluster import Cluster


def _more(cluster: Cluster, *topics: MorePartitions) -> tuple[TopicOutcome, ...]:
    return cluster.submit(CreatePartitions(topics=topics))


def test_topic_is_deleted_by_name_and_by_id_with_its_load_and_configuration() -> None:
    cluster, empty = Cluster(), Cluster()
    _, second = cluster.create(NewTopic(name="a.x", configs={"retention.ms": "1"}), "b")
    outcomes = cluster.submit(
        DeleteTopics(topics=(TopicReference(name="a.x"), TopicReference(topic_id=second.topic_id)))
    )
    assert [outcome.error for outcome in outcomes] == [None, None]
    assert [outcome.name for outcome in outcomes] == ["a.x", "b"]
    assert cluster.image == empty.image


def test_name_can_be_used_again_under_another_id_and_without_the_old_configuration() -> None:
    cluster = Cluster()
    (old,) = cluster.create(NewTopic(name="t", configs={"retention.ms": "1"}))
    cluster.submit(DeleteTopics(topics=(TopicReference(name="t"),)))
    (new,) = cluster.create("t")
    assert new.error is None
    assert new.topic_id != old.topic_id
    assert cluster.image.topics_by_name["t"].configs == {}


def test_unknown_contradictory_and_repeated_references_are_refused() -> None:
    cluster = Cluster()
    (topic,) = cluster.create("t")
    outcomes = cluster.submit(
        DeleteTopics(
            topics=(
                TopicReference(name="no"),
                TopicReference(topic_id=TopicId(b"?" * 16)),
                TopicReference(),
                TopicReference(name="t", topic_id=topic.topic_id),
                TopicReference(name="t"),
                TopicReference(topic_id=topic.topic_id),
            )
        )
    )
    assert [type(outcome.error) for outcome in outcomes] == [
        errors.UnknownTopic,
        errors.UnknownTopicId,
        errors.InvalidMetadataRequest,
        errors.InvalidMetadataRequest,
        errors.InvalidMetadataRequest,
    ]
    assert "t" in cluster.image.topics_by_name


def test_internal_topic_can_be_neither_deleted_nor_extended() -> None:
    cluster = Cluster()
    name = "__consumer_offsets"
    cluster.submit(CreateTopics(topics=(NewTopic(name=name),), internal=True))
    (deleted,) = cluster.submit(DeleteTopics(topics=(TopicReference(name=name),)))
    (extended,) = _more(cluster, MorePartitions(name=name, partition_count=9))
    assert isinstance(deleted.error, errors.InvalidMetadataRequest)
    assert isinstance(extended.error, errors.InvalidMetadataRequest)


def test_added_partitions_stand_behind_the_old_ones() -> None:
    cluster = Cluster(sets=((0,), (0,)))
    cluster.create("t")
    (outcome,) = _more(cluster, MorePartitions(name="t", partition_count=4))
    assert outcome.error is None
    partitions = cluster.image.topics_by_name["t"].partitions
    assert [(partition.partition, partition.replica_set_id) for partition in partitions] == [
        (0, 0),
        (1, 1),
        (2, 0),
        (3, 1),
    ]


def test_partition_count_can_only_grow() -> None:
    cluster = Cluster()
    cluster.create(NewTopic(name="t", partition_count=3))
    for count in (3, 2, 0, -1, 10_001):
        (outcome,) = _more(cluster, MorePartitions(name="t", partition_count=count))
        assert isinstance(outcome.error, errors.InvalidPartitions), count


def test_assignments_of_added_partitions_are_checked() -> None:
    cluster = Cluster(sets=((0,), (1,), (0, 1)))
    cluster.create("t")
    wanted = {
        ((0,), (1,)): errors.InvalidReplicaAssignment,
        ((0, 1),): errors.InvalidReplicaAssignment,
        ((5,),): errors.InvalidReplicaAssignment,
        ((1,),): type(None),
    }
    for assignments, error in wanted.items():
        more = MorePartitions(
            name="t",
            partition_count=2,
            assignments=tuple(as_brokers(*assignment) for assignment in assignments),
        )
        (outcome,) = _more(cluster, more)
        assert type(outcome.error) is error, assignments
    assert cluster.image.topics_by_name["t"].partitions[1].replica_set_id == 1


def test_unknown_and_repeated_topics_are_refused_and_validate_only_changes_nothing() -> None:
    cluster = Cluster()
    cluster.create("t", "u")
    outcomes = _more(
        cluster,
        MorePartitions(name="no", partition_count=2),
        MorePartitions(name="t", partition_count=2),
        MorePartitions(name="t", partition_count=3),
    )
    assert isinstance(outcomes[0].error, errors.UnknownTopic)
    assert isinstance(outcomes[1].error, errors.InvalidMetadataRequest)
    assert len(outcomes) == 2
    dry = CreatePartitions(
        topics=(MorePartitions(name="u", partition_count=2),), validate_only=True
    )
    assert cluster.submit(dry)[0].error is None
    assert len(cluster.image.topics_by_name["u"].partitions) == 1
