"""A port that takes TLS and plain text: who begins with which is served so."""

import asyncio
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from harness.waiting import until
from penstock.net.connection import Connection
from penstock.net.errors import CloseKind
from penstock.net.tls.doors import Door
from penstock.net.tls.handshakes import HANDSHAKE_TICKS
from tests.net.serving import LOOPS, Peer, Recorder, frame, run
from tests.net.test_tls import Files, Secured, secured

pytestmark = [
    pytest.mark.parametrize("loop", LOOPS),
    pytest.mark.skipif(shutil.which("openssl") is None, reason="needs openssl"),
]


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Files:
    return Files(tmp_path_factory.mktemp("either"))


@asynccontextmanager
async def either(files: Files, recorder: Recorder | None = None) -> AsyncIterator[Secured]:
    """A listener whose port takes both; `principal` says who has gone through its door."""

    def admit(connection: Connection) -> None:
        connection.principal = f"User:{len(connection.certificate)}"

    async with secured(files, *(() if recorder is None else (recorder.on_frame,))) as server:
        context = files.context()
        server.listener.doors = {"kafka": Door(lambda: context, admit, takes_plain=True)}
        yield server


async def plain(server: Secured) -> Peer:
    reader, writer = await asyncio.open_connection("127.0.0.1", server.listener.port)
    server.peers.append(Peer(reader, writer))
    return server.peers[-1]


def test_both_are_served_at_one_port(loop: str, files: Files) -> None:
    async def scenario() -> None:
        async with either(files) as server:
            payloads = [b"a", bytes(range(256)) * 4096, b"b" * 9, b"c" * 4_000_000, b"d"]
            for peer in (await plain(server), await server.connect(), await plain(server)):
                for payload in payloads:
                    peer.send(frame(payload))
                    assert await peer.answer() == payload
            assert server.listener.stats.connections == 3
            assert [one.principal for one in server.listener.connections] == ["User:0"] * 3
            assert not server.listener._tls.handshakes.all

    run(scenario(), loop)


def test_who_sends_a_byte_at_a_time_loses_none(loop: str, files: Files) -> None:
    async def scenario() -> None:
        async with either(files) as server:
            peer = await plain(server)
            for byte in frame(b"slowly") + frame(b"and again"):
                peer.send(bytes((byte,)))
                await asyncio.sleep(0)
            assert [await peer.answer(), await peer.answer()] == [b"slowly", b"and again"]

    run(scenario(), loop)


def test_many_requests_in_the_first_bytes_are_answered_in_order(loop: str, files: Files) -> None:
    async def scenario() -> None:
        async with either(files) as server:
            peer = await plain(server)
            peer.send(b"".join(frame(b"%d" % number) for number in range(5_000)))
            for number in range(5_000):
                assert await peer.answer() == b"%d" % number

    run(scenario(), loop)


def test_connections_without_tls_are_counted_out_when_they_close(loop: str, files: Files) -> None:
    async def scenario() -> None:
        async with either(files) as server:
            peers = [await plain(server) for _ in range(3)]
            for peer in peers:
                peer.send(frame(b"hello"))
                assert await peer.answer() == b"hello"
            assert server.listener._keeper.open_count == 3
            for peer in peers:
                peer.writer.close()
            await until(lambda: server.listener._keeper.open_count == 0)
            assert server.listener.stats.connections == 0

    run(scenario(), loop)


def test_who_says_nothing_is_ended_as_one_who_shakes_hands(loop: str, files: Files) -> None:
    async def scenario() -> None:
        async with either(files) as server:
            silent, served = await plain(server), await plain(server)
            served.send(frame(b"hello"))
            assert await served.answer() == b"hello"
            await until(lambda: len(server.listener._tls.handshakes.all) == 1)
            for _ in range(HANDSHAKE_TICKS + 1):
                server.listener.sweep()
            assert await silent.is_ended()
            served.send(frame(b"still there"))
            assert await served.answer() == b"still there"
            assert server.listener.stats.closed[CloseKind.TLS_FAILED] == 1

    run(scenario(), loop)


def test_what_only_looks_like_tls_is_not_served_as_plain_text(loop: str, files: Files) -> None:
    recorder = Recorder()

    async def scenario() -> None:
        async with either(files, recorder) as server:
            peer = await plain(server)
            peer.send(b"\x16\x03\x01\x00\x05" + frame(b"hello"))
            assert (await peer.reader.read())[:1] == b"\x15", "an alert of TLS, and the end"
            assert server.listener.connections == []
            assert recorder.frames == []

    run(scenario(), loop)
