"""A topic of Penstock's own whose partitions are in the sets that need them."""

import pytest

from penstock.base.ids import ReplicaSetId, TopicId
from penstock.controller import errors
from penstock.controller.commands.command import NewTopic, PlaceInternal
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
