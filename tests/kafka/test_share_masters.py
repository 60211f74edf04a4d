"""What a coordinator of share groups makes of the answers of masters and other coordinators."""

import asyncio
from typing import Any

import pytest

from penstock.base.ids import BrokerId
from penstock.coordinator.calls.shares import (
    ShareCodesResponse,
    SharePlace,
    ShareSummary,
    ShareSummaryResponse,
)
from penstock.kafka.shares.masters import CalledShareMasters
from penstock.protocol.api_keys import ApiKey
from penstock.protocol.error_codes import ErrorCode, known_code
from tests.kafka.sharing import Member, Range, ms, ranges, set_group, subscribe
from tests.kafka.test_produce_fetch import batch, create, produce
from tests.kafka.test_share_admissions import delete_group, leave, use
from tests.live_node import ANSWER_SECONDS, LiveNode, RawClient

OF_A_LATER_RELEASE = 30_000
"""No code of Kafka's today."""


@pytest.fixture
def topic(node: LiveNode) -> bytes:
    set_group(node, "share.auto.offset.reset", "earliest")
    topic_id = create(node, "t", partitions=2)
    subscribe(node, "t")
    return topic_id


class Newer:
    """Calls to brokers of a later release, which say what this one has never heard of."""

    def __init__(self, node: LiveNode) -> None:
        self._calls = node.node.calls
        self.asked = 0
        self.is_newer = True

    async def ask(self, broker_id: BrokerId, question: Any, *, timeout_ms: int) -> Any:
        self.asked += 1
        answer = await self._calls.ask(broker_id, question, timeout_ms=timeout_ms)
        if not self.is_newer:
            return answer
        if isinstance(answer, ShareSummaryResponse):
            told = ShareSummary(OF_A_LATER_RELEASE)
            return ShareSummaryResponse(found=(told,) * len(answer.found))
        return ShareCodesResponse(codes=(OF_A_LATER_RELEASE,) * len(answer.codes))


class Broken:
    """Calls that end in a mistake of ours."""

    async def ask(self, *_: Any, **__: Any) -> Any:
        raise AssertionError("a mistake")


def masters_of(node: LiveNode) -> CalledShareMasters:
    found = node.broker.groups.shares.masters
    assert isinstance(found, CalledShareMasters)
    return found


def test_a_code_of_a_later_release_is_an_error_without_a_meaning() -> None:
    assert known_code(OF_A_LATER_RELEASE) is ErrorCode.UNKNOWN_SERVER_ERROR
    assert known_code(ErrorCode.NOT_COORDINATOR) is ErrorCode.NOT_COORDINATOR


def test_a_group_whose_shares_are_said_to_be_what_nobody_knows_stays_and_is_deleted_later(
    node: LiveNode, client: RawClient, topic: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    leave(client)
    newer = Newer(node)
    node.call(lambda: monkeypatch.setattr(masters_of(node), "_calls", newer))
    assert delete_group(client) == ErrorCode.COORDINATOR_NOT_AVAILABLE
    fields = {"group_ids": ["g"], "include_authorized_operations": False}
    (told,) = client.ask(ApiKey.SHARE_GROUP_DESCRIBE, 1, fields).groups
    assert (told.error_code, told.group_state) == (ErrorCode.NONE, "Empty")
    newer.is_newer = False
    assert delete_group(client) == ErrorCode.NONE
    assert node.failures == []


def test_where_a_share_is_said_to_be_what_nobody_knows_is_an_error_of_the_partition(
    node: LiveNode, client: RawClient, topic: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    node.call(lambda: monkeypatch.setattr(masters_of(node), "_calls", Newer(node)))
    asked = {"group_id": "g", "topics": [{"topic_name": "t", "partitions": [0]}]}
    key = ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS
    (group,) = client.ask(key, 0, {"groups": [asked]}).groups
    (part,) = group.topics[0].partitions
    assert part.error_code == ErrorCode.UNKNOWN_SERVER_ERROR


def test_a_deletion_that_ends_in_a_mistake_is_told_to_the_group(
    node: LiveNode, topic: bytes
) -> None:
    told: list[ErrorCode | None] = []
    tasks: list[asyncio.Task[None]] = []

    def spawn(_: str, work: Any) -> None:
        tasks.append(node.loop.create_task(work))

    def delete() -> None:
        masters = CalledShareMasters(node.broker, Broken(), spawn)
        masters.delete("g", {topic: frozenset({0})}, told.append)

    node.call(delete)
    assert node.until(tasks[0].done)
    assert isinstance(node.call(tasks[0].exception), AssertionError)
    assert told == [ErrorCode.COORDINATOR_NOT_AVAILABLE]


def test_a_coordinator_that_says_what_nobody_knows_is_asked_again_and_others_after_it(
    node: LiveNode, client: RawClient, topic: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    produce(client, "t", batch(b"a"))
    newer = Newer(node)
    use(node, monkeypatch, newer)
    member = Member(client, topic)
    client.send(78, member.version, member.fetch_fields((0,), max_wait=ms(60_000)))
    assert node.until(lambda: newer.asked > 2)
    newer.is_newer = False
    assert ranges(client.receive(78, member.version)) == [Range(0, 0, 1)]
    assert node.failures == []


def test_the_summary_of_a_place_that_nobody_leads_is_told_in_place(
    node: LiveNode, topic: bytes
) -> None:
    masters = masters_of(node)
    gone = SharePlace(b"x" * 16, 0)
    asking = masters.summaries("g", [gone, SharePlace(topic, 0)])
    found = asyncio.run_coroutine_threadsafe(asking, node.loop).result(ANSWER_SECONDS)
    assert found[gone] == ShareSummary(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    assert found[SharePlace(topic, 0)].code == ErrorCode.NONE
