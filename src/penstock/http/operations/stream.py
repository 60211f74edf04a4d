"""Stream: messages as server-sent events, as they come, until the client goes.

    event: message            data: one message as JSON, as receive has them
    : (a comment)             every KEEP_ALIVE_S, so that a client that has gone is found
    event: end                the process ends, or the token is not for this any more; connect again
    event: problem            data: a problem document; the stream ends

A stream has at most `in_flight` messages that are sent and not settled; they are settled by the
requests of settle.py. Messages that could not be sent come again at once.

Source: WHATWG HTML, section 9.2 (server-sent events); ours, docs/adr/0167.
"""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus
from typing import Annotated, Final

from msgspec import Meta

from penstock.http.bodies import ReceiveRequest, read_query
from penstock.http.call import Call, encode_json
from penstock.http.front import Front, Identity
from penstock.http.limits import IN_FLIGHT_MAX
from penstock.http.operations.flight import Flight
from penstock.http.operations.receive import (
    Taking,
    document_of,
    freed_unless_sent,
    wanted_of,
)
from penstock.http.problems import Problem, of_upstream
from penstock.http.upstream.errors import UpstreamError
from penstock.http.upstream.popping import Desk, Wanted

MEDIA_TYPE: Final = "text/event-stream"
ROOM_CHECK_S: Final = 1.0


class StreamRequest(ReceiveRequest, forbid_unknown_fields=True):
    """How messages are to be streamed: as `receive`, and how many at a time."""

    in_flight: Annotated[
        int, Meta(ge=1, le=IN_FLIGHT_MAX, description="Sent and not settled, at most.")
    ] = 32


async def stream(front: Front, call: Call, topic: str, group: str) -> None:
    """Send messages until the client goes. Raises Problem before the first byte of the answer."""
    assert call.token is not None, "the router has checked it"
    asked = read_query(call.query(), StreamRequest)
    await call.body()
    with front.waiting(call.token), front.used(call.token) as identity:
        wanted = wanted_of(topic, group, asked)
        await identity.nodes.route(topic)  # what is wrong with it is told with its status
        flight = Flight(asked.in_flight)
        with _listed(front, (call.token.name, topic, group), flight):
            await call.begin(HTTPStatus.OK, {"content-type": MEDIA_TYPE})
            await _Streaming(front, call, identity, wanted, flight).run()


@contextmanager
def _listed(front: Front, key: tuple[str, str, str], flight: Flight) -> Iterator[None]:
    """Let the stream hear what is said of its messages."""
    front.streams.setdefault(key, []).append(flight)
    try:
        yield
    finally:
        front.streams[key].remove(flight)
        if not front.streams[key]:
            del front.streams[key]


class _Streaming:
    """One stream."""

    def __init__(
        self, front: Front, call: Call, identity: Identity, wanted: Wanted, flight: Flight
    ) -> None:
        self._front = front
        self._call = call
        self._identity = identity
        self._wanted = wanted
        self._flight = flight
        self._written = asyncio.get_running_loop().time()

    async def run(self) -> None:
        try:
            while not self._call.is_gone:
                if self._is_to_end():
                    await self._event("end", b"{}")
                    break
                await self._round()
        except (UpstreamError, Problem) as error:
            problem = of_upstream(error) if isinstance(error, UpstreamError) else error
            await self._event("problem", encode_json(problem.document()))
        if not self._call.is_gone:
            await self._call.finish()

    async def _round(self) -> None:
        """Send what there is, or a comment after a time without any."""
        loop = asyncio.get_running_loop()
        self._call.watch()
        keep_alive_s = self._front.limits.keep_alive_s
        if self._flight.room(loop.time()) <= 0:
            await self._flight.until_room(loop.time(), ROOM_CHECK_S)
        room = self._flight.room(loop.time())
        if room <= 0:
            if loop.time() >= self._written + keep_alive_s:
                await self._write(b":\n\n")
            return
        count = min(room, self._wanted.messages_max)
        wanted = self._wanted._replace(messages_max=count)
        taking = Taking(self._front, self._call, self._identity, wanted)
        handed_out = await taking.take(keep_alive_s)
        if not handed_out:
            await self._write(b":\n\n")
            return
        until = loop.time() + wanted.invisible_ms / 1000
        desk = Desk(self._identity.nodes, wanted.topic, wanted.group)
        async with freed_unless_sent(desk, handed_out) as left:
            for one in handed_out:
                if self._call.is_gone or self._is_to_end():
                    return
                self._flight.add(one.handle, until)
                await self._event("message", encode_json(document_of(one)))
                left.pop(0)
                self._front.stats.messages["streamed"] += 1

    def _is_to_end(self) -> bool:
        wanted = self._wanted
        is_permitted = self._front.may_consume(self._call, wanted.topic, wanted.group)
        return self._front.stopping.is_set() or not is_permitted

    async def _event(self, name: str, data: bytes) -> None:
        await self._write(b"event: %b\ndata: %b\n\n" % (name.encode(), data))

    async def _write(self, data: bytes) -> None:
        await self._call.write(data)
        self._written = asyncio.get_running_loop().time()
