"""Requests that are long enough to block the loop: decoded, handled and answered in slices.

    on_frame ─► frame above LONG_FRAME_BYTES ─► connection held, frame copied ─► a place
       ─► room for an answer (net/answers/answer_room.py) ─► decode in slices
       ─► the handler, a slice at a time (slices.py)
       ─► encode in slices ─► answer ─► free in slices (let_go.py)

A connection has one such request at a time and is not read meanwhile. Of all long requests a few
are decoded at a time (long_places.py); the others wait as bytes. A waiting request is dropped when
its client has disconnected. One that cannot be cut is passed to its handler whole.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from penstock.broker.turns import Pace
from penstock.kafka.context import RequestContext
from penstock.kafka.let_go import let_go, let_go_of_set
from penstock.kafka.registry import Api
from penstock.kafka.request import Reply, Request
from penstock.kafka.slices import Joined, path_of, slices_of
from penstock.protocol.header import RequestHeader
from penstock.protocol.messages import decode_request_slices

if TYPE_CHECKING:
    from penstock.kafka.front import KafkaFront
    from penstock.net.connection import Connection

LONG_FRAME_BYTES = 4 << 10
"""A shorter frame has at most some 2,000 elements: a few milliseconds, whatever it asks for."""

BEGUN_BYTES = 64 << 10
"""Bytes that a long answer counts for in the turn in which it is begun; others build it."""

Answer = Mapping[str, Any] | bytes


class _PartReply:
    """Takes the place of the reply for a slice."""

    __slots__ = ("_answer", "connection")

    def __init__(self, connection: Any, answer: "asyncio.Future[Answer]") -> None:
        self.connection = connection
        self._answer = answer

    def __call__(self, fields: Mapping[str, Any]) -> None:
        self.raw(fields)

    def raw(self, body: Any) -> None:
        if not self._answer.done():
            self._answer.set_result(body)


class LongRequests:
    """See the module; one for each broker."""

    def __init__(self, front: "KafkaFront") -> None:
        self._broker = front.broker
        self._turns = self._broker.turns

    async def answer(
        self, api: Api, context: RequestContext, header: RequestHeader, frame: bytes, reply: Reply
    ) -> None:
        """Answer a request whose connection is held. Raises what decoder and handler raise."""
        is_told_here = api.is_async or bool(api.sliced_by)
        async with self._broker.long_places.place(len(frame)):
            is_gone = reply.connection.has_gone()
            if is_gone or (is_told_here and not await self._may_begin(reply.connection)):
                return
            slices = decode_request_slices(
                api.key, header.api_version, memoryview(frame), header.body_at
            )
            owned = [await self._turns.run(slices, reply.note_turn)]
            try:
                if not is_told_here:
                    self._hand_over(api, context, header, owned[0], reply)
                    return
                owned.append(await self._handle(api, context, header, owned[0], reply))
                await self._tell(owned[1], reply)
            finally:
                await self._turns.run(let_go(owned), reply.note_turn)

    async def answer_much(
        self, api: Api, context: RequestContext, request: Request, reply: Reply
    ) -> None:
        """Answer a short request with a long answer; its connection is held. Raises as above."""
        async with self._broker.long_places.place(LONG_FRAME_BYTES):
            if await self._may_begin(reply.connection):
                owned = [await self._much(api, context, request)]
                await self._tell(owned[0], reply)
                await self._turns.run(let_go(owned), reply.note_turn)

    async def tell(
        self, reply: Reply, make: Callable[[Pace], Awaitable[Mapping[str, Any]]]
    ) -> None:
        """Send a long answer that a handler returned later, as JoinGroup's to a leader."""
        async with self._broker.long_places.place(LONG_FRAME_BYTES):
            if await self._may_begin(reply.connection):
                owned = [await make(Pace(self._turns))]
                await reply.in_turns(self._turns, owned[0])
                await self._turns.run(let_go(owned), reply.note_turn)

    async def _tell(self, answer: Answer, reply: Reply) -> None:
        if isinstance(answer, bytes):
            reply.raw(answer)
        else:
            await reply.in_turns(self._turns, answer)

    async def _may_begin(self, connection: "Connection") -> bool:
        """Wait for room for an answer; False if the client has disconnected meanwhile.

        The size of the answer is unknown before it is encoded. So only requests in the places ask,
        one after the other: bytes that the previous one left in sockets are counted by then. They
        ask before anything is decoded or created, and hold nothing uncounted while they wait. A
        client that does not receive its answers has no place meanwhile, and asks again when it has
        one.
        """
        while not connection.has_gone():
            granted = self._ask_room(connection)
            if granted.done() or not connection.is_choked:
                return await granted > 0
            async with self._broker.long_places.aside():
                await granted
        return False

    @staticmethod
    def _ask_room(connection: "Connection") -> "asyncio.Future[int]":
        granted: asyncio.Future[int] = asyncio.get_running_loop().create_future()

        def begin(most: int) -> int:
            if not granted.done():  # else the waiting task was cancelled
                granted.set_result(most)
            return most

        connection.ask_room(BEGUN_BYTES, begin)
        return granted

    async def _much(self, api: Api, context: RequestContext, request: Request) -> Answer:
        assert api.handle_much is not None
        request.turns = self._turns
        answer: Answer = await api.handle_much(context, request)
        return answer

    def _hand_over(
        self, api: Api, context: RequestContext, header: RequestHeader, body: Any, reply: Reply
    ) -> None:
        """Let the handler answer later, as a join does when its group is complete."""
        request = Request(header.api_version, body, reply.connection)
        begun = self._broker.clock.monotonic_us()
        api.handle(context, request, reply)
        reply.note_turn(self._broker.clock.monotonic_us() - begun)

    async def _handle(
        self, api: Api, context: RequestContext, header: RequestHeader, body: Any, reply: Reply
    ) -> Answer:
        named: set[Any] = set()
        try:
            joined = Joined()
            weigh = partial(api.weigh, context)
            for part in slices_of(body, path_of(body, api.sliced_by), weigh=weigh):
                await self._turns.next()
                if reply.connection.is_closed:
                    break
                request = Request(header.api_version, part, reply.connection)
                request.named, request.turns = named, self._turns
                answer = await self._call(api, context, request, reply)
                if isinstance(answer, bytes):
                    return answer
                joined.add(answer)
            return joined.fields
        finally:
            await self._turns.run(let_go_of_set(named), reply.note_turn)

    async def _call(
        self, api: Api, context: RequestContext, request: Request, reply: Reply
    ) -> Answer:
        if api.is_async:
            answer: Answer = await api.handle(context, request)
            return answer
        if api.is_much is not None and api.is_much(context, request.body):
            return await self._much(api, context, request)
        future: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        begun = self._broker.clock.monotonic_us()
        part = cast("Reply", _PartReply(request.connection, future))
        api.handle(context, request, part)
        reply.note_turn(self._broker.clock.monotonic_us() - begun)
        if future.done():
            return future.result()
        async with self._broker.long_places.away():
            return await future
