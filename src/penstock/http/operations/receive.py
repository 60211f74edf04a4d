"""Receive: messages for a group, at once or as soon as there are some.

    each replica set, another one first each time ─► pop without a wait ─► messages: answered
         ▲                                                           └─► none in any
         │                                                                     │
    a watch has fired ◄── or the time is over, the client has gone, the process ends

Where a pop fails because a master is missing, others are asked, and that one again, for RETRY_S.

Source: ours, docs/adr/0167.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from http import HTTPStatus
from typing import Final

from penstock.http.bodies import ReceiveRequest, read_body
from penstock.http.call import JSON, Call, encode_json
from penstock.http.front import Front, Identity
from penstock.http.limits import RETRY_S
from penstock.http.operations.produce import next_turn
from penstock.http.problems import Problem, busy
from penstock.http.upstream.errors import OutOfTime, UpstreamError, may_pass
from penstock.http.upstream.messages import shown
from penstock.http.upstream.popping import END, START, Desk, HandedOut, Wanted, pop
from penstock.http.upstream.receipts import write_handle

PAUSE_FIRST_S, PAUSE_MOST_S = 0.05, 1.0
"""Between looks, where a watch has fired and there was nothing, or a master was missing."""
FREE_S: Final = 5.0
"""How long messages that nobody gets are tried to be given back."""


def wanted_of(topic: str, group: str, asked: ReceiveRequest) -> Wanted:
    """Return what is to be popped for a request."""
    return Wanted(
        topic=topic,
        group=group,
        messages_max=asked.max,
        invisible_ms=round(asked.invisible_seconds * 1000),
        tags=asked.tags,
        begin=START if asked.begin == "start" else END,
    )


async def receive(front: Front, call: Call, topic: str, group: str) -> None:
    """Answer with messages, or with none after the wait. Raises Problem, UpstreamError."""
    assert call.token is not None, "the router has checked it"
    asked = read_body(await call.body(), ReceiveRequest)
    wanted = wanted_of(topic, group, asked)
    with front.waiting(call.token), front.used(call.token) as identity:
        taking = Taking(front, call, identity, wanted)
        handed_out = await taking.take(asked.wait_seconds)
        async with freed_unless_sent(Desk(identity.nodes, topic, group), handed_out) as sent:
            if call.is_gone:
                return
            if not front.may_consume(call, topic, group):  # it may have waited for long
                detail = "the token is not for this topic and group any more"
                do = "ask with one that is"
                raise Problem(HTTPStatus.FORBIDDEN, "not-permitted", detail, do)
            body = encode_json({"messages": [document_of(one) for one in handed_out]})
            call.hold(len(body))
            sent.clear()
        front.stats.messages["received"] += len(handed_out)
        await call.answer_bytes(body, JSON, HTTPStatus.OK)


def document_of(one: HandedOut) -> dict[str, object]:
    """Return a message as clients get it."""
    return shown(one.message, one.handle.receipt.broker_name, write_handle(one.handle))


@asynccontextmanager
async def freed_unless_sent(
    desk: Desk, handed_out: list[HandedOut]
) -> AsyncIterator[list[HandedOut]]:
    """Yield the messages that the client does not have yet; those left at the end come again."""
    left = list(handed_out)
    try:
        yield left
    finally:
        if left:
            with contextlib.suppress(UpstreamError, TimeoutError):
                async with asyncio.timeout(FREE_S):
                    await desk.free(left)


class Taking:
    """Takes messages of a group for one client, time and again."""

    def __init__(self, front: Front, call: Call, identity: Identity, wanted: Wanted) -> None:
        self._front = front
        self._call = call
        self._identity = identity
        self._wanted = wanted
        self._pause_s = PAUSE_FIRST_S
        self._has_fired = False
        """Whether a watch has said that there are messages, and none was handed out since."""

    @property
    def _is_over(self) -> bool:
        return self._call.is_gone or self._front.stopping.is_set()

    async def take(self, wait_s: float) -> list[HandedOut]:
        """Return messages as soon as there are some; none after the wait, or if it is over.

        Raises Problem, UpstreamError.
        """
        loop = asyncio.get_running_loop()
        begun = loop.time()
        deadline = begun + wait_s
        self._pause_s, self._has_fired = PAUSE_FIRST_S, False
        while True:
            failed: UpstreamError | None = None
            try:
                handed_out = await self._look()
            except UpstreamError as error:
                if not may_pass(error):
                    raise
                failed, handed_out = error, []
                self._identity.nodes.forget(self._wanted.topic)
            if handed_out or self._is_over:
                return handed_out
            until = deadline if failed is None else max(deadline, begun + RETRY_S)
            if loop.time() >= until:
                if failed is not None:
                    raise OutOfTime(failed)
                return []
            await self._wait(until, has_failed=failed is not None)

    async def _look(self) -> list[HandedOut]:
        """Return messages of the first replica set that has some. Raises UpstreamError."""
        nodes, wanted = self._identity.nodes, self._wanted
        brokers = (await nodes.route(wanted.topic)).brokers
        first = next_turn()
        failed: UpstreamError | None = None
        for place in range(len(brokers)):
            if self._is_over:
                return []
            broker = brokers[(first + place) % len(brokers)]
            try:
                handed_out = await pop(nodes, broker, wanted)
            except UpstreamError as error:
                if not may_pass(error):
                    raise
                failed = error
                continue
            if handed_out:
                return handed_out
        if failed is not None:
            raise failed
        return []

    async def _wait(self, until: float, *, has_failed: bool) -> None:
        """Wait for news; after news that came to nothing, for a little while first."""
        loop = asyncio.get_running_loop()
        if has_failed or self._has_fired:
            self._has_fired = False
            await self._rest(until)
            if has_failed:
                return
        gone = self._call.watch()
        stop = asyncio.create_task(self._front.stopping.wait())
        try:
            try:
                watches = await self._watches()
            except UpstreamError as error:
                if not may_pass(error):
                    raise
                return  # the next look fails likewise, and is tried again
            waited, _ = await asyncio.wait(
                {gone, stop, *watches},
                timeout=max(until - loop.time(), 0),
                return_when=asyncio.FIRST_COMPLETED,
            )
        finally:
            stop.cancel()
        fired = watches & waited
        self._has_fired = any(not one.cancelled() and one.result() for one in fired)

    async def _watches(self) -> set[asyncio.Task[bool]]:
        watches, wanted = self._identity.watches, self._wanted
        if watches.is_full:
            detail = "too many groups and topics are waited for"
            raise busy("too-many-watches", detail, "ask again without a wait")
        route = await self._identity.nodes.route(wanted.topic)
        topic, group, begin = wanted.topic, wanted.group, wanted.begin
        return {watches.watch(topic, group, broker, begin) for broker in route.brokers}

    async def _rest(self, until: float) -> None:
        """Pause, longer each time, so that news which comes to nothing costs little."""
        left = until - asyncio.get_running_loop().time()
        pause_s = min(self._pause_s, max(left, 0))
        self._pause_s = min(2 * self._pause_s, PAUSE_MOST_S)
        gone = self._call.watch()
        await asyncio.wait({gone}, timeout=pause_s)
