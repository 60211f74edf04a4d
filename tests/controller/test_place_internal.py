"""A topic of Penstock's own whose partitions are in the sets that need them."""

import pytest

from penstock.base.ids import BrokerId, ReplicaSetId, TopicId
from penstock.controller import errors
from penstock.controller.commands.command import NewTopic, PlaceInternal
from penstock.controller.config import ControllerConfig
from penstock.controller.metadata.records import TopicCreated
from tests.controller.cluster import Cluster

NAME = "__share_state"


def place(cluster: Cluster, set_id: int, name: str = NAME) -> int:
    return cluster.submit(PlaceInternal(topic=name, replica_set_id=ReplicaSetId(set_id)))


def test_each_set_gets_one_partition_when_it_is_asked_for_and_keeps_it() -> None:
    cluster = Cluster(sets=((0,), (1,), (0,)))
    assert [place(cluster, set_id) for set_id in (2, 0, 2, 1, 0)] == [0, 1, 0, 2, 1]
    topic = cluster.image.topics_by_name[NAME]
    assert topic.internal
    assert topic.partitions.set_ids == (2, 0, 1)


def test_a_partition_that_is_there_changes_nothing() -> None:
    cluster = Cluster()
    place(cluster, 1)
    before = len(cluster.log)
    assert place(cluster, 1) == 0
    assert len(cluster.log) == before


def test_neither_load_nor_limits_decide_where_it_is() -> None:
    cluster = Cluster()
    cluster.create(NewTopic(name="t", partition_count=7))
    place(cluster, 0)
    assert cluster.image.topics_by_name[NAME].partitions.set_ids == (0,)


def test_partitions_of_other_topics_and_unknown_sets_are_refused() -> None:
    cluster = Cluster()
    with pytest.raises(errors.InvalidMetadataRequest):
        place(cluster, 0, "__consumer_offsets")
    with pytest.raises(errors.UnknownReplicaSet):
        place(cluster, 9)
    assert NAME not in cluster.image.topics_by_name


def test_a_topic_that_clients_made_before_the_name_was_reserved_is_left_alone() -> None:
    cluster = Cluster()
    record = TopicCreated(
        name=NAME,
        topic_id=TopicId(b"c" * 16),
        replica_set_ids=(ReplicaSetId(0),),
        internal=False,
    )
    cluster.controller.replay([record])
    with pytest.raises(errors.TopicExists):
        place(cluster, 0)


def test_clients_can_not_make_it() -> None:
    cluster = Cluster()
    (outcome,) = cluster.create(NAME)
    assert isinstance(outcome.error, errors.InvalidTopicName)


def test_each_delay_level_has_a_topic_of_its_own_in_the_sets_that_use_it() -> None:
    cluster = Cluster(sets=((0,), (1,)))
    assert [place(cluster, set_id, "__delayed_18") for set_id in (1, 0, 1)] == [0, 1, 0]
    assert cluster.image.topics_by_name["__delayed_18"].internal
    with pytest.raises(errors.InvalidMetadataRequest):
        place(cluster, 0, "__delayed_19")


def test_retry_topics_and_dead_letters_are_placed_and_else_topics_as_others_are() -> None:
    cluster = Cluster(sets=((0,), (1,)))
    for name in ("rmq.retry.g", "rmq.dlq.g"):
        assert [place(cluster, set_id, name) for set_id in (1, 0, 1)] == [0, 1, 0]
        topic = cluster.image.topics_by_name[name]
        assert not topic.internal
        assert topic.partitions.set_ids == (1, 0)
        assert topic.configs == {"max.message.bytes": str(64 << 20)}, "as much as any topic"


def test_a_retry_topic_that_a_client_has_made_gets_what_it_lacks() -> None:
    cluster = Cluster(sets=((0,), (1,)))
    cluster.create(NewTopic(name="rmq.retry.g", assignments={0: (BrokerId(0),)}))
    assert place(cluster, 0, "rmq.retry.g") == 0
    assert place(cluster, 1, "rmq.retry.g") == 1


def test_names_and_limits_count_for_retry_topics() -> None:
    cluster = Cluster(config=ControllerConfig(partitions_per_broker_max=1))
    with pytest.raises(errors.InvalidTopicName):
        place(cluster, 0, "rmq.retry.a%b")
    cluster.create(NewTopic(name="rmq.retry.a_b", assignments={0: (BrokerId(0),)}))
    with pytest.raises(errors.InvalidTopicName):
        place(cluster, 0, "rmq.retry.a.b")
    place(cluster, 0, NAME)
    with pytest.raises(errors.MetadataPolicyViolation):
        place(cluster, 0, "rmq.retry.g")
    assert "rmq.retry.g" not in cluster.image.topics_by_name
