"""No request of a share group's administrator is worked on for long in a turn, or answered twice.

Groups that are there take other ways than those of `test_turns_are_short`, which are unknown.
"""

from collections.abc import Callable
from typing import Any

import pytest

from penstock.protocol.api_keys import ApiKey
from penstock.protocol.error_codes import ErrorCode
from tests.kafka.test_produce_fetch import create
from tests.kafka.test_share_groups import beat
from tests.live_node import LiveNode, RawClient
from tests.turn_calls import CALLS_MAX, Turns

PARTITIONS = 3_000
NAMED = 20_000
UNKNOWN = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
OK = ErrorCode.NONE


@pytest.fixture
def group(node: LiveNode, client: RawClient) -> None:
    """An empty group whose topic has many partitions, each of which may have a share."""
    create(node, "t", PARTITIONS)
    find = {"key_type": 0, "coordinator_keys": ["g"]}
    assert client.ask(ApiKey.FIND_COORDINATOR, 6, find).coordinators[0].error_code == OK
    epoch = beat(client, 0, ["t"]).member_epoch
    assert epoch > 0
    assert beat(client, -1).error_code == OK


def longest(node: LiveNode, ask: Callable[[], Any]) -> tuple[Any, Turns]:
    turns = Turns()
    node.call(turns.begin)
    try:
        return ask(), turns
    finally:
        node.call(turns.end)


def test_a_group_that_is_named_often_is_told_once(
    node: LiveNode, client: RawClient, group: None
) -> None:
    asked = {"groups": [{"group_id": "g", "topics": None}] * 200}
    answer, turns = longest(node, lambda: client.ask(ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS, 1, asked))
    assert [len(topic.partitions) for one in answer.groups for topic in one.topics] == [PARTITIONS]
    assert 0 < turns.longest < CALLS_MAX, turns.begun_in


def test_many_partitions_of_one_topic_are_moved_in_short_turns(
    node: LiveNode, client: RawClient, group: None
) -> None:
    partitions = [{"partition_index": one, "start_offset": 7} for one in range(NAMED)]
    fields = {"group_id": "g", "topics": [{"topic_name": "t", "partitions": partitions}] * 2}
    answer, turns = longest(node, lambda: client.ask(ApiKey.ALTER_SHARE_GROUP_OFFSETS, 0, fields))
    codes = [[int(one.error_code) for one in topic.partitions] for topic in answer.responses]
    assert codes == [[OK] * PARTITIONS + [UNKNOWN] * (NAMED - PARTITIONS)] * 2
    assert 0 < turns.longest < CALLS_MAX, turns.begun_in
