"""High watermarks in segments that closed long ago: the disk is asked off the loop, by who asks."""

import datetime
import errno
from typing import Any

import pytest

from penstock.base.ids import Position
from penstock.broker.config import SlaveReads
from penstock.controller.commands.command import DeleteTopics, TopicReference
from penstock.protocol.api_keys import ApiKey
from penstock.protocol.error_codes import ErrorCode
from tests.broker.cluster import Asked, Cluster, Node, fetched

LATEST = -1
MANY = 400
CONFIRMED = 100


def far_behind(count: int = 2, **config: Any) -> Cluster:
    """The slaves have all of it, and acknowledged a part of the first files; no index is known."""
    cluster = Cluster(count, **config)
    cluster.create("events")
    cluster.replicate()
    node = cluster.nodes[0]
    for number in range(MANY):
        node.produce(b"x" * 1000, acks=1)
        cluster.world.run()
        if number == CONFIRMED - 1:
            cluster.replicate()
    for one in cluster.nodes[1:]:
        cluster._copy(node.member.log, one.member.log)
    cluster.world.run()
    for one in cluster.nodes:
        forget_indexes(one)
    return cluster


def forget_indexes(node: Node) -> None:
    reader = node.member.log._reader
    for segment in node.member.log._store.segments:
        reader.cache.drop_segment(segment.base)


def on_the_loop(node: Node) -> list[tuple[str, str]]:
    """What the disk does from here on, which in these tests is done on the loop."""
    seen: list[tuple[str, str]] = []

    def note(kind: str, path: str) -> None:
        if kind != "read_cached" and ("index" in path or kind == "read"):
            seen.append((kind, path))

    node.disk.on_operation = note
    return seen


def ask_latest(node: Node) -> Asked:
    partition = {"partition_index": 0, "timestamp": LATEST, "current_leader_epoch": -1}
    topics = [{"name": "events", "partitions": [partition]}]
    fields = {"replica_id": -1, "isolation_level": 0, "topics": topics}
    return node.send(ApiKey.LIST_OFFSETS, 7, fields)


def latest(asked: Asked) -> tuple[int, int]:
    (partition,) = asked.answer.topics[0].partitions
    return partition.error_code, partition.offset


def delete_up_to_the_end(node: Node) -> Asked:
    wanted = [{"name": "events", "partitions": [{"partition_index": 0, "offset": -1}]}]
    fields = {"topics": wanted, "timeout": datetime.timedelta(seconds=5)}
    return node.send(ApiKey.DELETE_RECORDS, 2, fields)


def deleted(asked: Asked) -> Any:
    return asked.answer.topics[0].partitions[0]


def log_start(node: Node) -> int:
    (log,) = (one.log for one in node.broker.partitions.of_set(0) if one.topic.name == "events")
    return log.log_start_offset


@pytest.mark.parametrize("without_index", [False, True])
def test_nobody_reads_an_index_or_a_segment_on_the_loop(without_index: bool) -> None:
    cluster = far_behind()
    node = cluster.nodes[0]
    if without_index:  # such as on a full disk, where none could be written
        for name in [name for name in node.disk.names if name.endswith(".idx")]:
            node.disk.remove(name)
    seen = on_the_loop(node)
    asked = [node.fetch(0), node.fetch(CONFIRMED), ask_latest(node), delete_up_to_the_end(node)]
    cluster.world.turn()
    node.disk.on_operation = None
    assert not seen
    cluster.world.run()
    at_start, at_end, end, start = asked
    assert fetched(at_start).high_watermark == fetched(at_end).high_watermark == CONFIRMED
    assert fetched(at_start).records
    assert not fetched(at_end).records
    assert latest(end) == (0, CONFIRMED)
    assert start.answer is None, "it waits for the slaves"
    assert log_start(node) == CONFIRMED


def test_what_was_found_is_known_to_the_next_one() -> None:
    cluster = far_behind()
    node = cluster.nodes[0]
    node.fetch(0)
    cluster.world.run()
    cluster.world.lanes.clear()
    assert fetched(node.fetch(CONFIRMED)).high_watermark == CONFIRMED
    assert not cluster.world.lanes


def test_a_disk_that_gives_no_index_is_an_error_for_those_who_ask() -> None:
    cluster = far_behind()
    node = cluster.nodes[0]
    failed = ErrorCode.KAFKA_STORAGE_ERROR
    for ask, code in (
        (lambda: node.fetch(0), lambda one: fetched(one).error_code),
        (lambda: ask_latest(node), lambda one: latest(one)[0]),
        (lambda: delete_up_to_the_end(node), lambda one: deleted(one).error_code),
    ):
        node.disk.fail("read", ".idx", errno.EIO)
        asked = ask()
        cluster.world.run()
        assert code(asked) == failed
    assert not node.member.log.is_fenced
    asked = ask_latest(node)
    cluster.world.run()
    assert latest(asked) == (0, CONFIRMED)


def test_an_index_that_can_not_be_read_at_a_slave_raises_nothing_into_replication() -> None:
    cluster = far_behind(slave_reads=SlaveReads.RACK)
    slave = cluster.nodes[1]
    asked = slave.fetch(CONFIRMED, wait_ms=20_000, rack="rack-1")
    cluster.world.run()
    assert asked.answer is None, "it waits for more"
    forget_indexes(slave)
    seen = on_the_loop(slave)
    slave.disk.fail("read", ".idx", errno.EIO)
    before = slave.member.confirm_position
    slave.member.note_master_confirmed(
        Position(before + 20_000)
    )  # the next run of the master says so
    assert slave.member.confirm_position == before + 20_000
    assert not seen
    slave.disk.on_operation = None
    cluster.world.run()
    assert fetched(asked).error_code == ErrorCode.KAFKA_STORAGE_ERROR
    again = slave.fetch(CONFIRMED, rack="rack-1")
    cluster.world.run()
    assert fetched(again).high_watermark > CONFIRMED


def test_a_fetch_whose_client_has_gone_asks_no_disk() -> None:
    cluster = far_behind()
    node = cluster.nodes[0]
    asked = node.fetch(CONFIRMED, wait_ms=20_000)
    asked.wire.is_closed = True
    cluster.world.turn()
    assert not cluster.world.work
    cluster.world.advance(20_000)
    assert (asked.wire.held_bytes, asked.wire.kept_bytes) == (0, 0)
    assert node.broker.look_ups.in_progress == 0


def test_a_topic_that_is_deleted_while_the_disk_is_asked_is_unknown() -> None:
    cluster = far_behind()
    node = cluster.nodes[0]
    asked = [node.fetch(0), ask_latest(node), delete_up_to_the_end(node)]
    cluster.metadata.submit(DeleteTopics(topics=(TopicReference(name="events"),)))
    cluster.world.run()
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert fetched(asked[0]).error_code == unknown
    assert latest(asked[1])[0] == unknown
    assert deleted(asked[2]).error_code == unknown


def test_a_mastership_that_ends_while_the_disk_is_asked_deletes_and_serves_nothing() -> None:
    cluster = far_behind()
    node = cluster.nodes[0]
    asked = [node.fetch(0), ask_latest(node), delete_up_to_the_end(node)]
    cluster.lead(1)
    cluster.world.run()
    refused = ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert fetched(asked[0]).error_code == refused
    assert latest(asked[1])[0] == refused
    assert deleted(asked[2]).error_code == refused
    assert log_start(node) == 0


def test_a_log_that_is_cut_while_the_disk_is_asked_is_asked_anew() -> None:
    cluster = far_behind(slave_reads=SlaveReads.RACK)
    slave = cluster.nodes[1]
    asked = slave.fetch(CONFIRMED, wait_ms=20_000, rack="rack-1")
    cluster.world.turn()
    errors: list[Any] = []
    slave.member.log.truncate(slave.member.confirm_position, errors.append)
    cluster.world.run()
    assert errors == [None]
    again = slave.fetch(0, rack="rack-1")
    cluster.world.run()
    assert fetched(again).high_watermark == CONFIRMED
    assert asked.answer is None or fetched(asked).error_code == 0
