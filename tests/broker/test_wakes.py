"""Who waits for a partition looks again a portion at a time, in order, and nobody is left out."""

from collections.abc import Callable
from itertools import pairwise
from typing import cast

from penstock.broker.config import SlaveReads
from penstock.broker.fetch.operation import FetchOperation
from penstock.broker.partitions import HostedPartition
from penstock.controller.commands.command import DeleteTopics, TopicReference
from penstock.protocol.api_keys import ApiKey
from penstock.protocol.error_codes import ErrorCode
from tests.broker.cluster import Asked, Cluster, Node, fetch_fields, fetched
from tests.broker.test_role_changes import events

MANY = 300
LONG_MS = 60_000
PORTION_MAX = 30
"""Fetches that look in one turn, where each is answered."""


class Late:
    """Stands in for a fetch that has looked after the end moved."""

    def on_readable(self) -> int:
        return 1

    def on_changed(self) -> int:
        return 1


def park(node: Node, count: int = MANY, min_bytes: int = 1, rack: str = "") -> list[Asked]:
    fields = fetch_fields("events", 0, LONG_MS, -1, -1) | {"rack_id": rack, "min_bytes": min_bytes}
    waiting = [node.send(ApiKey.FETCH, 12, fields) for _ in range(count)]
    node.cluster.world.run()
    assert not any(asked.answer for asked in waiting)
    return waiting


def hosted(node: Node, topic: str = "events") -> HostedPartition:
    found = node.broker.partitions.find(topic, 0)
    assert found is not None
    return found


def refuse(most: int, begin: Callable[[int], int]) -> None:
    """Tell who asks for room that the connection has gone."""
    del most
    begin(0)


def half_woken() -> tuple[Cluster, list[Asked]]:
    """A record has come, and the first of those who wait for it have it."""
    cluster = events(1)
    waiting = park(cluster.nodes[0])
    cluster.nodes[0].produce(b"a")
    while not waiting[0].answer:
        if cluster.world.soon:
            step(cluster)
        else:
            cluster.world.work_one()
    assert 0 < sum(asked.answer is not None for asked in waiting) < PORTION_MAX
    return cluster, waiting


def step(cluster: Cluster) -> None:
    """Run one callback of the loop."""
    callback = cluster.world.soon.popleft().callback
    if callback is not None:
        callback()


def errors(waiting: list[Asked]) -> list[int]:
    return [fetched(asked).error_code for asked in waiting]


def test_each_turn_answers_some_in_the_order_of_their_arrival() -> None:
    cluster, waiting = half_woken()
    counts = []
    while cluster.world.soon:
        answered = [asked.answer is not None for asked in waiting]
        assert answered == sorted(answered, reverse=True)
        counts.append(sum(answered))
        step(cluster)
    assert all(asked.answer for asked in waiting)
    assert max(b - a for a, b in pairwise(counts)) < PORTION_MAX


def test_turns_without_any_lie_between_two_portions() -> None:
    cluster, waiting = half_woken()
    portions = []
    while cluster.world.soon:
        before = sum(asked.answer is not None for asked in waiting)
        step(cluster)
        portions.append(sum(asked.answer is not None for asked in waiting) > before)
    assert portions.count(True) > MANY / PORTION_MAX
    assert not any(a and b for a, b in pairwise(portions))


def test_those_who_have_not_looked_hear_that_the_topic_is_gone() -> None:
    cluster, waiting = half_woken()
    reference = TopicReference(name="events")
    cluster.metadata.submit(DeleteTopics(topics=(reference,)))
    cluster.world.run()
    codes = errors(waiting)
    assert set(codes) == {ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
    assert codes == sorted(codes)


def test_those_who_have_not_looked_hear_that_another_broker_leads() -> None:
    cluster, waiting = half_woken()
    member = cluster.nodes[0].member
    member.resign()
    cluster.world.run()
    codes = errors(waiting)
    assert set(codes) == {ErrorCode.NONE, ErrorCode.NOT_LEADER_OR_FOLLOWER}


def test_a_lost_mastership_reaches_those_for_whom_there_was_too_little() -> None:
    cluster = events(1)
    node = cluster.nodes[0]
    waiting = park(node, min_bytes=1 << 19)
    hosted(node).wake()
    assert 0 < len(hosted(node).waiters) < MANY
    node.member.resign()
    cluster.world.run()
    assert set(errors(waiting)) == {ErrorCode.NOT_LEADER_OR_FOLLOWER}


def test_a_lost_mastership_reaches_those_who_are_woken_by_records_before_they_have_looked() -> None:
    cluster = events(1)
    node = cluster.nodes[0]
    waiting = park(node, min_bytes=1 << 19)
    node.member.resign()
    assert not hosted(node).waiters
    late = Late()
    hosted(node).waiters[late] = None
    hosted(node).wake()
    cluster.world.run()
    assert set(errors(waiting)) == {ErrorCode.NOT_LEADER_OR_FOLLOWER}


def test_those_whose_connections_closed_hold_up_nobody() -> None:
    cluster, waiting = half_woken()
    for asked in waiting[::2]:
        asked.wire.is_closed = True
        asked.wire.ask_room = refuse  # type: ignore[method-assign]
    cluster.world.run()
    assert all(asked.answer for asked in waiting[1::2])
    assert not hosted(cluster.nodes[0]).waiters


def test_a_fetch_that_ends_meanwhile_is_forgotten_by_the_wake() -> None:
    cluster = events(1)
    node = cluster.nodes[0]
    park(node, min_bytes=1 << 19)
    last = cast("FetchOperation", list(hosted(node).waiters)[-1])
    hosted(node).wake()
    wake = hosted(node)._wake
    assert wake is not None
    left = len(wake)
    last.on_changed()
    assert len(wake) == left, "it looked, found too little, and waits on"
    last._is_over = True
    last.on_changed()
    assert len(wake) == left - 1


def test_records_that_come_between_two_portions_wake_nobody_twice() -> None:
    cluster = events(1)
    node = cluster.nodes[0]
    park(node, min_bytes=1 << 19)
    for _ in range(20):
        hosted(node).wake()
        wake = hosted(node)._wake
        assert wake is not None
        assert len(wake) + len(hosted(node).waiters) == MANY
    cluster.world.run()
    assert len(hosted(node).waiters) == MANY


def test_one_fetch_on_another_partition_does_not_wait_for_thousands() -> None:
    cluster = events(1)
    cluster.create("other")
    node = cluster.nodes[0]
    waiting = park(node)
    alone = node.fetch(0, topic="other", wait_ms=LONG_MS)
    node.produce(b"a")
    node.produce(b"b", topic="other")
    while not alone.answer:
        if cluster.world.soon:
            step(cluster)
        else:
            cluster.world.work_one()
    assert sum(asked.answer is not None for asked in waiting) < MANY // 2


def test_thousands_whose_time_ends_together_are_answered_in_portions() -> None:
    cluster = events(1)
    node = cluster.nodes[0]
    waiting = park(node)
    for parked in list(hosted(node).waiters):
        cast("FetchOperation", parked)._on_deadline()
    assert 0 < sum(asked.answer is not None for asked in waiting) < PORTION_MAX
    cluster.world.run()
    assert all(asked.answer for asked in waiting)


def test_a_slave_wakes_those_who_have_seen_less_than_who_came_last() -> None:
    cluster = events(slave_reads=SlaveReads.RACK)
    slave = cluster.nodes[1]
    (early,) = park(slave, 1, rack="rack-1")
    partition = hosted(slave)
    (waiter,) = partition.waiters
    cluster.nodes[0].produce(b"a")
    partition.park(Late(), 1)
    assert waiter in partition.waiters
    cluster.replicate()
    assert fetched(early).records
