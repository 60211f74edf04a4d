"""Replica sets that are made because a topic wants them: how many, whose, and what bounds them."""

import pytest

from harness.ids import as_brokers
from penstock.base.ids import BrokerId
from penstock.controller import errors
from penstock.controller.commands.command import (
    CreatePartitions,
    CreateTopics,
    DrainBroker,
    MorePartitions,
    NewTopic,
    TopicOutcome,
)
from penstock.controller.commands.set_plan import plan_sets
from penstock.controller.config import ControllerConfig
from tests.controller.cluster import Cluster

RING = ((0, 1, 2), (1, 2, 0), (2, 0, 1))
"""What three brokers have by themselves with a default of three copies."""


def of_size(cluster: Cluster, size: int) -> list[tuple[int, ...]]:
    sets = cluster.image.replica_sets.values()
    return [replica_set.replicas for replica_set in sets if len(replica_set.replicas) == size]


def hosts(cluster: Cluster, name: str) -> list[tuple[int, ...]]:
    """The members of the set of each partition."""
    sets, topic = cluster.image.replica_sets, cluster.image.topics_by_name[name]
    return [sets[partition.replica_set_id].replicas for partition in topic.partitions]


def factor(size: int, count: int = 1, name: str = "t") -> NewTopic:
    return NewTopic(name=name, partition_count=count, replication_factor=size)


def created(cluster: Cluster, *topics: NewTopic) -> tuple[TopicOutcome, ...]:
    outcomes = cluster.create(*topics)
    assert [outcome.error for outcome in outcomes] == [None] * len(topics)
    return outcomes


@pytest.mark.parametrize("size", [1, 2])
def test_the_first_topic_of_a_size_gets_a_set_led_by_each_broker(size: int) -> None:
    cluster = Cluster(sets=RING)
    (outcome,) = created(cluster, factor(size, 6))
    assert (outcome.partition_count, outcome.replication_factor) == (6, size)
    assert [members[0] for members in hosts(cluster, "t")] == [0, 1, 2] * 2
    assert len(of_size(cluster, size)) == 3
    created(cluster, factor(size, 30, name="later"))
    assert len(of_size(cluster, size)) == 3


def test_what_a_command_has_placed_counts_with_what_was_there_for_its_next_topic() -> None:
    cluster = Cluster(sets=((0,), (1,)))
    created(cluster, factor(1, name="before"))
    created(cluster, *(factor(1, name=name) for name in "abc"))
    assert [hosts(cluster, name) for name in "abc"] == [[(1,)], [(0,)], [(1,)]]


def test_sets_and_topic_are_one_entry_so_that_a_race_finds_those_of_the_first() -> None:
    cluster = Cluster(sets=RING)
    entries = len(cluster.log)
    created(cluster, factor(1, 2, name="a"), factor(1, 2, name="b"))
    assert len(cluster.log) == entries + 1
    assert len(of_size(cluster, 1)) == 3
    assert {*hosts(cluster, "a"), *hosts(cluster, "b")} == {(0,), (1,), (2,)}


def test_a_topic_that_is_only_checked_or_refused_makes_no_sets() -> None:
    cluster = Cluster(sets=RING, config=ControllerConfig(partitions_per_broker_max=3))
    (checked,) = cluster.submit(CreateTopics(topics=(factor(1),), validate_only=True))
    assert checked.error is None
    refused, taken = cluster.create(factor(1, 50, name="a"), factor(2, 1, name="b"))
    assert isinstance(refused.error, errors.MetadataPolicyViolation)
    assert taken.error is None
    assert of_size(cluster, 1) == []
    assert len(of_size(cluster, 2)) == 3


def test_the_sets_of_a_refused_topic_are_not_made_with_the_next_one() -> None:
    cluster = Cluster(sets=RING, config=ControllerConfig(partitions_per_broker_max=3))
    refused, taken = cluster.create(factor(1, 50, name="a"), factor(3, 1, name="b"))
    assert isinstance(refused.error, errors.MetadataPolicyViolation)
    assert taken.error is None
    assert [replica_set.replicas for replica_set in cluster.image.replica_sets.values()] == [*RING]


def test_a_new_set_waits_for_no_more_copies_than_it_has() -> None:
    cluster = Cluster(sets=RING)
    created(cluster, factor(1))
    for replica_set in cluster.image.replica_sets.values():
        assert replica_set.policy.required <= len(replica_set.replicas)


def test_more_partitions_go_to_sets_of_the_topics_size() -> None:
    cluster = Cluster(sets=RING)
    created(cluster, factor(2))
    more = MorePartitions(name="t", partition_count=5)
    (outcome,) = cluster.submit(CreatePartitions(topics=(more,)))
    assert outcome.error is None
    assert [len(host) for host in hosts(cluster, "t")] == [2] * 5


@pytest.mark.parametrize("brokers", [(2,), (2, 1), (1, 2), (2, 0, 1)])
def test_the_first_broker_of_an_assignment_is_the_preferred_master(
    brokers: tuple[int, ...],
) -> None:
    cluster = Cluster(sets=RING)
    created(
        cluster, NewTopic(name="t", assignments={0: as_brokers(*brokers), 1: as_brokers(*brokers)})
    )
    assert hosts(cluster, "t") == [brokers, brokers]
    assert len(of_size(cluster, len(brokers))) == (3 if len(brokers) == 3 else 1)


def test_partitions_added_by_assignment_get_sets_as_well() -> None:
    cluster = Cluster(sets=RING)
    created(cluster, factor(1))
    more = MorePartitions(name="t", partition_count=2, assignments=(as_brokers(2),))
    (outcome,) = cluster.submit(CreatePartitions(topics=(more,)))
    assert outcome.error is None
    assert hosts(cluster, "t")[1] == (2,)


def test_a_broker_gets_no_more_sets_than_its_bound() -> None:
    cluster = Cluster(sets=RING, config=ControllerConfig(sets_per_broker_max=4))
    by_factor, by_name = cluster.create(
        factor(2), NewTopic(name="named", assignments={0: as_brokers(1), 1: as_brokers(2)})
    )
    assert by_factor.error is None
    assert len(of_size(cluster, 2)) == 1
    assert isinstance(by_name.error, errors.InvalidReplicaAssignment)
    assert "sets_per_broker_max" in str(by_name.error)
    assert of_size(cluster, 1) == []
    (none_left,) = cluster.create(NewTopic(name="wide", assignments={0: as_brokers(1, 0)}))
    assert isinstance(none_left.error, errors.InvalidReplicaAssignment)


def test_a_broker_that_is_being_drained_gets_none() -> None:
    cluster = Cluster(sets=RING)
    cluster.submit(DrainBroker(broker_id=BrokerId(1)))
    created(cluster, factor(1, 6))
    assert set(hosts(cluster, "t")) == {(0,), (2,)}
    (outcome,) = cluster.create(NewTopic(name="named", assignments={0: as_brokers(1)}))
    assert isinstance(outcome.error, errors.InvalidReplicaAssignment)


def test_partitions_avoid_a_set_whose_only_member_is_drained_later() -> None:
    cluster = Cluster(sets=RING)
    created(cluster, factor(1, 3))
    cluster.submit(DrainBroker(broker_id=BrokerId(1)))
    created(cluster, factor(1, 4, name="later"))
    assert set(hosts(cluster, "later")) == {(0,), (2,)}


def test_small_sets_do_not_stand_for_those_that_every_broker_shall_lead() -> None:
    cluster = Cluster(sets=((0,), (1,), (2,)))
    assert len(plan_sets(cluster.image, 3)) == 3
    large = Cluster(sets=RING)
    created(large, factor(1), factor(2, name="u"))
    assert plan_sets(large.image, 3) == ()
    assert plan_sets(large.image, 2) == ()
