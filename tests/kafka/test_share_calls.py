"""What coordinators of share groups ask of the master of the data."""

from contextlib import closing
from typing import Any

import pytest

from penstock.coordinator.calls.shares import (
    NOT_STARTED,
    ShareChange,
    ShareChangeKind,
    ShareChangeRequest,
    ShareLeaveRequest,
    SharePlace,
    ShareSummary,
    ShareSummaryRequest,
)
from penstock.protocol.error_codes import ErrorCode
from tests.kafka.sharing import ACCEPT, Member, Range, ask, ranges, set_group, subscribe, values
from tests.kafka.test_produce_fetch import batch, create, produce
from tests.live_node import LiveNode, RawClient

START, RESET, DELETE = ShareChangeKind


@pytest.fixture
def topic(node: LiveNode) -> bytes:
    set_group(node, "share.auto.offset.reset", "earliest")
    topic_id = create(node, "t", partitions=2)
    subscribe(node, "t")
    return topic_id


def summary(node: LiveNode, topic: bytes, partition: int = 0) -> ShareSummary:
    places = (SharePlace(topic, partition),)
    question = ShareSummaryRequest(group="g", places=places, with_deliveries=True)
    (found,) = ask(node, question).found
    return ShareSummary(*found)


def change(node: LiveNode, kind: int, *changes: Any) -> tuple[int, ...]:
    made = tuple(ShareChange(*one) for one in changes)
    answer = ask(node, ShareChangeRequest(group="g", kind=kind, changes=made))
    return tuple(answer.codes)


def test_a_share_that_has_not_begun_has_no_offset_and_is_no_error(
    node: LiveNode, client: RawClient, topic: bytes
) -> None:
    nothing = ShareSummary(ErrorCode.NONE, NOT_STARTED)
    assert summary(node, topic) == nothing
    Member(client, topic).open(1)
    assert summary(node, topic, 0) == nothing
    assert summary(node, topic, 9).code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert summary(node, b"x" * 16).code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_a_summary_tells_start_end_what_is_held_and_the_lag(
    node: LiveNode, client: RawClient, topic: bytes
) -> None:
    produce(client, "t", batch(*[b"v"] * 4))
    member = Member(client, topic)
    member.open(0)
    produce(client, "t", batch(*[b"v"] * 3))
    assert member.say(0, 0, ACCEPT) == ErrorCode.NONE
    assert member.say(2, 2, ACCEPT) == ErrorCode.NONE
    assert summary(node, topic) == ShareSummary(ErrorCode.NONE, 1, 4, 2, 5, (2,))


def test_a_share_begins_where_it_is_told_unless_it_has_begun(
    node: LiveNode, client: RawClient, topic: bytes
) -> None:
    produce(client, "t", batch(b"a", b"b", b"c"))
    assert change(node, START, (topic, 0, 2), (topic, 1, 0), (b"x" * 16, 0, 0)) == (
        ErrorCode.NONE,
        ErrorCode.NONE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    )
    assert change(node, START, (topic, 0, 1)) == (ErrorCode.NONE,)
    assert values(Member(client, topic).open(0)) == [b"c"]


def test_a_share_is_moved_back_and_what_was_held_is_so_no_more(
    node: LiveNode, client: RawClient, topic: bytes
) -> None:
    produce(client, "t", batch(b"a"))
    produce(client, "t", batch(b"b"))
    member = Member(client, topic)
    member.open(0)
    assert member.say(0, 0, ACCEPT) == ErrorCode.NONE
    assert change(node, RESET, (topic, 0, 0)) == (ErrorCode.NONE,)
    assert member.say(1, 1, ACCEPT) == ErrorCode.INVALID_RECORD_STATE
    assert ranges(member.fetch()) == [Range(0, 1, 1)]
    assert change(node, RESET, (topic, 1, 7)) == (ErrorCode.NONE,)
    assert summary(node, topic, 1).start_offset == 7


def test_a_share_that_is_deleted_begins_anew(
    node: LiveNode, client: RawClient, topic: bytes
) -> None:
    assert change(node, DELETE, (topic, 0)) == (ErrorCode.NONE,)
    produce(client, "t", batch(b"a"))
    member = Member(client, topic)
    member.open(0)
    assert member.say(0, 0, ACCEPT) == ErrorCode.NONE
    assert change(node, DELETE, (topic, 0), (topic, 1)) == (ErrorCode.NONE, ErrorCode.NONE)
    assert summary(node, topic) == ShareSummary(ErrorCode.NONE, NOT_STARTED)
    assert ranges(member.fetch()) == [Range(0, 0, 1)]


def test_changes_that_this_release_does_not_know_or_can_not_be_are_refused(
    node: LiveNode, topic: bytes
) -> None:
    assert change(node, 9, (topic, 0, 0)) == (ErrorCode.UNSUPPORTED_VERSION,)
    assert change(node, RESET, (topic, 0, -1)) == (ErrorCode.INVALID_REQUEST,)
    assert change(node, START, (topic, 0, 1 << 62)) == (ErrorCode.INVALID_REQUEST,)


def test_who_leaves_a_group_has_no_session_and_holds_nothing(
    node: LiveNode, client: RawClient, topic: bytes
) -> None:
    for partition in (0, 1):
        produce(client, "t", batch(b"a"), partition=partition)
    with closing(node.connect()) as other_client:
        leaving, other = Member(client, topic), Member(other_client, topic, name="other")
        leaving.open(0, 1)
        answer = ask(node, ShareLeaveRequest(group="g", member="m"))
        assert tuple(answer.codes) == (ErrorCode.NONE,)
        assert leaving.fetch().error_code == ErrorCode.SHARE_SESSION_NOT_FOUND
        answer = other.open(0, 1)
        assert [ranges(answer, partition) for partition in (0, 1)] == [[Range(0, 0, 2)]] * 2
    nobody = ask(node, ShareLeaveRequest(group="nobody", member="m"))
    assert tuple(nobody.codes) == (ErrorCode.NONE,)


def test_deliveries_are_not_counted_for_who_does_not_ask(
    node: LiveNode, client: RawClient, topic: bytes
) -> None:
    produce(client, "t", batch(b"a", b"b"))
    Member(client, topic).open(0)
    question = ShareSummaryRequest(group="g", places=(SharePlace(topic, 0),))
    (found,) = ask(node, question).found
    assert ShareSummary(*found) == ShareSummary(ErrorCode.NONE, 0, 2, 2, 2)
