"""No share fetch is worked on for long in one turn of the event loop, whatever the log is like."""

from collections.abc import Callable
from contextlib import closing
from typing import Any

import pytest

from penstock.protocol.api_keys import ApiKey
from penstock.protocol.error_codes import ErrorCode
from tests.kafka.sharing import ACCEPT, Member, Range, part_of, ranges, set_group
from tests.kafka.test_many_batches import request
from tests.kafka.test_produce_fetch import batch, create
from tests.live_node import LiveNode, RawClient
from tests.turn_calls import CALLS_MAX, Turns

BATCHES = 12_000


@pytest.fixture
def topic(node: LiveNode) -> bytes:
    set_group(node, "share.auto.offset.reset", "earliest")
    return create(node, "t")


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
