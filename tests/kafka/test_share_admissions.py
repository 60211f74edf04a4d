"""A share begins only where its group knows of it: else no deletion of the group would find it."""

import asyncio
import time
from contextlib import closing
from typing import Any

import pytest

from harness.waiting import wait_until
from penstock.base.ids import BrokerId, LeaderEpoch
from penstock.coordinator.calls.asking import BrokerNotReached
from penstock.coordinator.calls.shares import ShareBeginRequest, SharePlace
from penstock.kafka.shares import admissions, fetching
from penstock.protocol.api_keys import ApiKey
from penstock.protocol.error_codes import ErrorCode
from penstock.shares.state import ShareKey
from tests.kafka.sharing import (
    ACCEPT,
    FETCH,
    Member,
    Range,
    ask,
    joining,
    ms,
    part_of,
    ranges,
    set_group,
    subscribe,
    values,
)
from tests.kafka.test_produce_fetch import batch, create, produce
from tests.live_node import LiveNode, RawClient

UNKNOWN = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
HEARTBEAT = ApiKey.SHARE_GROUP_HEARTBEAT


@pytest.fixture
def topic(node: LiveNode) -> bytes:
    set_group(node, "share.auto.offset.reset", "earliest")
    return create(node, "t", partitions=2)


def shares(node: LiveNode) -> list[ShareKey]:
    return node.call(lambda: [*node.broker.shares.here.keys()])


def has_place(node: LiveNode) -> bool:
    return node.call(lambda: "__share_state" in node.broker.metadata.topics_by_name)


def leave(client: RawClient, name: str = "keeper") -> None:
    fields = joining("t", name=name) | {"member_epoch": -1, "subscribed_topic_names": None}
    assert client.ask(HEARTBEAT, 1, fields).error_code == ErrorCode.NONE


def delete_group(client: RawClient) -> ErrorCode:
    (result,) = client.ask(ApiKey.DELETE_GROUPS, 2, {"groups_names": ["g"]}).results
    return ErrorCode(result.error_code)


def test_who_is_in_no_group_begins_no_share_however_many_groups_it_names(
    node: LiveNode, client: RawClient, topic: bytes
) -> None:
    produce(client, "t", batch(b"a"))
    for number in range(20):
        stranger = Member(client, topic, group=f"g{number}")
        assert part_of(stranger.open(0)).error_code == UNKNOWN
        answer = stranger.acknowledge({0: [(0, 0, [ACCEPT])]})
        assert part_of(answer).error_code != ErrorCode.NONE
    assert shares(node) == []
    assert not has_place(node)


def test_an_error_that_was_heard_is_waited_with_and_ends_once_the_group_knows(
    node: LiveNode, client: RawClient, topic: bytes
) -> None:
    produce(client, "t", batch(b"a"))
    member = Member(client, topic)
    assert part_of(member.open(0, max_wait=ms(60_000))).error_code == UNKNOWN
    began = time.monotonic()
    assert part_of(member.fetch(max_wait=ms(500))).error_code == UNKNOWN
    assert time.monotonic() - began >= 0.499  # timers round to a millisecond
    subscribe(node, "t")
    # A refusal is kept for a second, and a fetch that waits with it is not woken.
    assert wait_until(lambda: ranges(member.fetch(max_wait=ms(500))) == [Range(0, 0, 1)], 60)


def test_a_refusal_is_kept_for_a_while(
    node: LiveNode, client: RawClient, topic: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(admissions, "REFUSED_MS", 600_000)
    for number in range(3):
        member = Member(client, topic, name=f"m{number}")
        assert part_of(member.open(0, 1)).error_code == UNKNOWN
    served = node.call(lambda: dict(node.node.calls.stats.served))
    assert served["ShareBeginRequest", "answered"] == 1


def test_only_partitions_that_the_group_was_assigned_or_given_begin(
    node: LiveNode, client: RawClient, topic: bytes
) -> None:
    partitions = [{"partition_index": 1, "start_offset": 0}]
    fields = {"group_id": "g", "topics": [{"topic_name": "t", "partitions": partitions}]}
    assert client.ask(ApiKey.ALTER_SHARE_GROUP_OFFSETS, 0, fields).error_code == ErrorCode.NONE
    places = tuple(SharePlace(*one) for one in ((topic, 0), (topic, 1), (b"x" * 16, 0)))
    question = ShareBeginRequest(group="g", places=places)
    assert tuple(ask(node, question).codes) == (UNKNOWN, ErrorCode.NONE, UNKNOWN)
    nobody = ShareBeginRequest(group="nobody", places=places[:1])
    assert tuple(ask(node, nobody).codes) == (ErrorCode.GROUP_ID_NOT_FOUND,)


def test_a_member_that_goes_on_after_its_group_was_deleted_begins_nothing(
    node: LiveNode, client: RawClient, topic: bytes
) -> None:
    produce(client, "t", batch(b"a"))
    subscribe(node, "t")
    member = Member(client, topic)
    assert ranges(member.open(0)) == [Range(0, 0, 1)]
    leave(client)
    assert delete_group(client) == ErrorCode.NONE
    assert part_of(member.fetch(max_wait=ms(60_000))).error_code == UNKNOWN
    assert shares(node) == []


class Late:
    """The calls of a node; an answer to whether a share may begin is held back until `go`."""

    def __init__(self, node: LiveNode) -> None:
        self._node = node
        self._calls = node.node.calls
        self._go = asyncio.Event()
        self.answered = 0

    async def ask(self, broker_id: BrokerId, question: Any, *, timeout_ms: int) -> Any:
        answer = await self._calls.ask(broker_id, question, timeout_ms=timeout_ms)
        self.answered += 1
        await self._go.wait()
        return answer

    def go(self) -> None:
        self._node.call(self._go.set)


def use(node: LiveNode, monkeypatch: pytest.MonkeyPatch, calls: object) -> None:
    node.call(lambda: monkeypatch.setattr(admissions_of(node), "_calls", calls))


def admissions_of(node: LiveNode) -> admissions.ShareAdmissions:
    found = node.front.share_admissions
    assert isinstance(found, admissions.ShareAdmissions)
    return found


def test_an_answer_from_before_the_deletion_of_the_group_is_void(
    node: LiveNode, client: RawClient, topic: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    produce(client, "t", batch(b"a"))
    subscribe(node, "t")
    late = Late(node)
    use(node, monkeypatch, late)
    member = Member(client, topic)
    client.send(FETCH, member.version, member.fetch_fields((0,), max_wait=ms(60_000)))
    assert node.until(lambda: late.answered)
    with closing(node.connect()) as other:
        leave(other)
        assert delete_group(other) == ErrorCode.NONE
        late.go()
        assert part_of(client.receive(FETCH, member.version)).error_code == UNKNOWN
    assert shares(node) == []


def test_an_answer_holds_for_one_mastership_and_one_share(
    node: LiveNode, client: RawClient, topic: bytes
) -> None:
    subscribe(node, "t")
    kept, key = admissions_of(node), ShareKey("g", topic, 0)

    def said() -> ErrorCode | None:
        return kept.of(key, LeaderEpoch(7))

    assert node.call(said) is None
    assert node.until(lambda: said() is ErrorCode.NONE)
    assert not node.call(lambda: kept.take(key, LeaderEpoch(8)))
    assert node.call(lambda: kept.take(key, LeaderEpoch(7)))
    assert not node.call(lambda: kept.take(key, LeaderEpoch(7)))
    assert node.call(said) is None


class Cut:
    """The calls of a node; the first one fails once `go` is called, others get their answers."""

    def __init__(self, node: LiveNode) -> None:
        self._node = node
        self._calls = node.node.calls
        self._go = asyncio.Event()
        self.asked: list[tuple[SharePlace, ...]] = []

    async def ask(self, broker_id: BrokerId, question: Any, *, timeout_ms: int) -> Any:
        self.asked.append(tuple(question.places))
        if len(self.asked) == 1:
            await self._go.wait()
            raise BrokerNotReached("its connection was cut")
        return await self._calls.ask(broker_id, question, timeout_ms=timeout_ms)

    def go(self) -> None:
        self._node.call(self._go.set)


def test_no_answer_for_a_share_that_is_void_holds_up_no_other_share_of_its_group(
    node: LiveNode, topic: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(admissions, "ASKED_MS", 3_600_000)
    subscribe(node, "t")
    cut, kept = Cut(node), admissions_of(node)
    use(node, monkeypatch, cut)
    first, second = ShareKey("g", topic, 0), ShareKey("g", topic, 1)
    assert node.call(lambda: kept.of(first, LeaderEpoch(7))) is None
    assert node.until(lambda: cut.asked)
    node.call(lambda: kept.void(first))
    assert node.call(lambda: kept.of(second, LeaderEpoch(7))) is None
    cut.go()
    assert node.until(lambda: kept.of(second, LeaderEpoch(7)) is ErrorCode.NONE)
    assert node.call(lambda: set(kept._said)) == {second}


def test_no_answer_from_before_the_share_was_void_does_not_take_away_the_newer_one(
    node: LiveNode, topic: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(admissions, "ASKED_MS", 3_600_000)
    subscribe(node, "t")
    cut, kept, key = Cut(node), admissions_of(node), ShareKey("g", topic, 0)
    use(node, monkeypatch, cut)
    assert node.call(lambda: kept.of(key, LeaderEpoch(7))) is None
    assert node.until(lambda: cut.asked)
    node.call(lambda: kept.void(key))
    assert node.call(lambda: kept.of(key, LeaderEpoch(7))) is None
    cut.go()
    assert node.until(lambda: kept.of(key, LeaderEpoch(7)) is ErrorCode.NONE)
    assert cut.asked == [(SharePlace(topic, 0),)] * 2


def test_a_share_that_is_asked_for_in_two_masterships_counts_once(
    node: LiveNode, topic: bytes
) -> None:
    kept, key = admissions_of(node), ShareKey("g", topic, 0)

    def ask_twice() -> int:
        for epoch in (7, 8):
            assert kept.of(key, LeaderEpoch(epoch)) is None
        return kept._asked

    assert node.call(ask_twice) == 1
    assert node.until(lambda: not kept._queues)
    assert node.call(lambda: kept._asked) == 0


def test_no_more_shares_are_asked_for_at_a_time_than_the_bound(
    node: LiveNode, topic: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(admissions, "KEPT_MAX", 10)
    kept = admissions_of(node)

    def ask_for(group: str, count: int) -> int:
        for number in range(count):
            assert kept.of(ShareKey(group, topic, number), LeaderEpoch(7)) is None
        return len(kept._said)

    assert node.call(lambda: ask_for("g", 100)) == 10
    assert node.until(lambda: kept.of(ShareKey("g", topic, 9), LeaderEpoch(7)) == UNKNOWN)
    assert node.call(lambda: ask_for("h", 5)) == 10, "the oldest made room"
    assert node.call(lambda: not kept._queues or kept._asked <= 10)
    assert node.until(lambda: not kept._queues)
    assert node.call(lambda: kept._asked) == 0


class Nobody:
    """Calls to a coordinator that is not reached until `is_there`."""

    def __init__(self, node: LiveNode) -> None:
        self._calls = node.node.calls
        self.asked = 0
        self.is_there = False

    async def ask(self, broker_id: BrokerId, question: Any, *, timeout_ms: int) -> Any:
        self.asked += 1
        if not self.is_there:
            raise BrokerNotReached("not started yet")
        return await self._calls.ask(broker_id, question, timeout_ms=timeout_ms)


def test_while_the_coordinator_is_not_reached_members_wait_and_others_are_not_held_up(
    node: LiveNode, client: RawClient, topic: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    produce(client, "t", batch(b"a"))
    subscribe(node, "t")
    member = Member(client, topic)
    assert ranges(member.open(0)) == [Range(0, 0, 1)]
    nobody = Nobody(node)
    use(node, monkeypatch, nobody)
    produce(client, "t", batch(b"b"))
    began = time.monotonic()
    assert values(member.fetch((0, 1), max_wait=ms(60_000))) == [b"b"]
    assert time.monotonic() - began < 30
    produce(client, "t", batch(b"c"), partition=1)
    asked = member.fetch_fields((1,), max_wait=ms(60_000))
    client.send(FETCH, member.version, asked)
    assert node.until(lambda: nobody.asked > 2)
    nobody.is_there = True
    assert values(client.receive(FETCH, member.version), 1) == [b"c"]


def test_a_fetch_that_waits_with_a_refusal_gets_records_once_its_group_knows_of_the_share(
    node: LiveNode, client: RawClient, topic: bytes
) -> None:
    produce(client, "t", batch(b"a"))
    member = Member(client, topic)
    assert part_of(member.open(0)).error_code == UNKNOWN
    client.send(FETCH, member.version, member.fetch_fields((), max_wait=ms(60_000)))
    assert node.until(lambda: node.front.share_sessions.waiting)
    subscribe(node, "t")
    # Nobody tells the master that the group knows: the fetch has it asked again.
    assert values(client.receive(FETCH, member.version)) == [b"a"]


def test_a_group_that_goes_on_refusing_is_asked_less_and_less_by_one_fetch(
    node: LiveNode, client: RawClient, topic: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A refusal that is over before the fetch is woken by it would be asked for once more.
    monkeypatch.setattr(admissions, "REFUSED_MS", 50)
    monkeypatch.setattr(fetching, "REFUSED_S", 0.05)
    member = Member(client, topic)
    assert part_of(member.open(0)).error_code == UNKNOWN
    before = node.call(lambda: asked_of_groups(node))
    member.fetch((), max_wait=ms(1_500))
    # After 50, 100, 200, 400 ms and at the end; each 50 ms it would be thirty times.
    assert 3 <= node.call(lambda: asked_of_groups(node)) - before <= 10


def asked_of_groups(node: LiveNode) -> int:
    return node.node.calls.stats.served["ShareBeginRequest", "answered"]
