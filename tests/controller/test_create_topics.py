"""Creating topics: defaults, placement, and what is refused with which error."""

import sys
from types import FrameType

import pytest

from harness.ids import as_brokers
from penstock.base.ids import BrokerId
from penstock.controller import errors
from penstock.controller.commands.command import CreateTopics, NewTopic
from penstock.controller.config import ControllerConfig
from tests.controller.cluster import Cluster


def test_topic_without_numbers_takes_the_defaults() -> None:
    cluster = Cluster(config=ControllerConfig(default_partitions=3))
    (outcome,) = cluster.create("orders")
    assert outcome.error is None
    assert (outcome.partition_count, outcome.replication_factor) == (3, 1)
    topic = cluster.image.topics_by_name["orders"]
    assert topic is cluster.image.topics_by_id[topic.topic_id]
    assert topic.topic_id == outcome.topic_id
    assert len(topic.partitions) == 3


def test_partitions_go_round_the_sets_by_load() -> None:
    cluster = Cluster(sets=((0,), (0,), (0,)))
    cluster.create(NewTopic(name="a", partition_count=1), NewTopic(name="b", partition_count=4))
    placed = [
        partition.replica_set_id for partition in cluster.image.topics_by_name["b"].partitions
    ]
    assert placed == [1, 2, 0, 1]
    assert cluster.image.partition_counts == {0: 2, 1: 2, 2: 1}


def test_configuration_of_a_new_topic_is_kept_and_resolved() -> None:
    cluster = Cluster()
    (outcome,) = cluster.create(NewTopic(name="t", configs={"retention.ms": " 1000 "}))
    assert outcome.configs == {"retention.ms": "1000"}
    topic = cluster.image.topics_by_name["t"]
    assert topic.configs == {"retention.ms": "1000"}
    assert topic.settings.retention_ms == 1000


@pytest.mark.parametrize("name", ["", ".", "..", "a b", "ä", "a/b", "x" * 250, "a\n"])
def test_name_outside_the_rules_is_refused(name: str) -> None:
    (outcome,) = Cluster().create(name)
    assert isinstance(outcome.error, errors.InvalidTopicName)


@pytest.mark.parametrize("name", ["a", "...", "-", "_x.Y-9", "x" * 249])
def test_name_inside_the_rules_is_accepted(name: str) -> None:
    (outcome,) = Cluster().create(name)
    assert outcome.error is None


def test_names_that_differ_in_dot_and_underscore_only_collide() -> None:
    cluster = Cluster()
    cluster.create("a.b_c")
    (outcome,) = cluster.create("a_b.c")
    assert isinstance(outcome.error, errors.InvalidTopicName)
    assert "a.b_c" in str(outcome.error)


def test_names_collide_within_one_request_too() -> None:
    first, second = Cluster().create("a.b", "a_b")
    assert first.error is None
    assert isinstance(second.error, errors.InvalidTopicName)


def test_existing_topic_is_not_created_again() -> None:
    cluster = Cluster()
    cluster.create("t")
    (outcome,) = cluster.create("t")
    assert isinstance(outcome.error, errors.TopicExists)


def test_name_twice_in_a_request_is_refused_once_and_created_never() -> None:
    cluster = Cluster()
    outcomes = cluster.create("t", "other", "t")
    assert [outcome.name for outcome in outcomes] == ["t", "other"]
    assert isinstance(outcomes[0].error, errors.InvalidMetadataRequest)
    assert set(cluster.image.topics_by_name) == {"other"}


@pytest.mark.parametrize("count", [0, -2, 11])
def test_partition_count_out_of_bounds_is_refused(count: int) -> None:
    cluster = Cluster(config=ControllerConfig(partitions_per_topic_max=10))
    (outcome,) = cluster.create(NewTopic(name="t", partition_count=count))
    assert isinstance(outcome.error, errors.InvalidPartitions)


@pytest.mark.parametrize("factor", [0, -2, 3])
def test_replication_factor_that_no_set_can_have_is_refused(factor: int) -> None:
    (outcome,) = Cluster(sets=((0,), (1,))).create(NewTopic(name="t", replication_factor=factor))
    assert isinstance(outcome.error, errors.InvalidReplicationFactor)


def test_broker_limit_counts_what_the_same_request_placed() -> None:
    cluster = Cluster(config=ControllerConfig(partitions_per_broker_max=5))
    first, second, third = cluster.create(
        NewTopic(name="a", partition_count=4),
        NewTopic(name="b", partition_count=2),
        NewTopic(name="c", partition_count=1),
    )
    assert first.error is None
    assert isinstance(second.error, errors.MetadataPolicyViolation)
    assert third.error is None


def test_manual_assignment_picks_the_set_with_these_members() -> None:
    cluster = Cluster(sets=((0, 1), (1, 2), (0,)))
    (outcome,) = cluster.create(
        NewTopic(name="t", assignments={0: as_brokers(1, 2), 1: as_brokers(0, 1)})
    )
    assert outcome.error is None
    assert outcome.replication_factor == 2
    placed = [
        partition.replica_set_id for partition in cluster.image.topics_by_name["t"].partitions
    ]
    assert placed == [1, 0]


@pytest.mark.parametrize(
    "assignments",
    [
        {1: (0,)},
        {0: ()},
        {0: (0, 0)},
        {0: (7,)},
        {0: (0, 1), 1: (0,)},
    ],
)
def test_manual_assignment_that_can_not_be_is_refused(
    assignments: dict[int, tuple[BrokerId, ...]],
) -> None:
    cluster = Cluster(sets=((0, 1), (2,), (0,)))
    (outcome,) = cluster.create(NewTopic(name="t", assignments=assignments))
    assert isinstance(outcome.error, errors.InvalidReplicaAssignment)


def test_manual_assignment_excludes_numbers() -> None:
    by_count, by_factor = Cluster().create(
        NewTopic(name="a", assignments={0: as_brokers(0)}, partition_count=1),
        NewTopic(name="b", assignments={0: as_brokers(0)}, replication_factor=1),
    )
    assert isinstance(by_count.error, errors.InvalidMetadataRequest)
    assert isinstance(by_factor.error, errors.InvalidMetadataRequest)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("no.such.key", "1"),
        ("segment.bytes", "1000"),
        ("cleanup.policy", "compacted"),
        ("remote.storage.enable", "true"),
        ("unclean.leader.election.enable", "true"),
        ("retention.ms", "soon"),
        ("retention.ms", "-2"),
        ("retention.ms", None),
    ],
)
def test_configuration_that_can_not_be_is_refused(key: str, value: str | None) -> None:
    (outcome,) = Cluster().create(NewTopic(name="t", configs={key: value}))
    assert isinstance(outcome.error, errors.InvalidConfig)
    assert key in str(outcome.error)


def test_validate_only_answers_and_changes_nothing() -> None:
    cluster = Cluster()
    command = CreateTopics(topics=(NewTopic(name="t"), NewTopic(name="..")), validate_only=True)
    result = cluster.controller.handle(command)
    assert result.records == ()
    assert [one.error is None for one in result.response] == [True, False]


def test_client_can_not_take_the_name_of_an_internal_topic() -> None:
    cluster = Cluster()
    (outcome,) = cluster.create("__consumer_offsets")
    assert isinstance(outcome.error, errors.InvalidTopicName)
    own = CreateTopics(topics=(NewTopic(name="__consumer_offsets"),), internal=True)
    assert cluster.submit(own)[0].error is None
    assert cluster.image.topics_by_name["__consumer_offsets"].internal


def test_handle_changes_nothing() -> None:
    cluster, untouched = Cluster(), Cluster()
    cluster.controller.handle(CreateTopics(topics=(NewTopic(name="t"),)))
    assert cluster.image == untouched.image


def test_manual_assignment_to_more_brokers_than_a_set_may_have_is_refused_by_its_length() -> None:
    many = tuple(range(100_000))
    (outcome,) = Cluster().create(NewTopic(name="t", assignments={0: as_brokers(*many)}))
    assert isinstance(outcome.error, errors.InvalidReplicaAssignment)
    assert "100000 brokers" in str(outcome.error)


def test_sets_are_looked_through_once_for_an_assignment_that_is_repeated() -> None:
    """With each of 10,000 partitions: 10,000 times all sets of a cluster are seconds."""
    cluster = Cluster(sets=((0, 1), (1, 2), (0, 2)))
    assignments = {partition: as_brokers(0, 1 + partition % 2) for partition in range(200)}
    looks = 0

    def count(frame: FrameType, event: str, _argument: object) -> None:
        nonlocal looks
        looks += event == "call" and frame.f_code.co_name == "_sets_with"

    sys.setprofile(count)
    try:
        (outcome,) = cluster.create(NewTopic(name="t", assignments=assignments))
    finally:
        sys.setprofile(None)
    assert outcome.error is None
    assert looks == 2
    placed = [
        partition.replica_set_id for partition in cluster.image.topics_by_name["t"].partitions
    ]
    assert placed == [0, 2] * 100
