"""Share sessions on a live node: epochs, limits, and what their end frees."""

import uuid
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from penstock.kafka.shares.sessions import OF_SESSION_MAX
from penstock.protocol.error_codes import ErrorCode
from tests.kafka.sharing import ACCEPT, Member, Range, ms, part_of, ranges, set_group, subscribe
from tests.kafka.test_produce_fetch import batch, create, produce
from tests.live_node import LiveNode, RawClient, running_node


@pytest.fixture
def topic(node: LiveNode) -> bytes:
    set_group(node, "share.auto.offset.reset", "earliest")
    topic_id = create(node, "t", partitions=2)
    subscribe(node, "t")
    return topic_id


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"group_id": None}, ErrorCode.INVALID_GROUP_ID),
        ({"group_id": ""}, ErrorCode.INVALID_GROUP_ID),
        ({"group_id": "g" * 30_000}, ErrorCode.INVALID_GROUP_ID),
        ({"member_id": None}, ErrorCode.INVALID_REQUEST),
        ({"member_id": ""}, ErrorCode.INVALID_REQUEST),
        ({"member_id": "m" * 1_025}, ErrorCode.INVALID_REQUEST),
        ({"share_session_epoch": 1}, ErrorCode.SHARE_SESSION_NOT_FOUND),
        ({"share_session_epoch": -1}, ErrorCode.SHARE_SESSION_NOT_FOUND),
    ],
)
def test_a_request_without_group_member_or_session_is_refused(
    client: RawClient, topic: bytes, fields: dict[str, Any], error: ErrorCode
) -> None:
    member = Member(client, topic)
    assert member.fetch((0,), **fields).error_code == error
    if "share_session_epoch" not in fields:
        member.epoch = 1
    assert member.acknowledge({}, **fields).error_code == error


def test_each_request_has_the_next_epoch_whatever_it_is(client: RawClient, topic: bytes) -> None:
    member = Member(client, topic)
    member.open(0)
    for wrong in (2, 5):
        answer = member.fetch(share_session_epoch=wrong)
        assert answer.error_code == ErrorCode.INVALID_SHARE_SESSION_EPOCH
    assert member.fetch().error_code == ErrorCode.NONE
    answer = member.acknowledge({}, share_session_epoch=1)
    assert answer.error_code == ErrorCode.INVALID_SHARE_SESSION_EPOCH
    assert member.acknowledge({}).error_code == ErrorCode.NONE
    assert member.fetch().error_code == ErrorCode.NONE


def test_a_session_is_opened_by_a_fetch_without_acknowledgements(
    client: RawClient, topic: bytes
) -> None:
    member = Member(client, topic)
    assert member.acknowledge({}).error_code == ErrorCode.INVALID_SHARE_SESSION_EPOCH
    answer = member.fetch((), {0: [(0, 0, [ACCEPT])]})
    assert answer.error_code == ErrorCode.INVALID_REQUEST


def test_partitions_are_added_and_forgotten_in_a_session(client: RawClient, topic: bytes) -> None:
    for partition in (0, 1):
        produce(client, "t", batch(b"a"), partition=partition)
    member = Member(client, topic)
    assert ranges(member.open(0), 0) == [Range(0, 0, 1)]
    answer = member.fetch((1,))
    assert ranges(answer, 1) == [Range(0, 0, 1)]
    for partition in (0, 1):
        produce(client, "t", batch(b"b"), partition=partition)
    answer = member.fetch(forgotten=[0])
    assert ranges(answer, 0) == []
    assert ranges(answer, 1) == [Range(1, 1, 1)]


def test_a_partition_that_is_only_acknowledged_and_forgotten_is_not_kept(
    client: RawClient, topic: bytes
) -> None:
    produce(client, "t", batch(b"a"))
    member = Member(client, topic)
    member.open(0)
    answer = member.fetch((), {0: [(0, 0, [ACCEPT])]}, forgotten=[0])
    assert part_of(answer).acknowledge_error_code == ErrorCode.NONE
    produce(client, "t", batch(b"b"))
    assert ranges(member.fetch()) == []


@pytest.mark.parametrize("closes_with", ["fetch", "acknowledge"])
def test_a_member_that_closes_its_session_frees_what_it_has_not_acknowledged(
    client: RawClient, topic: bytes, closes_with: str
) -> None:
    produce(client, "t", batch(b"a", b"b"))
    member, other = Member(client, topic), Member(client, topic, name="other")
    member.open(0)
    acks = {0: [(0, 0, [ACCEPT])]}
    if closes_with == "fetch":
        answer = part_of(member.close(acks)).acknowledge_error_code
    else:
        answer = part_of(member.acknowledge(acks, share_session_epoch=-1)).error_code
    assert answer == ErrorCode.NONE
    assert ranges(other.open(0)) == [Range(1, 1, 2)]
    assert member.fetch().error_code == ErrorCode.SHARE_SESSION_NOT_FOUND


def test_what_a_member_held_of_a_forgotten_partition_is_free_with_its_session(
    client: RawClient, topic: bytes
) -> None:
    produce(client, "t", batch(b"a"))
    member = Member(client, topic)
    member.open(0)
    member.fetch(forgotten=[0])
    member.close()
    assert ranges(Member(client, topic, name="other").open(0)) == [Range(0, 0, 2)]


def test_a_session_that_is_opened_anew_leaves_the_member_what_it_holds(
    client: RawClient, topic: bytes
) -> None:
    produce(client, "t", batch(b"a"))
    member = Member(client, topic)
    member.open(0)
    assert ranges(member.open(0)) == []
    assert member.say(0, 0, ACCEPT) == ErrorCode.NONE


def test_a_session_ends_with_its_connection_and_its_records_come_to_others(
    node: LiveNode, client: RawClient, topic: bytes
) -> None:
    produce(client, "t", batch(b"a"))
    with closing(node.connect()) as gone:
        Member(gone, topic).open(0)
    other = Member(client, topic, name="other")
    answer = other.open(0, max_wait=ms(60_000))
    assert ranges(answer) == [Range(0, 0, 2)]
    member = Member(client, topic)
    member.epoch = 1
    assert member.fetch().error_code == ErrorCode.SHARE_SESSION_NOT_FOUND


def test_a_session_that_goes_on_over_another_connection_outlives_the_first(
    node: LiveNode, client: RawClient, topic: bytes
) -> None:
    produce(client, "t", batch(b"a"))
    with closing(node.connect()) as first:
        member = Member(first, topic)
        member.open(0)
        member.client = client
        assert member.fetch().error_code == ErrorCode.NONE
    sessions = node.front.share_sessions
    node.call(lambda: sessions.expire(0))
    assert member.say(0, 0, ACCEPT) == ErrorCode.NONE


def test_one_session_more_than_there_may_be_is_refused(tmp_path: Path) -> None:
    with running_node(tmp_path, "shares.sessions_max=2") as node, closing(node.connect()) as client:
        topic = create(node, "t")
        subscribe(node, "t")
        members = [Member(client, topic, name=f"m{number}") for number in range(3)]
        codes = [member.open(0).error_code for member in members]
        assert codes == [0, 0, ErrorCode.SHARE_SESSION_LIMIT_REACHED]
        assert members[0].open(0).error_code == ErrorCode.NONE  # in place of its own
        members[1].epoch = 1
        members[1].close()
        assert members[2].open(0).error_code == ErrorCode.NONE
        assert node.call(lambda: node.front.share_sessions.refused) == 1


def test_a_session_with_too_many_partitions_ends_and_pins_nothing(
    node: LiveNode, client: RawClient, topic: bytes
) -> None:
    sessions = node.front.share_sessions
    member = Member(client, topic)
    answer = member.open(*range(OF_SESSION_MAX + 1))
    assert answer.error_code == ErrorCode.SHARE_SESSION_LIMIT_REACHED
    assert node.call(lambda: (len(sessions), sessions.partitions, sessions.pinned_bytes)) == (
        0,
        0,
        0,
    )
    assert member.open(*range(100)).error_code == ErrorCode.NONE
    assert node.call(lambda: (len(sessions), sessions.partitions)) == (1, 100)
    member.fetch(forgotten=range(90))
    assert node.call(lambda: sessions.partitions) == 10
    member.close()
    assert node.call(lambda: sessions.pinned_bytes) == 0


def test_partitions_that_can_not_be_fetched_have_their_errors(
    client: RawClient, topic: bytes
) -> None:
    member = Member(client, topic)
    answer = member.open(7)
    assert part_of(answer, 7).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    other = Member(client, b"x" * 16, name="other")
    assert part_of(other.open(0)).error_code == ErrorCode.UNKNOWN_TOPIC_ID
    answer = other.acknowledge({0: [(0, 0, [ACCEPT])]})
    assert part_of(answer).error_code == ErrorCode.UNKNOWN_TOPIC_ID
    assert answer.responses[0].topic_id == uuid.UUID(bytes=b"x" * 16)


def test_a_deleted_topic_takes_its_shares_with_it(
    node: LiveNode, client: RawClient, topic: bytes
) -> None:
    produce(client, "t", batch(b"a"))
    member = Member(client, topic)
    member.open(0)
    assert node.call(lambda: len([*node.broker.shares.here.keys()])) == 1
    client.ask(20, 5, {"topic_names": ["t"], "timeout_ms": 5_000})
    assert part_of(member.fetch()).error_code == ErrorCode.UNKNOWN_TOPIC_ID
    assert node.until(lambda: not [*node.broker.shares.here.keys()])
