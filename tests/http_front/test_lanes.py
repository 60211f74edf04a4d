"""Messages of one request on their way to queues: in which batches, and where a retry goes."""

import asyncio
import json
from collections.abc import Sequence
from typing import Any

from penstock.http.operations.produce import BATCH_BYTES_MAX, BATCH_MESSAGES_MAX, produce
from penstock.http.operations.settle import settle
from penstock.http.operations.stream import stream
from penstock.http.upstream.receipts import write_handle
from penstock.remoting.wire.batch_body import decode_batch
from penstock.remoting.wire.codes import RequestCode, ResponseCode
from penstock.remoting.wire.command import Command
from tests.http_front.scripted_node import (
    ScriptedNode,
    calling,
    front_of,
    handle,
    messages,
    ok,
    scripted,
)

BATCH = RequestCode.SEND_BATCH_MESSAGE
SINGLE = RequestCode.SEND_MESSAGE_V2
CHANGE = RequestCode.CHANGE_MESSAGE_INVISIBLETIME
HOUR = 3_600


def _sent(asked: Command) -> Command:
    return asked.answer(ResponseCode.SUCCESS, {"queueOffset": "7"})


async def _produce(node: ScriptedNode, wishes: Sequence[dict[str, Any]]) -> list[Any]:
    front = front_of(node.address)
    sent = calling(front, json.dumps({"messages": wishes}).encode())
    await produce(front, sent.call, "t")
    sent.call.end()
    front.close()
    told: list[Any] = sent.document["messages"]
    return told


def _sizes(node: ScriptedNode) -> list[int]:
    return [
        len(decode_batch(memoryview(one.body))) if one.code == BATCH else 1
        for one in node.asked
        if one.code in {BATCH, SINGLE}
    ]


def test_a_batch_has_as_many_messages_as_it_may_and_not_one_more() -> None:
    async def run() -> None:
        async with scripted(_sent) as node:
            wishes = [{"value": "x"}] * (2 * BATCH_MESSAGES_MAX + 1)
            outcomes = await _produce(node, wishes)
            assert _sizes(node) == [BATCH_MESSAGES_MAX, BATCH_MESSAGES_MAX, 1]
            offsets = [one["offset"] for one in outcomes]
            assert offsets[BATCH_MESSAGES_MAX - 1 : BATCH_MESSAGES_MAX + 1] == [
                6 + BATCH_MESSAGES_MAX,
                7,
            ]

    asyncio.run(run())


def test_each_batch_has_all_bytes_to_itself() -> None:
    async def run() -> None:
        async with scripted(_sent) as node:
            value = "x" * (BATCH_BYTES_MAX // 4)
            await _produce(node, [{"value": value}] * 12)
            assert _sizes(node) == [3, 3, 3, 3]

    asyncio.run(run())


def test_messages_with_a_delay_go_by_themselves_and_end_the_batch_before() -> None:
    async def run() -> None:
        async with scripted(_sent) as node:
            late = {"value": "x", "delay_level": 1}
            outcomes = await _produce(
                node, [{"value": "x"}, {"value": "x"}, late, late, {"value": "x"}]
            )
            assert _sizes(node) == [2, 1, 1, 1]
            assert [one.get("delayed", False) for one in outcomes] == [False] * 2 + [True] * 2 + [
                False
            ]

    asyncio.run(run())


def test_a_batch_with_a_key_in_it_is_sent_again_to_its_queue() -> None:
    """The other messages of the batch have none, and could go anywhere."""
    refused: set[str] = set()

    def answer(asked: Command) -> Command:
        if asked.fields["g"] not in refused and len(refused) < 1:
            refused.add(asked.fields["g"])
            return asked.answer(ResponseCode.SYSTEM_BUSY)
        return _sent(asked)

    async def run() -> None:
        async with scripted(answer, queues=2) as node:
            for _ in range(2):  # of two requests, one has its messages without keys in that lane
                refused.clear()
                del node.asked[:]
                await _produce(node, [{"value": "a", "key": "k"}, {"value": "b"}])
                by_queue = [
                    (one.fields["e"], one.code) for one in node.asked if one.code in {BATCH, SINGLE}
                ]
                batches = [queue for queue, code in by_queue if code == BATCH]
                assert len(set(batches)) <= 1, by_queue

    asyncio.run(run())


def test_what_fails_and_what_does_not_are_counted_apart() -> None:
    refuse = iter([ResponseCode.SUCCESS, ResponseCode.MESSAGE_ILLEGAL, ResponseCode.SUCCESS])

    def answer(asked: Command) -> Command:
        return asked.answer(next(refuse), {"queueOffset": "7"})

    async def run() -> None:
        async with scripted(answer) as node:
            front = front_of(node.address)
            late = {"value": "x", "delay_level": 1}
            sent = calling(front, json.dumps({"messages": [late] * 3}).encode())
            await produce(front, sent.call, "t")
            assert [("problem" in one) for one in sent.document["messages"]] == [False, True, False]
            assert front.stats.messages == {"produced": 2, "not produced": 1}
            front.close()

    asyncio.run(run())


def test_receipts_that_a_node_refuses_count_as_refused_alone() -> None:
    codes = {"1": ResponseCode.SUCCESS, "2": ResponseCode.NO_MESSAGE}

    async def run() -> None:
        async with scripted(lambda asked: asked.answer(codes[asked.fields["offset"]])) as node:
            front = front_of(node.address)
            receipts = [write_handle(handle(number)) for number in (1, 2)] + ["none"]
            sent = calling(front, json.dumps({"receipts": receipts}).encode())
            await settle(front, sent.call, "t", "g", name="ack")
            assert [("problem" in one) for one in sent.document["receipts"]] == [False, True, True]
            assert front.stats.messages == {"acknowledged": 1, "receipts refused": 2}
            front.close()

    asyncio.run(run())


def test_a_message_whose_writing_is_cut_off_is_given_back_with_those_behind_it() -> None:
    def answer(asked: Command) -> Command:
        if asked.code == RequestCode.POP_MESSAGE:
            return messages(asked, 1, 2, 3)
        return ok(asked)

    async def run() -> None:
        async with scripted(answer) as node:
            front = front_of(node.address)
            sent = calling(front, query=b"")
            written = sent.call._send
            events = 0

            async def send(message: Any) -> None:
                nonlocal events
                events += b"event: message" in message.get("body", b"")
                if events == 2:
                    raise ConnectionResetError
                await written(message)

            sent.call._send = send
            try:
                await stream(front, sent.call, "t", "g")
            except ConnectionResetError:
                sent.call.end()
            assert [one.fields["offset"] for one in node.requests(CHANGE)] == ["2", "3"]
            front.close()

    asyncio.run(run())
