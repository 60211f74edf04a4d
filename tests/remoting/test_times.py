"""Messages that wait for a time of their own: never early, and a second late at most."""

from random import Random

import pytest

from penstock.base.errors import PlatformError
from penstock.controller.commands.command import DeleteTopics, TopicReference
from penstock.record.build import Record, record_bytes_max
from penstock.remoting.config import DELAY_MS_MOST
from penstock.remoting.later.delayed import (
    DELAYS_MS,
    LATE_MS,
    LEVEL_MAX,
    Destination,
    _destination,
    held,
    level_before,
    released,
)
from penstock.remoting.later.due import HELD_BYTES_MAX
from penstock.remoting.system_names import DELAYED_HEADER, UNTIL_HEADER
from tests.broker.cluster import Cluster
from tests.remoting.world import Remoting, look, remotings, settle

SECOND = 1_000
DAY = 86_400 * SECOND


@pytest.fixture
def cluster() -> Cluster:
    cluster = Cluster(2)
    cluster.create("events", partitions=2)
    return cluster


def hold(
    cluster: Cluster, remote: Remoting, in_ms: int, body: bytes = b"body"
) -> list[int | PlatformError]:
    """Hold a message; what is told of it comes into the list."""
    told: list[int | PlatformError] = []
    hosted = remote.node.broker.partitions.by_name[b"events"].find(0)
    assert hosted is not None
    record = Record(None, body, (("a", b"b"),), 5)
    until_ms = cluster.world.wall_ms() + in_ms
    remote.front.holding.hold_until(hosted, until_ms, record, told.append)
    cluster.world.run()
    cluster.replicate()
    return told


def held_for(cluster: Cluster, remote: Remoting, in_ms: int, body: bytes = b"body") -> None:
    assert [type(one) for one in hold(cluster, remote, in_ms, body)] == [int]


def bodies(remote: Remoting) -> list[bytes]:
    return [bytes(one.body) for one in remote.pull("events")]


def pass_time(cluster: Cluster, ms: int) -> None:
    """Let time pass, with a look each 100 ms."""
    for _ in range(ms // 100):
        cluster.world.advance(100)
        look(cluster)
        cluster.replicate()
    cluster.world.advance(ms % 100)
    settle(cluster)


@pytest.mark.parametrize(
    ("left_ms", "level"),
    [
        (1, 1),
        (1_000, 1),
        (1_001, 1),
        (3_999, 1),
        (4_000, 2),
        (5_000, 2),
        (59_500, 5),
        (45_000, 4),
        (7_200_000, LEVEL_MAX),
        (DELAY_MS_MOST, LEVEL_MAX),
    ],
)
def test_the_level_is_the_longest_that_is_no_more_than_a_second_late(
    left_ms: int, level: int
) -> None:
    assert level_before(left_ms) == level


def test_from_level_to_level_no_time_is_early_and_each_is_a_second_late_at_most() -> None:
    random = Random(7)
    for _ in range(2_000):
        days = random.randint(0, 40)
        left_ms = random.randint(days and (days - 1) * DAY, days * DAY) or 1
        levels = []
        while left_ms > 0:
            levels.append(level_before(left_ms))
            left_ms -= DELAYS_MS[levels[-1] - 1]
        assert -LATE_MS <= left_ms <= 0
        assert len(levels) <= 12 * days + 14
        assert levels == sorted(levels, reverse=True) or levels[-1] >= levels[-2]


def test_what_waits_until_another_time_is_not_taken_for_what_was_read_before() -> None:
    record = Record(b"k", b"v", (("a", b"b"),), 5)
    for until_ms in (0, 77, 78, 0):
        for partition in (3, 4):
            destination = Destination(9, b"t" * 16, partition, until_ms)
            assert released(held(record, destination)) == (destination, record)
            later = destination.at(10)
            assert (later.due_ms, later[1:]) == (10, destination[1:])
            assert released(held(record, later)) == (later, record)


@pytest.mark.parametrize(
    "told", [b"", b"9", b"9 74 3 1", b"x 74 3", b"9 7 3", b"9 zz 3", b"9 74 y", b"9 \xff 3"]
)
def test_a_record_that_tells_no_place_is_none_that_waits(told: bytes) -> None:
    record = Record(None, b"v", (("a", b"b"), (DELAYED_HEADER, told)), 5)
    for _ in range(2):
        assert released(record) is None
    until = Record(None, b"v", ((UNTIL_HEADER, b"x"), (DELAYED_HEADER, b"9 74 3")), 5)
    assert released(until) is None
    nothing = Record(None, b"v", ((UNTIL_HEADER, None), (DELAYED_HEADER, b"9 74 3")), 5)
    headers = ((UNTIL_HEADER, None),)
    assert released(nothing) == (Destination(9, b"t", 3), Record(None, b"v", headers, 5))


def test_long_headers_are_read_and_not_remembered() -> None:
    told = b"%0200d 74 3" % 9
    before = _destination.cache_info().currsize
    record = Record(None, b"v", ((DELAYED_HEADER, told),), 5)
    assert released(record) == (Destination(9, b"t", 3), Record(None, b"v", (), 5))
    assert _destination.cache_info().currsize == before


def test_a_record_says_until_when_it_waits_and_nobody_else_can() -> None:
    record = Record(b"k", b"v", (("a", b"b"),), 5)
    destination = Destination(9, b"t" * 16, 3, 77)
    assert released(held(record, destination)) == (destination, record)
    forged = record._replace(headers=(*record.headers, ("rmq.until", b"99")))
    plain = destination._replace(until_ms=0)
    assert released(held(forged, plain)) == (plain, record)
    moved = held(record, Destination(1 << 42, b"t" * 16, 9_999, 1 << 42))
    assert record_bytes_max(moved) <= record_bytes_max(record) + HELD_BYTES_MAX
    bad = held(record, plain)._replace(
        headers=(("rmq.until", b"x"), *held(record, plain).headers[-1:])
    )
    assert released(bad) is None


def test_a_message_comes_at_its_time_and_not_before(cluster: Cluster) -> None:
    remote, _ = remotings(cluster)
    held_for(cluster, remote, 45 * SECOND)
    pass_time(cluster, 45 * SECOND - 1)
    assert bodies(remote) == []
    pass_time(cluster, SECOND + 1)
    (message,) = remote.pull("events")
    assert (message.body, message.born_ms) == (b"body", 5)
    assert message.store_ms >= cluster.world.wall_ms() - 2 * SECOND
    delivery = remote.front.delivery
    assert (delivery.delivered, delivery.moved, delivery.dropped, delivery.put_back) == (1, 2, 0, 0)
    settle(cluster)
    assert bodies(remote) == [b"body"], "once"
    assert delivery.waiting() == 0


def test_a_time_that_is_over_is_now(cluster: Cluster) -> None:
    remote, _ = remotings(cluster)
    for in_ms in (0, -5_000):
        held_for(cluster, remote, in_ms)
    assert bodies(remote) == [b"body"] * 2
    assert remote.front.holding.held == 0


def test_messages_come_in_the_order_of_their_times(cluster: Cluster) -> None:
    remote, _ = remotings(cluster)
    for seconds in (9, 3, 6, 2, 12):
        held_for(cluster, remote, seconds * SECOND, b"%d" % seconds)
    pass_time(cluster, 13 * SECOND + 500)
    assert bodies(remote) == [b"2", b"3", b"6", b"9", b"12"]


@pytest.mark.parametrize("at", [500, 5_500, 6_500])
def test_a_new_master_goes_on_with_what_waits(cluster: Cluster, at: int) -> None:
    """8 s are 5, 1, 1 and 1: the mastership changes before, between and behind."""
    first, second = remotings(cluster)
    held_for(cluster, first, 8 * SECOND)
    pass_time(cluster, at)
    cluster.lead(1)
    cluster.replicate()
    settle(cluster)
    pass_time(cluster, 8 * SECOND - at - 1)
    assert bodies(second) == []
    pass_time(cluster, SECOND + 100)
    assert bodies(second) == [b"body"]


def test_what_its_topic_refuses_waits_once_more(cluster: Cluster) -> None:
    remote, _ = remotings(cluster)
    held_for(cluster, remote, 7 * SECOND, b"x" * 2_000)
    hosted = remote.node.broker.partitions.by_name[b"events"]
    rules = hosted.rules
    hosted.rules = rules._replace(max_message_bytes=1_000)
    pass_time(cluster, 9 * SECOND)
    assert bodies(remote) == []
    assert remote.front.delivery.put_back >= 1
    hosted.rules = rules
    pass_time(cluster, 2 * SECOND)
    assert bodies(remote) == [b"x" * 2_000]


def test_what_its_topic_would_refuse_is_refused_at_once(cluster: Cluster) -> None:
    cluster.create("small", max_message_bytes="1200")
    remote, _ = remotings(cluster)
    hosted = remote.node.broker.partitions.by_name[b"small"].find(0)
    assert hosted is not None
    told: list[int | PlatformError] = []
    until_ms = cluster.world.wall_ms() + SECOND
    record = Record(None, b"x" * 1_200, (), 5)
    remote.front.holding.hold_until(hosted, until_ms, record, told.append)
    assert [isinstance(one, PlatformError) for one in told] == [True]
    assert remote.front.delivery.waiting() == 0


def test_messages_of_a_deleted_topic_are_dropped_on_their_way(cluster: Cluster) -> None:
    remote, _ = remotings(cluster)
    held_for(cluster, remote, 7 * SECOND)
    cluster.metadata.submit(DeleteTopics(topics=(TopicReference(name="events"),)))
    pass_time(cluster, 6 * SECOND)
    assert (remote.front.delivery.dropped, remote.front.delivery.waiting()) == (1, 0)


def test_a_level_that_is_not_known_yet_is_waited_for(cluster: Cluster) -> None:
    remote, _ = remotings(cluster)
    held_for(cluster, remote, 6 * SECOND)
    by_name = remote.node.broker.partitions.by_name
    topic = by_name.pop(b"__delayed_1")
    pass_time(cluster, 5 * SECOND + 500)
    assert remote.front.delivery.dropped == 0
    by_name[b"__delayed_1"] = topic
    pass_time(cluster, 3 * SECOND)
    assert bodies(remote) == [b"body"]


def test_thousands_that_go_on_at_once_all_come(cluster: Cluster) -> None:
    remote, _ = remotings(cluster)
    hosted = remote.node.broker.partitions.by_name[b"events"].find(0)
    assert hosted is not None
    until_ms = cluster.world.wall_ms() + 6 * SECOND
    told: list[int | PlatformError] = []
    for n in range(1_300):
        record = Record(None, b"%d" % n, (), 5)
        remote.front.holding.hold_until(hosted, until_ms, record, told.append)
        if n % 100 == 99:
            cluster.replicate()
    assert [type(one) for one in told] == [int] * 1_300
    pass_time(cluster, 8 * SECOND)
    found: list[bytes] = []
    while messages := remote.pull("events", len(found)):
        found += [bytes(one.body) for one in messages]
    assert found == [b"%d" % n for n in range(1_300)]
