"""What is left in a log of deleted topics is dropped at slaves too, and nothing else is."""

from penstock.base.ids import Position
from penstock.broker.sets.leftovers import DELETED_MAX, Leftovers
from penstock.controller.commands.command import DeleteTopics, TopicReference
from penstock.replication.epochs import EpochStart
from tests.broker.cluster import Cluster


def deleted_with_records_under_way() -> Cluster:
    """A topic was deleted while records of it were on their way to the slaves."""
    cluster = Cluster(3)
    cluster.create("kept")
    cluster.create("events")
    cluster.replicate()
    for value in (b"a", b"b"):
        cluster.nodes[0].produce(value)
        cluster.nodes[0].produce(value, topic="kept")
    cluster.world.run()
    cluster.metadata.submit(DeleteTopics(topics=(TopicReference(name="events"),)))
    assert not left(cluster, 0)
    cluster.replicate()
    assert left(cluster, 1), "the stream has brought the partition back"
    return cluster


def left(cluster: Cluster, number: int) -> list[bytes]:
    """Topics that the log of a node holds and metadata does not know."""
    node = cluster.nodes[number]
    known = cluster.metadata.image.topics_by_id
    return [
        partition.topic_id
        for partition in node.member.log.partitions
        if partition.topic_id not in known
    ]


def kept(cluster: Cluster, number: int) -> int:
    log = cluster.nodes[number].member.log
    known = cluster.metadata.image.topics_by_id
    return sum(p.log_end_offset for key, p in log.partitions.items() if key.topic_id in known)


def forget(cluster: Cluster, number: int) -> Leftovers:
    """As after a restart: what was deleted is not remembered."""
    broker = cluster.nodes[number].broker
    broker.leftovers = Leftovers()
    return broker.leftovers


def test_a_slave_drops_a_deleted_topic_that_records_under_way_have_brought_back() -> None:
    cluster = deleted_with_records_under_way()
    for number in (1, 2):
        cluster.nodes[number].broker.drop_leftovers()
        assert not left(cluster, number)
        assert kept(cluster, number) == 2


def test_the_bytes_of_a_deleted_topic_keep_no_segment_at_a_slave() -> None:
    cluster = deleted_with_records_under_way()
    node = cluster.nodes[1]
    (topic_id,) = left(cluster, 1)
    node.broker.drop_leftovers()
    node.member.log.checkpoint()
    cluster.world.run()
    assert all(partition.topic_id != topic_id for partition in node.member.log.partitions)
    assert node.broker.leftovers.drop(node.member, cluster.metadata.image.topics_by_id) == 0


def test_after_a_restart_it_is_dropped_with_the_next_mastership() -> None:
    cluster = deleted_with_records_under_way()
    forget(cluster, 1)
    cluster.nodes[1].broker.drop_leftovers()
    assert left(cluster, 1), "of a topic that it has not heard of yet, for all that it knows"
    cluster.lead(0)
    cluster.replicate()
    cluster.nodes[1].broker.drop_leftovers()
    assert not left(cluster, 1)
    assert kept(cluster, 1) == 2


def test_what_ends_where_the_mastership_begins_is_older_than_it() -> None:
    cluster = deleted_with_records_under_way()
    forget(cluster, 1)
    member = cluster.nodes[1].member
    ((_, found),) = [
        one for one in member.log.partitions.items() if one[0].topic_id in left(cluster, 1)
    ]
    limit = found.last_end_position
    assert cluster.nodes[1].broker.leftovers.drop(member, ()) == 0
    member.log.epochs[-1] = EpochStart(member.leader_epoch, Position(limit - 1))
    assert cluster.nodes[1].broker.leftovers.drop(member, ()) == 0
    member.log.epochs[-1] = EpochStart(member.leader_epoch, Position(limit))
    assert cluster.nodes[1].broker.leftovers.drop(member, ()) == 1


def test_after_a_restart_it_is_dropped_when_the_image_has_the_registration() -> None:
    cluster = deleted_with_records_under_way()
    leftovers, node = forget(cluster, 1), cluster.nodes[1]
    leftovers.note_opened(node.member)
    node.broker.drop_leftovers()
    assert left(cluster, 1)
    leftovers.is_registered = lambda: True
    node.broker.drop_leftovers()
    assert not left(cluster, 1)
    assert kept(cluster, 1) == 2


def test_a_log_that_is_opened_after_the_registration_proves_nothing() -> None:
    cluster = deleted_with_records_under_way()
    leftovers, node = forget(cluster, 1), cluster.nodes[1]
    leftovers.is_registered = lambda: True
    leftovers.note_opened(node.member)
    node.broker.drop_leftovers()
    assert left(cluster, 1)


def test_what_came_after_the_log_was_opened_may_be_of_a_topic_still_to_be_heard_of() -> None:
    cluster = deleted_with_records_under_way()
    leftovers, node = forget(cluster, 1), cluster.nodes[1]
    leftovers.note_opened(node.member)
    leftovers.is_registered = lambda: True
    cluster.nodes[0].produce(b"c", topic="kept")
    cluster.replicate()
    assert leftovers.drop(node.member, ()) == 1, "the partition without anything newer"
    assert kept(cluster, 1) == 3


def test_a_log_that_is_being_cut_is_looked_at_again() -> None:
    cluster = deleted_with_records_under_way()
    node = cluster.nodes[1]
    log = node.member.log
    log.truncate(Position(log.end_position - 1), lambda _: None)
    assert log.is_busy
    node.broker.drop_leftovers()
    cluster.world.run()
    node.broker.drop_leftovers()
    assert not left(cluster, 1)


def test_what_a_log_that_was_cut_has_got_anew_may_be_of_a_topic_still_to_be_heard_of() -> None:
    cluster = deleted_with_records_under_way()
    leftovers, node = forget(cluster, 1), cluster.nodes[1]
    leftovers.note_opened(node.member)
    leftovers.is_registered = lambda: True
    log = node.member.log
    start = log.epochs[-1][1]
    log.truncate(start, lambda _: None)
    cluster.world.run()
    cluster.replicate()
    assert log.end_position > start
    assert leftovers.drop(node.member, ()) == 0, "the image may be behind the master's"


def test_only_so_many_deleted_topics_are_remembered() -> None:
    leftovers = Leftovers()
    for number in range(DELETED_MAX + 10):
        leftovers.note_deleted(number.to_bytes(16, "big"))  # type: ignore[arg-type]
    assert len(leftovers._deleted) == DELETED_MAX
