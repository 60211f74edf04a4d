"""Between this process and the nodes: connections, routes, watches, and what is tried again."""

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest

from harness.waiting import until
from penstock.http.bodies import ReceiveRequest
from penstock.http.operations import receive as receiving
from penstock.http.operations.receive import Taking, wanted_of
from penstock.http.upstream.connection import PENDING_MAX, open_connection
from penstock.http.upstream.errors import NodeBusy, NodeLost, NodeRefused
from penstock.http.upstream.nodes import ROUTE_S, Asked, checked
from penstock.http.upstream.popping import Desk
from penstock.http.upstream.watches import WATCHES_MAX
from penstock.remoting.pop.receipts import read_receipt
from penstock.remoting.wire.codes import RequestCode, ResponseCode
from penstock.remoting.wire.command import Command
from tests.http_front.scripted_node import (
    BROKER,
    calling,
    front_of,
    handle,
    messages,
    ok,
    scripted,
    silent,
)

ROUTES = RequestCode.GET_ROUTEINFO_BY_TOPIC
ACK, CHANGE = RequestCode.ACK_MESSAGE, RequestCode.CHANGE_MESSAGE_INVISIBLETIME


def run(work: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(work, 120))


def test_as_many_requests_wait_for_a_node_as_may_and_not_one_more() -> None:
    async def work() -> None:
        async with scripted(silent) as node:
            connection = await open_connection(node.address, None, None)
            waiting = [
                asyncio.create_task(connection.ask(ROUTES + 1, {}, timeout_s=600))
                for _ in range(PENDING_MAX)
            ]
            await asyncio.sleep(0)
            assert connection.pending == PENDING_MAX
            with pytest.raises(NodeBusy):
                await connection.ask(ROUTES + 1, {}, timeout_s=600)
            assert connection.pending == PENDING_MAX
            node_gone = asyncio.gather(*waiting, return_exceptions=True)
            connection.close()
            assert {type(one) for one in await node_gone} == {NodeLost}
            assert connection.pending == 0

    run(work())


def test_a_request_is_asked_anew_on_another_connection_once_the_first_is_lost() -> None:
    async def work() -> None:
        async with scripted(ok) as node:
            front = front_of(node.address)
            nodes = front.identity(None).nodes
            for _ in range(3):
                answer = await nodes.ask("t", BROKER, Asked(ACK, {}))
                assert answer.code == ResponseCode.SUCCESS
                (connection,) = nodes._connections.values()
                node.hang_up()
                await until(lambda: connection.is_lost)  # noqa: B023
            assert len(node.requests(ACK)) == 3
            front.close()

    run(work())


def test_a_route_is_fresh_for_its_time_and_is_asked_for_when_that_ends(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def work() -> None:
        loop = asyncio.get_running_loop()
        now = 1_000.0
        async with scripted(ok) as node:
            front = front_of(node.address)
            nodes = front.identity(None).nodes
            with monkeypatch.context() as patch:
                patch.setattr(loop, "time", lambda: now)
                await nodes.route("t")
                now += ROUTE_S - 1
                await nodes.route("t")
                assert len(node.requests(ROUTES)) == 1
                now += 1
                await nodes.route("t")
                assert len(node.requests(ROUTES)) == 2
            front.close()

    run(work())


@pytest.mark.parametrize("code", [ResponseCode.TOPIC_NOT_EXIST, ResponseCode.NO_PERMISSION])
def test_a_refusal_has_the_route_asked_for_again(code: ResponseCode) -> None:
    async def work() -> None:
        async with scripted(lambda asked: asked.answer(code)) as node:
            front = front_of(node.address)
            desk = Desk(front.identity(None).nodes, "t", "g")
            for asked in (1, 2):
                with pytest.raises(NodeRefused):
                    await desk.accept(handle(1))
                assert len(node.requests(ROUTES)) == asked
            front.close()

    run(work())


def test_watches_are_full_at_their_bound_and_not_before() -> None:
    async def work() -> None:
        async with scripted(silent) as node:
            front = front_of(node.address)
            watches = front.identity(None).watches
            for number in range(WATCHES_MAX):
                assert not watches.is_full
                watches.watch("t", f"g-{number}", BROKER, "0")
            assert watches.is_full
            watches.watch("t", "g-0", BROKER, "0")
            front.close()

    run(work())


def _taking(front: Any, topic: str = "t") -> Taking:
    wanted = wanted_of(topic, "g", ReceiveRequest())
    return Taking(front, calling(front).call, front.identity(None), wanted)


def test_a_receive_that_waits_longer_than_a_retry_outlives_a_node_that_is_busy(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its wait counts, and not the time in which a master may be missing."""
    monkeypatch.setattr(receiving, "RETRY_S", 0.0)
    busy = [True, True]

    def answer(asked: Command) -> Command:
        if busy:
            busy.pop()
            return asked.answer(ResponseCode.SYSTEM_BUSY)
        return messages(asked, 5)

    async def work() -> None:
        async with scripted(answer) as node:
            front = front_of(node.address)
            (one,) = await _taking(front).take(600)
            assert one.handle.receipt.offset == 5
            front.close()

    run(work())


def test_a_watch_that_ends_without_news_costs_no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    ended = [False, False, False]
    pauses: list[float] = []

    async def rest(_: Taking, until: float) -> None:
        pauses.append(until)

    monkeypatch.setattr(Taking, "_rest", rest)

    def answer(asked: Command) -> Command:
        if asked.code == RequestCode.NOTIFICATION:
            has_news = not ended
            if ended:
                ended.pop()
            return asked.answer(ResponseCode.SUCCESS, {"hasMsg": str(has_news).lower()})
        if ended:
            return asked.answer(ResponseCode.POLLING_TIMEOUT)
        return messages(asked, 5)

    async def work() -> None:
        async with scripted(answer) as node:
            front = front_of(node.address)
            assert len(await _taking(front).take(600)) == 1
            assert not pauses
            front.close()

    run(work())


def test_a_node_that_is_lost_while_a_receive_rests_is_tried_again() -> None:
    """The route is forgotten by somebody else's failure, and nobody tells another one."""
    pops = 0

    async def work() -> None:
        async with scripted(silent) as node:
            front = front_of(node.address)
            taking = _taking(front)

            def answer(asked: Command) -> Command:
                nonlocal pops
                if asked.code == RequestCode.NOTIFICATION:
                    return asked.answer(ResponseCode.SUCCESS, {"hasMsg": "true"})
                pops += 1
                if pops == 2:  # the news came to nothing: it rests, while the route is lost
                    front.identity(None).nodes.forget("t")
                    node.refused_routes = 1
                return (
                    asked.answer(ResponseCode.POLLING_TIMEOUT) if pops < 4 else messages(asked, 5)
                )

            node.says(answer)
            (one,) = await taking.take(600)
            assert one.handle.receipt.offset == 5
            front.close()

    run(work())


def test_a_message_is_buried_and_accepted_by_the_receipt_that_holds_it() -> None:
    def answer(asked: Command) -> Command:
        told = {"popTime": "2000", "invisibleTime": "60000", "reviveQid": "9"}
        return asked.answer(ResponseCode.SUCCESS, told if asked.code == CHANGE else {})

    async def work() -> None:
        async with scripted(answer) as node:
            front = front_of(node.address)
            await Desk(front.identity(None).nodes, "t", "g").bury(handle(5))
            (accepted,) = node.requests(ACK)
            receipt = read_receipt(accepted.fields["extraInfo"])
            assert (receipt.pop_ms, receipt.number, receipt.offset) == (2_000, 9, 5)
            front.close()

    run(work())


def test_an_answer_is_checked_by_its_code() -> None:
    assert checked(Command(ResponseCode.SUCCESS)).code == ResponseCode.SUCCESS
    with pytest.raises(NodeRefused):
        checked(Command(ResponseCode.NO_MESSAGE))
