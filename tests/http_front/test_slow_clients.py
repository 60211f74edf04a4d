"""Clients that are slow: each has its time, and then the end; nothing of them stays."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from harness.waiting import until
from penstock.http.front import Front
from penstock.http.limits import Limits
from penstock.http.pages.openapi import document
from penstock.http.protocol import BoundedProtocol
from penstock.http.server import HttpServer, bind
from penstock.http.tokens import read_tokens

TOKEN = "0123456789abcdef01234567"
FILE = f'[[token]]\nname = "t"\ntoken = "{TOKEN}"\nproduce = ["*"]\n'
NOWHERE = ["127.0.0.1:1"]
PATIENT = Limits(head_s=600, body_s=600, write_s=600, idle_s=600, stop_s=5)
OPENAPI = b"GET /openapi.json HTTP/1.1\r\nHost: x\r\n\r\n"
POST = (
    b"POST /v1/topics/t/messages HTTP/1.1\r\nHost: x\r\n"
    b"Authorization: Bearer " + TOKEN.encode() + b"\r\nContent-Length: 100\r\n\r\n"
)


class Connect:
    """Connects to a server."""

    def __init__(self, server: HttpServer, port: int) -> None:
        self._server, self._port = server, port

    async def __call__(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_connection("127.0.0.1", self._port)

    def has_paused(self) -> bool:
        """Whether the only connection is not written to, since nobody reads."""
        (connection,) = self._server.server_state.connections
        assert isinstance(connection, BoundedProtocol)
        return connection.flow.write_paused


@asynccontextmanager
async def serving(limits: Limits) -> AsyncIterator[tuple[Front, Connect]]:
    tokens = read_tokens("f", FILE)
    front = Front(NOWHERE, lambda: tokens, limits=limits)
    listening = bind("127.0.0.1", 0)
    port = listening.getsockname()[1]
    server = HttpServer(front, listening, None)
    running = asyncio.create_task(server._serve())
    async with asyncio.timeout(120):
        await until(lambda: server.started)
        yield front, Connect(server, port)
        server._stop()
        await running
        front.close()
    assert not len(front.places)
    assert not front.held.bytes_now


async def _ends(reader: asyncio.StreamReader) -> bytes:
    try:
        return await reader.read()
    except ConnectionError:
        return b""


def with_limits(limits: Limits, test: Callable[[Front, Connect], Awaitable[None]]) -> None:
    async def run() -> None:
        async with serving(limits) as (front, connect):
            await test(front, connect)

    asyncio.run(run())


def test_who_sends_no_whole_head_is_ended() -> None:
    async def test(front: Front, connect: Connect) -> None:
        for sent in (b"", b"GET /health HT", OPENAPI + b"GET /hea"):
            reader, writer = await connect()
            writer.write(sent)
            await _ends(reader)
            writer.close()
        await until(lambda: not len(front.places))
        assert front.stats.slow_clients == 3

    with_limits(Limits(head_s=0.2, idle_s=600, stop_s=5), test)


def test_a_head_that_comes_while_another_request_is_answered_has_its_time_too() -> None:
    async def test(front: Front, connect: Connect) -> None:
        reader, writer = await connect()
        writer.write(POST + b"x" * 50)
        await asyncio.sleep(0)
        writer.write(b"x" * 50 + b"GET /hea")
        told = await _ends(reader)
        assert told.startswith(b"HTTP/1.1 400 ")
        writer.close()
        assert front.stats.slow_clients == 1

    with_limits(Limits(head_s=0.2, idle_s=600, stop_s=5), test)


def test_the_time_of_a_head_is_over_once_it_is_there() -> None:
    async def test(front: Front, connect: Connect) -> None:
        reader, writer = await connect()
        writer.write(POST)
        await asyncio.sleep(0.5)  # longer than a head may take
        writer.write(b"{" * 100)
        assert (await reader.readline()).startswith(b"HTTP/1.1 400 ")
        writer.close()
        assert not front.stats.slow_clients

    with_limits(Limits(head_s=0.2, idle_s=600, stop_s=5), test)


def test_who_sends_no_whole_body_is_told_so_and_ended() -> None:
    async def test(front: Front, connect: Connect) -> None:
        reader, writer = await connect()
        writer.write(POST + b"{")
        told = await _ends(reader)
        assert told.startswith(b"HTTP/1.1 408 ")
        assert b'"code":"slow-body"' in told
        writer.close()

    with_limits(Limits(head_s=600, body_s=0.2, stop_s=5), test)


def test_who_reads_nothing_is_ended_and_holds_nothing() -> None:
    async def test(front: Front, connect: Connect) -> None:
        _, writer = await connect()
        writer.transport.pause_reading()  # type: ignore[attr-defined]
        while not front.stats.slow_clients:
            writer.write(OPENAPI * 50)
            await asyncio.sleep(0.01)
        await until(lambda: not len(front.places))
        writer.close()

    with_limits(Limits(head_s=600, write_s=0.3, idle_s=600, stop_s=5), test)


def test_who_reads_again_in_time_is_not_ended() -> None:
    async def test(front: Front, connect: Connect) -> None:
        reader, writer = await connect()
        writer.transport.pause_reading()  # type: ignore[attr-defined]
        writer.write(OPENAPI * 400)
        await asyncio.sleep(0.1)
        writer.transport.resume_reading()  # type: ignore[attr-defined]
        count = 0
        while count < 400:
            count += (await reader.readuntil(b"\r\n\r\n")).count(b"HTTP/1.1 200 ")
        writer.close()
        assert not front.stats.slow_clients

    with_limits(PATIENT, test)


def test_a_client_that_has_stopped_reading_for_a_while_has_all_its_time_again() -> None:
    async def test(front: Front, connect: Connect) -> None:
        reader, writer = await connect()
        writer.transport.pause_reading()  # type: ignore[attr-defined]
        writer.write(OPENAPI * 400)
        await until(connect.has_paused)
        writer.transport.resume_reading()  # type: ignore[attr-defined]
        for _ in range(400):
            await reader.readuntil(b"\r\n\r\n")
            await reader.readexactly(len(document()))
        await asyncio.sleep(3)  # longer than it may read nothing
        writer.write(OPENAPI)
        assert (await reader.readline()).startswith(b"HTTP/1.1 200 ")
        writer.close()
        assert not front.stats.slow_clients

    with_limits(Limits(write_s=2, head_s=600, stop_s=5), test)


def test_who_stops_reading_once_more_is_ended_likewise() -> None:
    async def test(front: Front, connect: Connect) -> None:
        reader, writer = await connect()
        writer.transport.pause_reading()  # type: ignore[attr-defined]
        writer.write(OPENAPI * 400)
        await until(connect.has_paused)
        writer.transport.resume_reading()  # type: ignore[attr-defined]
        for _ in range(400):
            await reader.readuntil(b"\r\n\r\n")
            await reader.readexactly(len(document()))
        writer.transport.pause_reading()  # type: ignore[attr-defined]
        while not front.stats.slow_clients:
            writer.write(OPENAPI * 50)
            await asyncio.sleep(0.01)
        await until(lambda: not len(front.places))
        writer.close()

    with_limits(Limits(write_s=2, head_s=600, stop_s=5), test)


def test_an_idle_connection_does_not_keep_the_process_from_ending() -> None:
    async def run() -> None:
        async with serving(PATIENT) as (_, connect):
            reader, writer = await connect()
            writer.write(OPENAPI)
            await reader.readuntil(b"\r\n\r\n")
        writer.close()

    asyncio.run(run())
