"""ShareFetch and ShareAcknowledge on a live node: what a member gets, and what becomes of it."""

import asyncio
from contextlib import closing
from typing import Any

import pytest

from penstock.kafka.shares import fetching
from penstock.protocol.error_codes import ErrorCode
from tests.kafka.sharing import (
    ACCEPT,
    GAP,
    REJECT,
    RELEASE,
    RENEW,
    Member,
    Range,
    part_of,
    ranges,
    set_group,
    subscribe,
    values,
)
from tests.kafka.test_produce_fetch import batch, create, outcome, produce
from tests.live_node import LiveNode, RawClient


@pytest.fixture
def topic(node: LiveNode) -> bytes:
    set_group(node, "share.auto.offset.reset", "earliest")
    topic_id = create(node, "t")
    subscribe(node, "t")
    return topic_id


@pytest.mark.parametrize("version", [1, 2])
def test_a_member_gets_records_and_what_it_accepts_never_comes_again(
    client: RawClient, topic: bytes, version: int
) -> None:
    produce(client, "t", batch(b"a", b"b", b"c"))
    member = Member(client, topic)
    member.version = version
    answer = member.open(0)
    assert ranges(answer) == [Range(0, 2, 1)]
    assert values(answer) == [b"a", b"b", b"c"]
    assert answer.acquisition_lock_timeout.total_seconds() == 30
    assert member.say(0, 1, ACCEPT) == ErrorCode.NONE
    assert member.say(2, 2, RELEASE) == ErrorCode.NONE
    answer = member.fetch()
    assert ranges(answer) == [Range(2, 2, 2)]
    assert values(answer) == [b"c"]


def test_two_members_never_hold_one_record_at_a_time(
    node: LiveNode, client: RawClient, topic: bytes
) -> None:
    for number in range(4):
        produce(client, "t", batch(b"%d" % number))
    with closing(node.connect()) as other_client:
        one, other = Member(client, topic), Member(other_client, topic, name="other")
        assert ranges(one.open(0, max_records=2)) == [Range(0, 1, 1)]
        assert ranges(other.open(0)) == [Range(2, 3, 1)]
        assert ranges(one.fetch()) == []
        assert other.say(0, 0, ACCEPT) == ErrorCode.INVALID_RECORD_STATE
        assert one.say(0, 0, ACCEPT) == ErrorCode.NONE


def test_acknowledgements_come_with_a_fetch_and_are_answered_in_its_partitions(
    client: RawClient, topic: bytes
) -> None:
    produce(client, "t", batch(b"a", b"b"))
    member = Member(client, topic)
    member.open(0)
    produce(client, "t", batch(b"c"))
    answer = member.fetch((), {0: [(0, 0, [ACCEPT]), (1, 1, [RELEASE])]})
    assert part_of(answer).acknowledge_error_code == ErrorCode.NONE
    assert ranges(answer) == [Range(1, 1, 2), Range(2, 2, 1)]
    answer = member.fetch((), {0: [(0, 0, [RENEW])]})
    assert part_of(answer).acknowledge_error_code == ErrorCode.INVALID_REQUEST
    answer = member.fetch((), {0: [(7, 7, [ACCEPT])]})
    assert part_of(answer).acknowledge_error_code == ErrorCode.INVALID_RECORD_STATE


def test_types_for_each_offset_of_a_range_say_what_becomes_of_it(
    client: RawClient, topic: bytes
) -> None:
    produce(client, "t", batch(b"a", b"b", b"c", b"d", b"e"))
    member = Member(client, topic)
    member.open(0)
    assert member.say(0, 4, ACCEPT, RELEASE, RELEASE, REJECT, GAP) == ErrorCode.NONE
    assert ranges(member.fetch()) == [Range(1, 2, 2)]


def test_what_a_member_holds_changes_even_where_it_does_not_hold_all_it_says(
    client: RawClient, topic: bytes
) -> None:
    produce(client, "t", batch(b"a", b"b"))
    member = Member(client, topic)
    member.open(0)
    assert member.say(0, 2, ACCEPT) == ErrorCode.INVALID_RECORD_STATE
    assert member.say(0, 1, ACCEPT) == ErrorCode.NONE  # as it was said before
    assert member.say(0, 1, RELEASE) == ErrorCode.INVALID_RECORD_STATE
    assert ranges(member.fetch()) == []


@pytest.mark.parametrize(
    "acks",
    [
        [(1, 0, [ACCEPT])],
        [(-1, 0, [ACCEPT])],
        [(0, 1, [])],
        [(0, 2, [ACCEPT, ACCEPT])],
        [(0, 0, [-1])],
        [(0, 0, [5])],
        [(0, 0, [RENEW])],
        [(0, 1, [ACCEPT]), (1, 1, [ACCEPT])],
        [(1, 1, [ACCEPT]), (0, 0, [ACCEPT])],
    ],
)
def test_acknowledgements_that_make_no_sense_are_refused_and_do_nothing(
    client: RawClient, topic: bytes, acks: list[tuple[int, int, list[int]]]
) -> None:
    produce(client, "t", batch(b"a", b"b"))
    member = Member(client, topic)
    member.open(0)
    answer = member.acknowledge({0: acks})
    assert part_of(answer).error_code == ErrorCode.INVALID_REQUEST
    assert member.say(0, 1, RELEASE) == ErrorCode.NONE


@pytest.mark.parametrize("last", [10_000, 1 << 40, (1 << 63) - 1])
def test_a_range_that_nobody_can_hold_is_not_looked_at(
    client: RawClient, topic: bytes, last: int
) -> None:
    produce(client, "t", batch(b"a"))
    member = Member(client, topic)
    member.open(0)
    assert member.say(0, last, ACCEPT) == ErrorCode.INVALID_RECORD_STATE
    assert ranges(member.fetch()) == []


def test_a_record_is_delivered_five_times_and_then_given_up(
    client: RawClient, topic: bytes
) -> None:
    produce(client, "t", batch(b"bad"))
    produce(client, "t", batch(b"good"))
    member = Member(client, topic)
    member.open(0, max_records=1)
    for count in range(2, 6):
        assert member.say(0, 0, RELEASE) == ErrorCode.NONE
        assert ranges(member.fetch(max_records=1)) == [Range(0, 0, count)]
    assert member.say(0, 0, RELEASE) == ErrorCode.NONE
    assert ranges(member.fetch()) == [Range(1, 1, 1)]


def test_a_record_near_its_last_delivery_comes_alone(client: RawClient, topic: bytes) -> None:
    produce(client, "t", batch(*(b"%d" % number for number in range(8))))
    member = Member(client, topic)
    found = [ranges(member.open(0))]
    for _ in range(4):
        first, last = found[-1][0].first, found[-1][-1].last
        assert member.say(first, last, RELEASE) == ErrorCode.NONE
        found.append(ranges(member.fetch()))
    assert found[0] == [Range(0, 7, 1)]
    assert found[-1] == [Range(0, 0, 5)]


def test_whole_batches_are_handed_out_unless_the_number_of_records_is_strict(
    client: RawClient, topic: bytes
) -> None:
    produce(client, "t", batch(*[b"v"] * 10))
    produce(client, "t", batch(*[b"v"] * 10))
    member = Member(client, topic)
    assert ranges(member.open(0, max_records=3)) == [Range(0, 9, 1)]
    answer = member.fetch(max_records=3, share_acquire_mode=1)
    assert ranges(answer) == [Range(10, 12, 1)]
    assert len(values(answer)) == 3


def test_ranges_end_where_a_batch_does_once_they_are_large_enough(
    client: RawClient, topic: bytes
) -> None:
    for _ in range(4):
        produce(client, "t", batch(b"a", b"b", b"c"))
    answer = Member(client, topic).open(0, batch_size=5)
    assert ranges(answer) == [Range(0, 5, 1), Range(6, 11, 1)]


def test_only_batches_with_records_for_the_member_are_sent(client: RawClient, topic: bytes) -> None:
    for number in range(5):
        produce(client, "t", batch(b"%d" % number))
    member = Member(client, topic)
    member.open(0)
    member.acknowledge({0: [(0, 4, [RELEASE, ACCEPT, ACCEPT, RELEASE, ACCEPT])]})
    answer = member.fetch()
    assert ranges(answer) == [Range(0, 0, 2), Range(3, 3, 2)]
    assert len(part_of(answer).records) == len(batch(b"0")) + len(batch(b"3"))


def test_renewed_records_stay_with_their_member_and_no_records_come(
    client: RawClient, topic: bytes
) -> None:
    produce(client, "t", batch(b"a"))
    member = Member(client, topic)
    member.open(0)
    produce(client, "t", batch(b"b"))
    nothing = {"max_bytes": 0, "min_bytes": 0, "max_records": 0, "is_renew_ack": True}
    answer = member.fetch((), {0: [(0, 0, [RENEW])]}, **nothing)
    assert part_of(answer).acknowledge_error_code == ErrorCode.NONE
    assert ranges(answer) == []
    answer = member.acknowledge({0: [(0, 0, [RENEW])]}, is_renew_ack=True)
    assert part_of(answer).error_code == ErrorCode.NONE
    assert member.say(0, 0, ACCEPT) == ErrorCode.NONE


@pytest.mark.parametrize("name", ["max_bytes", "min_bytes", "max_records"])
def test_who_renews_asks_for_no_records(client: RawClient, topic: bytes, name: str) -> None:
    member = Member(client, topic)
    member.open(0)
    nothing = {"max_bytes": 0, "min_bytes": 0, "max_records": 0, "is_renew_ack": True}
    answer = member.fetch((), {0: [(0, 0, [RENEW])]}, **nothing | {name: 1})
    assert answer.error_code == ErrorCode.INVALID_REQUEST


def test_what_comes_back_while_a_fetch_reads_behind_it_is_handed_out_with_its_bytes(
    node: LiveNode, client: RawClient, topic: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    produce(client, "t", batch(b"a"))
    produce(client, "t", batch(b"b"))
    with closing(node.connect()) as other_client:
        other = Member(other_client, topic, name="other")
        assert ranges(other.open(0, max_records=1)) == [Range(0, 0, 1)]
        read = fetching.ShareFetching._read
        first_offsets: list[int] = []

        async def given_back_meanwhile(self: Any, wanted: Any) -> Any:
            found = await read(self, wanted)
            first_offsets.extend(offset for _, offset in wanted)
            if len(first_offsets) == 1:
                await asyncio.to_thread(other.say, 0, 0, RELEASE)
            return found

        monkeypatch.setattr(fetching.ShareFetching, "_read", given_back_meanwhile)
        answer = Member(client, topic).open(0)
        assert first_offsets == [1, 0]
        assert ranges(answer) == [Range(0, 0, 2), Range(1, 1, 1)]
        assert values(answer) == [b"a", b"b"]


def test_a_share_begins_at_the_end_by_default(node: LiveNode, client: RawClient) -> None:
    topic = create(node, "t")
    subscribe(node, "t")
    produce(client, "t", batch(b"before"))
    member = Member(client, topic)
    assert ranges(member.open(0)) == []
    produce(client, "t", batch(b"after"))
    assert values(member.fetch()) == [b"after"]


def test_a_share_begins_at_the_first_record_that_is_young_enough(
    node: LiveNode, client: RawClient
) -> None:
    set_group(node, "share.auto.offset.reset", "by_duration:PT1H")
    topic = create(node, "t")
    subscribe(node, "t")
    now_ms = node.call(node.broker.clock.wall_ms)
    produce(client, "t", batch(b"old", timestamp_ms=now_ms - 7_200_000))
    produce(client, "t", batch(b"young", timestamp_ms=now_ms - 60_000))
    assert values(Member(client, topic).open(0)) == [b"young"]


def test_without_a_record_young_enough_a_share_begins_at_the_end(
    node: LiveNode, client: RawClient
) -> None:
    set_group(node, "share.auto.offset.reset", "by_duration:PT1S")
    topic = create(node, "t")
    subscribe(node, "t")
    produce(client, "t", batch(b"old"))
    member = Member(client, topic)
    assert ranges(member.open(0)) == []
    produce(client, "t", batch(b"new"))
    assert values(member.fetch()) == [b"new"]


def test_groups_have_shares_of_their_own(client: RawClient, node: LiveNode, topic: bytes) -> None:
    set_group(node, "share.auto.offset.reset", "earliest", group="h")
    subscribe(node, "t", group="h")
    produce(client, "t", batch(b"a"))
    assert values(Member(client, topic).open(0)) == [b"a"]
    assert values(Member(client, topic, group="h").open(0)) == [b"a"]


def test_what_is_deleted_of_the_log_is_over_for_the_share(client: RawClient, topic: bytes) -> None:
    for number in range(4):
        produce(client, "t", batch(b"%d" % number))
    member = Member(client, topic)
    member.open(0, max_records=1)
    partitions = [{"partition_index": 0, "offset": 2}]
    fields = {"topics": [{"name": "t", "partitions": partitions}], "timeout_ms": 5_000}
    client.ask(21, 2, fields)
    assert values(member.fetch()) == [b"2", b"3"]
    assert member.say(0, 0, RELEASE) == ErrorCode.INVALID_RECORD_STATE


def test_records_of_several_partitions_come_in_one_answer_within_its_limits(
    node: LiveNode, client: RawClient
) -> None:
    set_group(node, "share.auto.offset.reset", "earliest")
    topic = create(node, "t", partitions=3)
    subscribe(node, "t")
    for partition in range(3):
        assert not outcome(produce(client, "t", batch(b"x"), partition=partition)).error_code
    member = Member(client, topic)
    answer = member.open(0, 1, 2, max_records=2)
    assert sum(len(ranges(answer, partition)) for partition in range(3)) == 2
    answer = member.fetch(max_records=2)
    assert [ranges(answer, partition) for partition in range(3)] == [[], [], [Range(0, 0, 1)]]
