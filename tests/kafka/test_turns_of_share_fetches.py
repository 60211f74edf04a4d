"""No share fetch is worked on for long in one turn of the event loop, whatever the log is like."""

from collections.abc import Callable
from contextlib import closing
from typing import Any

import pytest

from penstock.protocol.api_keys import ApiKey
from penstock.protocol.error_codes import ErrorCode
from tests.kafka.sharing import (
    ACCEPT,
    RELEASE,
    Member,
    Range,
    ms,
    part_of,
    ranges,
    set_group,
    subscribe,
)
from tests.kafka.test_many_batches import request
from tests.kafka.test_produce_fetch import batch, create, produce
from tests.live_node import LiveNode, RawClient
from tests.turn_calls import CALLS_MAX, Turns

BATCHES = 12_000


@pytest.fixture
def topic(node: LiveNode) -> bytes:
    set_group(node, "share.auto.offset.reset", "earliest")
    topic_id = create(node, "t")
    subscribe(node, "t")
    return topic_id


def in_turns(node: LiveNode, ask: Callable[[], Any]) -> Any:
    """Return an answer, none of whose turns was long."""
    turns = Turns()
    node.call(turns.begin)
    try:
        answer = ask()
    finally:
        node.call(turns.end)
    told = f"{turns.longest} calls in a turn that began in {turns.begun_in}"
    assert 0 < turns.longest < CALLS_MAX, told
    return answer


def fill(node: LiveNode, count: int) -> None:
    with closing(node.connect()) as client:
        one = batch(b"v")
        answer = client.ask(ApiKey.PRODUCE, 9, request(1, ("t", [(0, one)] * count)))
        codes = {int(p.error_code) for t in answer.responses for p in t.partition_responses}
        assert codes == {ErrorCode.NONE}


def test_a_partition_of_many_small_batches_is_handed_out_a_part_at_a_time(
    node: LiveNode, client: RawClient, topic: bytes
) -> None:
    fill(node, BATCHES)
    member = Member(client, topic)
    answer = in_turns(node, lambda: member.open(0, max_records=1, max_bytes=2 << 20))
    assert ranges(answer) == [Range(0, 0, 1)]
    next_offset = 1
    while next_offset < 3_000:
        answer = in_turns(node, lambda: member.fetch(max_records=5_000, max_bytes=2 << 20))
        found = ranges(answer)
        assert found[0].first == next_offset
        assert member.say(found[0].first, found[-1].last, ACCEPT) == ErrorCode.NONE
        next_offset = found[-1].last + 1
    assert part_of(answer).records


def test_a_session_of_too_many_partitions_is_refused_in_short_turns(
    node: LiveNode, client: RawClient, topic: bytes
) -> None:
    member = Member(client, topic)
    member.open(0)
    answer = in_turns(node, lambda: member.fetch(range(40_000)))
    assert answer.error_code == ErrorCode.SHARE_SESSION_LIMIT_REACHED
    sessions = node.front.share_sessions
    assert (len(sessions), sessions.partitions) == (0, 0)
    answer = in_turns(node, lambda: member.open(*range(40_000)))
    assert answer.error_code == ErrorCode.SHARE_SESSION_LIMIT_REACHED
    assert (len(sessions), sessions.partitions) == (0, 0)


def test_shares_that_may_not_begin_are_asked_for_and_refused_in_short_turns(
    node: LiveNode, client: RawClient
) -> None:
    count = 1_500
    member = Member(client, create(node, "many", partitions=count))
    answer = in_turns(node, lambda: member.open(*range(count), max_wait=ms(30_000)))
    codes = {part.error_code for topic in answer.responses for part in topic.partitions}
    assert codes == {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}


def test_the_first_fetches_of_many_partitions_are_worked_on_in_short_turns(
    node: LiveNode, client: RawClient
) -> None:
    count = 2_000
    topic_id = create(node, "many", partitions=count)
    subscribe(node, "many")
    member = Member(client, topic_id)
    in_turns(node, lambda: member.open(*range(count)))
    produce(client, "many", batch(b"v"), partition=count - 1)
    answer = in_turns(node, lambda: member.fetch(max_wait=ms(30_000)))
    assert ranges(answer, count - 1) == [Range(0, 0, 1)]


@pytest.mark.parametrize(
    "acks",
    [
        [(one, one, [ACCEPT]) for one in range(30_000)],
        [(0, 90_000, [ACCEPT] * 90_001)],
        [(0, (1 << 62), [ACCEPT])],
    ],
    ids=["ranges", "types", "offsets"],
)
def test_more_acknowledgements_than_records_can_be_held_are_refused_in_short_turns(
    node: LiveNode, client: RawClient, topic: bytes, acks: list[tuple[int, int, list[int]]]
) -> None:
    member = Member(client, topic)
    member.open(0)
    answer = in_turns(node, lambda: member.acknowledge({0: acks}))
    assert part_of(answer).error_code == ErrorCode.INVALID_RECORD_STATE
    answer = in_turns(node, lambda: member.fetch((), {0: acks}))
    assert part_of(answer).acknowledge_error_code == ErrorCode.INVALID_RECORD_STATE


def test_many_ranges_are_acknowledged_in_short_turns(
    node: LiveNode, client: RawClient, topic: bytes
) -> None:
    values = [b"v"] * 1_000
    for _ in range(11):
        produce(client, "t", batch(*values))
    member = Member(client, topic)
    held = ranges(member.open(0, max_records=2_000))
    assert held == [Range(0, 999, 1), Range(1_000, 1_999, 1)]
    more_than_held = [(one, one, [ACCEPT]) for one in range(9_999)]
    answer = in_turns(node, lambda: member.acknowledge({0: more_than_held}))
    assert part_of(answer).error_code == ErrorCode.INVALID_RECORD_STATE
    held = ranges(member.fetch(max_records=2_000))
    assert held == [Range(2_000, 2_999, 1), Range(3_000, 3_999, 1)]
    types = [ACCEPT, RELEASE] * 1_000
    answer = in_turns(node, lambda: member.acknowledge({0: [(2_000, 3_999, types)]}))
    assert part_of(answer).error_code == ErrorCode.NONE
    again = ranges(member.fetch(max_records=2_000))
    assert again == [
        *[Range(one, one, 2) for one in range(2_001, 4_000, 2)],
        Range(4_000, 4_999, 1),
    ]
