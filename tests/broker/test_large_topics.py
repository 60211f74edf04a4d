"""Topics of thousands of partitions: opened as they are looked up, let go in portions."""

import pytest

from penstock.base.ids import TopicId, TopicPartition
from penstock.broker.removals import SLICE, Removals
from penstock.controller.commands.command import (
    CreatePartitions,
    CreateTopics,
    DeleteTopics,
    MorePartitions,
    NewTopic,
    TopicReference,
)
from penstock.groups.partitioning import INTERNAL_TOPIC
from penstock.kafka.gate import find_hosted_topic
from penstock.protocol.api_keys import ApiKey
from penstock.protocol.error_codes import ErrorCode
from tests.broker.cluster import (
    Asked,
    Cluster,
    LoopWorld,
    Node,
    fetch_fields,
    fetched,
    produce_fields,
    produced,
)

MANY = 2 * SLICE + 10
LAST = MANY - 1
LONG_MS = 20_000


def large(count: int = 3) -> Cluster:
    """A cluster with one large topic; broker 0 leads it."""
    cluster = Cluster(count)
    cluster.create("events", MANY)
    return cluster


def produce(node: Node, partition: int, value: bytes = b"a", acks: int = 1) -> Asked:
    fields = produce_fields("events", (value,), acks, {}, partition)
    return node.send(ApiKey.PRODUCE, 11, fields)


def park(node: Node, partition: int, offset: int = 0) -> Asked:
    fields = fetch_fields("events", offset, LONG_MS, -1, -1)
    fields["topics"][0]["partitions"][0]["partition"] = partition
    asked = node.send(ApiKey.FETCH, 12, fields)
    assert fetched(asked) is None
    return asked


def delete(cluster: Cluster, name: str = "events") -> TopicId:
    topic_id = cluster.metadata.image.topics_by_name[name].topic_id
    cluster.metadata.submit(DeleteTopics(topics=(TopicReference(name=name),)))
    return topic_id


def in_log(node: Node, topic_id: TopicId) -> list[TopicPartition]:
    return [partition for partition in node.member.log.partitions if partition.topic_id == topic_id]


def one_turn(world: LoopWorld) -> None:
    """Run what is due now, and not what that puts off to the next turn."""
    for _ in range(len(world.soon)):
        callback = world.soon.popleft().callback
        if callback is not None:
            callback()


def open_all(node: Node) -> None:
    for partition in range(MANY):
        assert node.broker.partitions.find("events", partition) is not None


def test_a_created_topic_opens_nothing_until_somebody_asks() -> None:
    cluster = large()
    topic_id = cluster.metadata.image.topics_by_name["events"].topic_id
    assert not in_log(cluster.nodes[0], topic_id)
    asked = produce(cluster.nodes[0], LAST)
    cluster.world.run()
    assert produced(asked).error_code == 0
    assert in_log(cluster.nodes[0], topic_id) == [TopicPartition(topic_id, LAST)]


def test_a_partition_behind_the_last_is_none_and_opens_nothing() -> None:
    cluster = large()
    topic_id = cluster.metadata.image.topics_by_name["events"].topic_id
    for partition in (MANY, -1):
        answer = produced(produce(cluster.nodes[0], partition))
        assert answer.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert not in_log(cluster.nodes[0], topic_id)


def test_partitions_that_are_added_are_there_at_once() -> None:
    cluster = large()
    more = MorePartitions(name="events", partition_count=MANY + 5, assignments=None)
    cluster.metadata.submit(CreatePartitions(topics=(more,)))
    asked = produce(cluster.nodes[0], MANY + 4)
    cluster.world.run()
    assert produced(asked).error_code == 0


def test_a_partition_that_nobody_asked_for_is_served_by_the_next_master() -> None:
    cluster = large()
    asked = produce(cluster.nodes[0], LAST, acks=-1)
    cluster.replicate()
    assert produced(asked).error_code == 0
    assert produced(produce(cluster.nodes[1], LAST)).error_code == (
        ErrorCode.NOT_LEADER_OR_FOLLOWER
    )
    cluster.lead(1)
    again = produce(cluster.nodes[1], LAST)
    cluster.world.run()
    assert (produced(again).error_code, produced(again).base_offset) == (0, 1)


def test_a_partition_opened_after_a_truncation_is_of_the_new_log() -> None:
    cluster = large()
    produce(cluster.nodes[0], 0)
    cluster.replicate()
    produce(cluster.nodes[0], 0, b"lost")
    cluster.world.run()
    cluster.lead(1, members=(1, 2))
    cluster.align()
    member = cluster.nodes[0].member
    for partition in (0, LAST):
        hosted = cluster.nodes[0].broker.partitions.find("events", partition)
        assert hosted is not None
        assert hosted.log is member.log.partitions[hosted.log.topic_partition]
    cluster.lead(0)
    asked = produce(cluster.nodes[0], LAST)
    cluster.world.run()
    assert produced(asked).base_offset == 0


def test_a_deleted_topic_is_gone_at_once_and_let_go_in_portions() -> None:
    cluster = large()
    node = cluster.nodes[0]
    open_all(node)
    hosted = node.broker.partitions.find("events", LAST)
    assert hosted is not None
    topic_id = delete(cluster)
    assert hosted.is_dropped
    assert node.broker.partitions.find("events", 0) is None
    assert len(in_log(node, topic_id)) == MANY - SLICE
    one_turn(cluster.world)
    assert len(in_log(node, topic_id)) == MANY - 2 * SLICE
    cluster.world.run()
    assert not in_log(node, topic_id)
    assert not node.broker.partitions.of_set(0)


@pytest.mark.parametrize("partition", [0, LAST])
def test_a_parked_fetch_hears_that_the_topic_is_gone(partition: int) -> None:
    cluster = large()
    parked = park(cluster.nodes[0], partition)
    delete(cluster)
    cluster.world.run()
    assert fetched(parked).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_a_topic_of_the_same_name_is_a_new_one_while_the_old_one_is_let_go() -> None:
    cluster = large()
    node = cluster.nodes[0]
    open_all(node)
    produce(node, LAST)
    parked = park(node, LAST, offset=1)
    old = delete(cluster)
    cluster.create("events", MANY)
    asked = produce(node, LAST)
    assert in_log(node, old), "not all of it is gone yet"
    cluster.world.run()
    assert (produced(asked).error_code, produced(asked).base_offset) == (0, 0)
    assert fetched(parked).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert not in_log(node, old)
    hosted = node.broker.partitions.find("events", LAST)
    assert hosted is not None
    assert hosted.log.log_end_offset == 1


def test_whoever_found_the_topic_before_its_deletion_opens_nothing_of_it() -> None:
    cluster = large()
    node = cluster.nodes[0]
    topic = find_hosted_topic(node.broker, "events")
    assert topic is not None
    topic_id = delete(cluster)
    assert topic.find(LAST) is None
    cluster.world.run()
    assert topic.find(LAST) is None
    assert not in_log(node, topic_id)


def test_what_a_slave_has_got_of_a_deleted_topic_goes_though_nobody_asked_for_it() -> None:
    cluster = large()
    produce(cluster.nodes[0], LAST)
    cluster.replicate()
    topic_id = delete(cluster)
    assert in_log(cluster.nodes[1], topic_id) == [TopicPartition(topic_id, LAST)]
    cluster.world.run()
    assert not in_log(cluster.nodes[1], topic_id)


def test_another_master_is_elected_while_a_topic_is_let_go() -> None:
    cluster = large()
    old, new = cluster.nodes[:2]
    for node in (old, new):
        open_all(node)
    parked = park(old, LAST)
    topic_id = delete(cluster)
    cluster.lead(1)
    cluster.world.run()
    assert fetched(parked).error_code != 0
    for node in (old, new):
        assert not in_log(node, topic_id)
        assert not node.broker.partitions.of_set(0)


def test_a_member_leaves_and_comes_back_while_a_topic_is_let_go() -> None:
    cluster = large()
    node = cluster.nodes[2]
    open_all(node)
    member = node.member
    topic_id = delete(cluster)
    member.resign()
    node.broker.remove_member(member)
    one_turn(cluster.world)
    node.broker.add_member(member)
    cluster.world.run()
    assert not node.broker.partitions.of_set(0)
    assert len(in_log(node, topic_id)) == SLICE, "in a turn without the member"
    node.broker.drop_leftovers()
    assert not in_log(node, topic_id)


def test_a_log_is_cut_while_a_topic_is_let_go() -> None:
    cluster = large()
    old = cluster.nodes[0]
    produce(old, LAST)
    cluster.replicate()
    produce(old, LAST, b"lost")
    cluster.world.run()
    open_all(old)
    cluster.lead(1, members=(1, 2))
    topic_id = delete(cluster)
    cluster.align()
    assert not old.broker.partitions.of_set(0)
    old.broker.drop_leftovers()  # the files still named what was let go after the checkpoint
    assert not in_log(old, topic_id)


def test_internal_topics_are_open_without_being_asked_for() -> None:
    cluster = Cluster(3)
    topic = NewTopic(name=INTERNAL_TOPIC, partition_count=4)
    cluster.metadata.submit(CreateTopics(topics=(topic,), internal=True))
    for node in cluster.nodes:
        assert all(node.journal.partitions)
    node = cluster.nodes[2]
    member = node.member
    member.resign()
    node.broker.remove_member(member)
    assert not any(node.journal.partitions)
    node.broker.add_member(member)
    assert all(node.journal.partitions)


def test_a_small_topic_does_not_wait_for_all_of_a_large_one() -> None:
    world, done = LoopWorld(), list[str]()
    removals = Removals(world)

    def steps(name: str, count: int) -> object:
        for _ in range(count):
            yield None
        done.append(name)

    removals.begin(steps("large", 5 * SLICE))  # type: ignore[arg-type]
    removals.begin(steps("small", 3))  # type: ignore[arg-type]
    assert not done
    for _ in range(3):
        one_turn(world)
    assert done == ["small"]
    world.run()
    assert done == ["small", "large"]


def test_what_is_deleted_in_one_turn_shares_its_room() -> None:
    world, seen = LoopWorld(), list[int]()
    removals = Removals(world)

    def steps(number: int) -> object:
        for _ in range(SLICE // 2 + 1):
            seen.append(number)
            yield None

    for number in range(4):
        removals.begin(steps(number))  # type: ignore[arg-type]
    assert len(seen) == SLICE
    one_turn(world)
    assert len(seen) == 2 * SLICE
    world.run()
    assert len(seen) == 4 * (SLICE // 2 + 1)
