"""Searches by time, and of epoch ends: how many at once, for whom, and what changes meanwhile."""

from typing import Any

import pytest

from harness.ids import as_brokers
from penstock.base.ids import LeaderEpoch
from penstock.base.ports import Lane
from penstock.broker.fetch import record_search
from penstock.broker.look_ups import AT_ONCE, OF_ADDRESS
from penstock.controller.commands.command import DeleteTopics, TopicReference
from penstock.protocol.api_keys import ApiKey
from penstock.protocol.error_codes import ErrorCode
from penstock.replication.confirm import Membership
from tests.broker.cluster import Asked, Cluster, Node, produce_fields

MAX_TIMESTAMP = -3
TIME = 1_700_000_000_000
PARTITIONS = 6


def events(count: int = 1) -> Cluster:
    """A cluster with a topic of a few partitions, one batch in each; broker 0 leads it."""
    cluster = Cluster(count)
    cluster.create("events", partitions=PARTITIONS)
    for partition in range(PARTITIONS):
        produce(cluster.nodes[0], partition)
    cluster.world.run()
    cluster.replicate()
    return cluster


def produce(node: Node, partition: int) -> None:
    fields = produce_fields("events", (b"value",), 1, {}, partition)
    node.send(ApiKey.PRODUCE, 9, fields)


def search(
    node: Node, *, host: str = "a", partitions: int = PARTITIONS, timestamp: int = MAX_TIMESTAMP
) -> Asked:
    """Ask by time, from an address; the answer comes when the test lets work happen."""
    wanted = [
        {"partition_index": one, "current_leader_epoch": -1, "timestamp": timestamp}
        for one in range(partitions)
    ]
    topics = [{"name": "events", "partitions": wanted}]
    fields = {"replica_id": -1, "isolation_level": 0, "topics": topics}
    return node.send(ApiKey.LIST_OFFSETS, 7, fields, host=host)


def answers(asked: Asked) -> list[tuple[int, int]]:
    """(error code, offset) of each partition."""
    (topic,) = asked.answer.topics
    return [(one.error_code, one.offset) for one in topic.partitions]


def test_however_many_ask_a_few_searches_are_with_the_threads() -> None:
    cluster = events()
    asked = [search(cluster.nodes[0], host=f"host-{one % 4}") for one in range(20)]
    cluster.world.turn()
    assert len(cluster.world.work) == AT_ONCE
    while any(one.answer is None for one in asked):
        cluster.world.work_one()
        cluster.world.turn()
        assert len(cluster.world.work) <= AT_ONCE
    assert all(answers(one) == [(0, 0)] * PARTITIONS for one in asked)


def test_one_search_of_another_client_is_next() -> None:
    cluster = events()
    for _ in range(20):
        search(cluster.nodes[0], host="many")
    cluster.world.turn()
    assert len(cluster.world.work) == OF_ADDRESS
    few = search(cluster.nodes[0], host="few", partitions=1)
    cluster.world.turn()
    cluster.world.work_one()
    cluster.world.work_one()
    assert answers(few) == [(0, 0)]


def test_searches_are_in_the_lane_of_clients() -> None:
    cluster = events()
    cluster.world.lanes.clear()
    search(cluster.nodes[0])
    cluster.world.run()
    assert set(cluster.world.lanes) == {Lane.READ}


def test_a_sync_is_in_a_lane_of_its_own() -> None:
    cluster = events()
    cluster.world.lanes.clear()
    produce(cluster.nodes[0], 0)
    cluster.world.run()
    assert cluster.world.lanes == [Lane.SYNC]


def test_searches_of_a_client_that_has_gone_are_dropped() -> None:
    cluster = events()
    asked = search(cluster.nodes[0])
    cluster.world.turn()
    asked.wire.is_closed = True
    cluster.world.work_one()
    cluster.world.turn()
    assert not cluster.world.work
    assert (asked.wire.held_bytes, asked.wire.kept_bytes) == (0, 0)


def test_nothing_is_unpacked_for_a_client_that_has_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    unpacked: list[object] = []
    monkeypatch.setattr(record_search, "first_record_at", lambda *args: unpacked.append(args))
    cluster = events()
    asked = search(cluster.nodes[0], partitions=1)
    cluster.world.turn()
    asked.wire.is_closed = True
    cluster.world.run()
    assert not unpacked


def test_a_connection_is_held_and_what_it_waits_for_is_counted() -> None:
    cluster = events()
    asked = search(cluster.nodes[0])
    assert asked.wire.held_bytes > 0
    assert asked.wire.kept_bytes > 0
    cluster.world.run()
    assert answers(asked) == [(0, 0)] * PARTITIONS
    assert (asked.wire.held_bytes, asked.wire.kept_bytes) == (0, 0)


def test_a_partition_that_is_deleted_while_its_search_waits_is_unknown() -> None:
    cluster = events()
    asked = search(cluster.nodes[0])
    cluster.world.turn()
    cluster.metadata.submit(DeleteTopics(topics=(TopicReference(name="events"),)))
    cluster.world.run()
    first, *others = answers(asked)
    assert first == (0, 0)
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert [error for error, _ in others] == [unknown] * (PARTITIONS - 1)


def test_a_search_that_waits_is_not_made_by_who_is_no_master_any_more() -> None:
    cluster = events(2)
    asked = search(cluster.nodes[0])
    cluster.world.turn()
    cluster.lead(1)
    first, *others = answers(asked)
    assert first == (0, 0)
    refused = ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert [error for error, _ in others] == [refused] * (PARTITIONS - 1)


def test_what_a_search_did_not_reach_is_not_said_to_be_absent() -> None:
    """A new master: records of the time are confirmed only while the search is on its way."""
    cluster = Cluster(2)
    cluster.create("events")
    master, other = cluster.nodes
    cluster.replicate()
    produce(master, 0)
    cluster.world.run()
    cluster._copy(master.member.log, other.member.log)
    epoch = LeaderEpoch(cluster.lead(1))
    assert other.member.confirm_position < other.member.epoch_start
    asked = search(other, partitions=1, timestamp=TIME)
    cluster.world.turn()
    alone = as_brokers(1)
    other.member.become_master(epoch, Membership(replicas=alone, committed=alone))
    other.member.confirm_reached()
    assert other.member.confirm_position >= other.member.epoch_start
    cluster.world.run()
    assert answers(asked) == [(ErrorCode.OFFSET_NOT_AVAILABLE, -1)]


def test_ends_of_earlier_masterships_are_looked_up_in_turns_too() -> None:
    cluster = events()
    cluster.lead(0)
    cluster.lead(0)
    asked = [epoch_ends(cluster.nodes[0], host=f"host-{one % 4}") for one in range(8)]
    assert all(one.answer is None for one in asked)
    assert asked[0].wire.held_bytes > 0
    cluster.world.run()
    for one in asked:
        ends = {partition.end_offset for partition in one.answer.topics[0].partitions}
        assert ends == {1}
        assert (one.wire.held_bytes, one.wire.kept_bytes) == (0, 0)


def epoch_ends(node: Node, *, host: str) -> Asked:
    wanted: list[dict[str, Any]] = [
        {"partition": one, "current_leader_epoch": -1, "leader_epoch": 1}
        for one in range(PARTITIONS)
    ]
    fields = {"replica_id": -1, "topics": [{"topic": "events", "partitions": wanted}]}
    return node.send(ApiKey.OFFSET_FOR_LEADER_EPOCH, 4, fields, host=host)
