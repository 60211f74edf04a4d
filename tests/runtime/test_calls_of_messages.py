"""What brokers ask each other for RocketMQ's clients: positions, recalls, decisions."""

from dataclasses import replace
from typing import Any

import pytest

from penstock.base.ids import BrokerId
from penstock.coordinator.calls.asking import (
    CallTooLarge,
)
from penstock.coordinator.calls.decision import DecisionRequest, DecisionResponse
from penstock.coordinator.calls.positions import (
    CommitPositionRequest,
    DeleteGroupRequest,
    FetchPositionRequest,
    GroupPositionsRequest,
    GroupPositionsResponse,
    KnownPosition,
    PositionResponse,
)
from penstock.coordinator.calls.recall import RecallRequest, RecallResponse
from penstock.runtime.calls.messages import check, encode
from penstock.runtime.peer_codec import MalformedPeerMessage
from tests.runtime.calling import AMPLE_MS, pair, run

TWO = BrokerId(2)


def test_positions_of_a_group_are_kept_and_told_over_a_link() -> None:
    async def scenario() -> None:
        async with pair() as (one, two):

            async def commit(question: CommitPositionRequest) -> PositionResponse:
                return PositionResponse(code=question.partition)

            async def fetch(question: FetchPositionRequest) -> PositionResponse:
                return PositionResponse(code=0, offset=len(question.group + question.topic))

            two.calls.server.serve(CommitPositionRequest, commit)
            two.calls.server.serve(FetchPositionRequest, fetch)
            where: Any = {"group": "g", "topic": "abc", "topic_id": 16 * b"i", "partition": 3}
            kept = CommitPositionRequest(**where, offset=1 << 40)
            assert (await one.calls.ask(TWO, kept, timeout_ms=AMPLE_MS)).code == 3
            asked = FetchPositionRequest(**where)
            assert (await one.calls.ask(TWO, asked, timeout_ms=AMPLE_MS)).offset == 4
            assert len(two.links) == 1

    run(scenario())


def test_all_positions_of_a_group_are_told_and_it_is_deleted_over_a_link() -> None:
    async def scenario() -> None:
        async with pair() as (one, two):
            known = KnownPosition("abc", 16 * b"i", 3, 1 << 40)

            async def page(question: GroupPositionsRequest) -> GroupPositionsResponse:
                assert (question.after_topic, question.after_partition) == ("abb", 7)
                return GroupPositionsResponse(code=0, positions=(known,), is_last=False)

            async def delete(question: DeleteGroupRequest) -> PositionResponse:
                return PositionResponse(code=len(question.group))

            two.calls.server.serve(GroupPositionsRequest, page)
            two.calls.server.serve(DeleteGroupRequest, delete)
            asked = GroupPositionsRequest(group="g", after_topic="abb", after_partition=7)
            told = await one.calls.ask(TWO, asked, timeout_ms=AMPLE_MS)
            assert (told.positions, told.is_last) == ((known,), False)
            gone = DeleteGroupRequest(group="four")
            assert (await one.calls.ask(TWO, gone, timeout_ms=AMPLE_MS)).code == 4

    run(scenario())


def test_recalls_are_asked_of_the_master_of_a_set() -> None:
    async def scenario() -> None:
        async with pair() as (one, two):
            asked = RecallRequest(
                replica_set_id=7, until_ms=1 << 41, topic_id=16 * b"t", message_id="ID"
            )

            async def answer(question: RecallRequest) -> RecallResponse:
                assert question == replace(asked, correlation=question.correlation)
                return RecallResponse(code=32, reason="too late")

            two.calls.server.serve(RecallRequest, answer)
            told = await one.calls.ask(TWO, asked, timeout_ms=AMPLE_MS)
            assert (told.code, told.reason) == (32, "too late")

    run(scenario())


def test_decisions_are_told_to_the_master_of_a_half_message() -> None:
    async def scenario() -> None:
        async with pair() as (one, two):
            asked = DecisionRequest(
                partition=3, offset=1 << 40, is_commit=True, topic_id=16 * b"t", message_id="ID"
            )

            async def answer(question: DecisionRequest) -> DecisionResponse:
                assert question == replace(asked, correlation=question.correlation)
                return DecisionResponse(code=48, reason="decided otherwise before")

            two.calls.server.serve(DecisionRequest, answer)
            told = await one.calls.ask(TWO, asked, timeout_ms=AMPLE_MS)
            assert (told.code, told.reason) == (48, "decided otherwise before")

    run(scenario())


def test_positions_without_the_id_of_a_topic_are_refused() -> None:
    short = GroupPositionsResponse(code=0, positions=(KnownPosition("t", b"i", 0, 0),))
    with pytest.raises(MalformedPeerMessage, match="topic id of 1 bytes"):
        check(short)
    many = GroupPositionsResponse(code=0, positions=(KnownPosition("t", 16 * b"i", 0, 0),) * 2_001)
    with pytest.raises(CallTooLarge):
        encode(many)
