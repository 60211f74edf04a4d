"""TLS at a listener: frames go both ways, and what half-open handshakes can hold is bounded."""

import asyncio
import contextlib
import itertools
import shutil
import socket
import ssl
import struct
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from harness.waiting import until
from penstock.net.connection import Connection
from penstock.net.listener import Endpoint, Listener
from penstock.net.tls.doors import Door
from penstock.net.tls.handshakes import HALF_OPEN_MAX, HANDSHAKE_TICKS
from penstock.net.tls.side import WINDOW_BYTES
from tests.access.certificates import Authority
from tests.net.asking import WORD, ask, served
from tests.net.serving import LOOPS, OPEN_LIMITS, Peer, Recorder, echo, frame, run

pytestmark = [
    pytest.mark.parametrize("loop", LOOPS),
    pytest.mark.skipif(shutil.which("openssl") is None, reason="needs openssl"),
]
OPS = "OPS"
OnFrame = Callable[[Connection, memoryview], None]


class Files:
    """An authority, and the certificates of a server and a client."""

    def __init__(self, directory: Path) -> None:
        self.authority = Authority(directory)
        self.server = self.authority.issue("server", "/CN=server")
        self.client = self.authority.issue("client", "/CN=client")
        self.client_bytes = ssl.PEM_cert_to_DER_cert(Path(self.client[0]).read_text())

    def context(self, ask: ssl.VerifyMode = ssl.CERT_NONE) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*self.server)
        context.load_verify_locations(self.authority.file)
        context.verify_mode = ask
        return context

    def clients(self, *, has_certificate: bool = False) -> ssl.SSLContext:
        context = ssl.create_default_context(cafile=self.authority.file)
        if has_certificate:
            context.load_cert_chain(*self.client)
        return context


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Files:
    return Files(tmp_path_factory.mktemp("tls"))


class Secured:
    """A started listener with a door."""

    def __init__(self, listener: Listener, context: ssl.SSLContext) -> None:
        self.listener, self._context = listener, context
        self.peers: list[Peer] = []

    async def connect(self, context: ssl.SSLContext | None = None, *, name: str = "kafka") -> Peer:
        port = self.listener.ports[name]
        reader, writer = await asyncio.open_connection(
            "127.0.0.1", port, ssl=context or self._context
        )
        self.peers.append(Peer(reader, writer))
        return self.peers[-1]

    def raw(self, source: str = "127.0.0.1") -> socket.socket:
        address = ("127.0.0.1", self.listener.port)
        opened = socket.create_connection(address, source_address=(source, 0))
        opened.setblocking(False)
        return opened


@asynccontextmanager
async def secured(
    files: Files,
    on_frame: OnFrame = echo,
    *,
    verify: ssl.VerifyMode = ssl.CERT_NONE,
    admit: Callable[[Connection], None] = lambda _: None,
    **limits: Any,
) -> AsyncIterator[Secured]:
    context = files.context(verify)
    listener = Listener(
        [Endpoint("127.0.0.1", 0), Endpoint("127.0.0.1", 0, OPS)],
        replace(OPEN_LIMITS, **limits),
        on_frame,
    )
    listener.doors = {name: Door(lambda: context, admit) for name in ("kafka", OPS)}
    listener.measure_by(lambda: 0.0)
    listener.start()
    server = Secured(listener, files.clients())
    try:
        yield server
    finally:
        for peer in server.peers:
            peer.writer.transport.abort()
        await listener.stop(grace_seconds=0.2)


def hello(context: ssl.SSLContext) -> bytes:
    """The first record of a client."""
    outgoing = ssl.MemoryBIO()
    client = context.wrap_bio(ssl.MemoryBIO(), outgoing, server_hostname="localhost")
    with pytest.raises(ssl.SSLWantReadError):
        client.do_handshake()
    return outgoing.read()


def test_frames_go_both_ways(loop: str, files: Files) -> None:
    async def scenario() -> None:
        async with secured(files) as server:
            peer = await server.connect()
            payloads = [b"a", bytes(range(256)) * 4096, b"b" * 9, b"c" * 4_000_000, b"d"]
            for payload in payloads:
                peer.send(frame(payload))
                assert await peer.answer() == payload
            assert server.listener.stats.connections == 1

    run(scenario(), loop)


def test_requests_that_come_together_are_answered_in_order(loop: str, files: Files) -> None:
    async def scenario() -> None:
        async with secured(files, in_flight_max=8) as server:
            peer = await server.connect()
            for number in range(3000):
                peer.send(frame(b"%d" % number))
            for number in range(3000):
                assert await peer.answer() == b"%d" % number

    run(scenario(), loop)


def test_a_client_that_does_not_read_is_not_encrypted_for(loop: str, files: Files) -> None:
    # Its answers are of the same memory: what waits is plain, and counts as unsent.
    size = 64 << 20
    answer = frame(bytes(size))

    def handle(connection: Connection, data: memoryview) -> None:
        connection.reserve().send(answer)

    async def scenario() -> None:
        async with secured(files, handle) as server:
            peer = await server.connect()
            peer.writer.transport.pause_reading()  # type: ignore[attr-defined]
            peer.send(frame(b"much"))
            await until(lambda: bool(server.listener.connections))
            (connection,) = server.listener.connections
            await until(lambda: connection.stalled_bytes > size // 2)
            assert connection.is_choked
            peer.writer.transport.resume_reading()  # type: ignore[attr-defined]
            assert len(await peer.reader.readexactly(len(answer))) == len(answer)
            await until(lambda: connection.stalled_bytes == 0)

    run(scenario(), loop)


def test_what_comes_while_nothing_is_read_is_kept_and_counted(loop: str, files: Files) -> None:
    recorder = Recorder()

    async def scenario() -> None:
        async with secured(files, recorder.on_frame, in_flight_max=1) as server:
            peer = await server.connect()
            sent = [b"%d" % number + bytes(30_000).replace(b"\0", b"x") for number in range(40)]
            peer.send(b"".join(map(frame, sent)))
            for number in range(40):
                await recorder.wait_for(number + 1)
                recorder.answer(number)
            assert recorder.frames == sent
            for payload in sent:
                assert await peer.answer() == b"re:" + payload
            peer.writer.close()
            await until(lambda: server.listener.stats.connections == 0)
            server.listener.sweep()
            assert server.listener.stats.unfinished_bytes == 0

    run(scenario(), loop)


def test_nothing_is_read_from_the_socket_before_what_came_earlier_is_decrypted(
    loop: str, files: Files
) -> None:
    # Each pause of the connection once added a window to what waits, and copied all of it.
    recorder, count = Recorder(), 300

    async def scenario() -> None:
        async with secured(files, recorder.on_frame, in_flight_max=1) as server:
            peer = await server.connect()
            sent = [b"%d" % number + b"x" * 30_000 for number in range(count)]
            peer.send(b"".join(map(frame, sent)))
            most = 0
            for number in range(count):
                await recorder.wait_for(number + 1)
                most = max(most, server.listener._tls.budget.used)
                recorder.slots[number].send(frame(b"taken"))
            assert recorder.frames == sent
            assert 0 < most <= WINDOW_BYTES + len(sent[0])
            await until(lambda: server.listener._tls.budget.used == 0)
            assert server.listener.connections

    run(scenario(), loop)


def test_who_speaks_no_tls_is_ended_at_the_first_byte(loop: str, files: Files) -> None:
    async def scenario() -> None:
        async with secured(files) as server:
            reader, writer = await asyncio.open_connection("127.0.0.1", server.listener.port)
            writer.write(frame(b"plain"))
            assert await Peer(reader, writer).is_ended()
            writer.close()
            assert server.listener.stats.closed == {"not_tls": 1}

    run(scenario(), loop)


def test_half_a_handshake_and_silence_are_ended(loop: str, files: Files) -> None:
    async def scenario() -> None:
        async with secured(files) as server:
            first = hello(files.clients())
            sockets = [server.raw() for _ in range(4)]
            for opened, data in zip(sockets, (b"", first[:3], first[:-1], first), strict=True):
                opened.send(data)
            handshakes = server.listener._tls.handshakes
            await until(lambda: len(handshakes.all) == 4)
            for _ in range(HANDSHAKE_TICKS):
                server.listener.sweep()
            await until(lambda: not handshakes.all)
            assert server.listener.stats.closed == {"tls_failed": 4}
            server.listener.sweep()
            assert server.listener.stats.unfinished_bytes == 0
            await until(lambda: server.listener._keeper.open_count == 0)
            for opened in sockets:
                opened.close()

    run(scenario(), loop)


def test_a_flood_of_half_open_handshakes_keeps_nobody_out(loop: str, files: Files) -> None:
    async def scenario() -> None:
        async with secured(files) as server:
            first = hello(files.clients())
            flood = [server.raw("127.0.0.2") for _ in range(HALF_OPEN_MAX + 200)]
            for opened in flood:
                opened.send(first)
            handshakes = server.listener._tls.handshakes
            most = 0

            def is_full() -> bool:
                nonlocal most
                most = max(most, len(handshakes._half_open))
                return most == HALF_OPEN_MAX

            await until(is_full)
            peer = await server.connect()
            peer.send(frame(b"good"))
            assert await peer.answer() == b"good"
            assert len(handshakes._half_open) <= HALF_OPEN_MAX
            for opened in flood:
                opened.close()
            await until(lambda: not handshakes.all)
            assert not handshakes._half_open
            assert not handshakes._waiting
            assert not handshakes._by_host

    run(scenario(), loop)


def test_few_handshakes_are_begun_in_a_turn(loop: str, files: Files) -> None:
    async def scenario() -> None:
        async with secured(files) as server:
            first = hello(files.clients())
            flood = [server.raw() for _ in range(30)]
            handshakes = server.listener._tls.handshakes
            await until(lambda: len(handshakes.all) == 30)
            for opened in flood:
                opened.send(first)
            seen = [0]
            while seen[-1] < 30:
                await asyncio.sleep(0)
                seen.append(len(handshakes._half_open))
            assert max(b - a for a, b in itertools.pairwise(seen)) <= 3
            for opened in flood:
                opened.close()

    run(scenario(), loop)


def test_a_certificate_is_asked_for_and_told(loop: str, files: Files) -> None:
    told: list[bytes] = []

    async def scenario() -> None:
        async with secured(
            files, verify=ssl.CERT_REQUIRED, admit=lambda one: told.append(one.certificate)
        ) as server:
            peer = await server.connect(files.clients(has_certificate=True))
            peer.send(frame(b"known"))
            assert await peer.answer() == b"known"
            assert told == [files.client_bytes]
            nobody = await server.connect()
            with pytest.raises((ssl.SSLError, ConnectionError, asyncio.IncompleteReadError)):
                await nobody.answer()
            assert server.listener.stats.closed == {"tls_failed": 1}
            assert server.listener.stats.connections == 1

    run(scenario(), loop)


def test_a_connection_may_be_ended_at_its_door(loop: str, files: Files) -> None:
    def admit(connection: Connection) -> None:
        connection.close("nobody is let in")

    async def scenario() -> None:
        async with secured(files, admit=admit) as server:
            peer = await server.connect()
            peer.send(frame(b"x"))
            assert await peer.is_ended()
            await until(lambda: server.listener._keeper.open_count == 0)

    run(scenario(), loop)


def test_bytes_that_are_no_records_end_the_connection(loop: str, files: Files) -> None:
    async def scenario() -> None:
        async with secured(files) as server:
            peer = await server.connect()
            peer.send(frame(b"x"))
            await peer.answer()
            raw = peer.writer.get_extra_info("socket")
            with socket.socket(fileno=socket.dup(raw.fileno())) as same:
                same.send(b"no record at all")
            await until(lambda: server.listener._keeper.open_count == 0)

    run(scenario(), loop)


def test_a_listener_that_stops_ends_handshakes_too(loop: str, files: Files) -> None:
    async def scenario() -> None:
        async with secured(files) as server:
            half = server.raw()
            half.send(hello(files.clients())[:-1])
            handshakes = server.listener._tls.handshakes
            await until(lambda: len(handshakes.all) == 1)
            await server.listener.stop(grace_seconds=1.0)
            assert server.listener._keeper.open_count == 0
            half.close()

    run(scenario(), loop)


def test_half_a_handshake_holds_no_place_that_others_need(loop: str, files: Files) -> None:
    """Silence in the middle of TLS filled `connections_max` for ten seconds, again and again."""

    async def scenario() -> None:
        async with secured(files, connections_max=8) as server:
            first = hello(files.clients())
            flood = [server.raw() for _ in range(60)]
            for number, opened in enumerate(flood):
                with contextlib.suppress(OSError):
                    opened.send((b"", first[:3], first)[number % 3])
            peer = await server.connect()
            peer.send(frame(b"hello"))
            assert await peer.answer() == b"hello"
            stats = server.listener.stats
            assert stats.refused == {}
            assert stats.closed["gave_way"] == sum(stats.gave_way_at.values()) > 40
            for opened in flood:
                opened.close()
            await until(lambda: server.listener._keeper.open_count == 1)

    run(scenario(), loop)


def test_a_handshake_has_the_time_of_a_client_that_is_unknown(loop: str, files: Files) -> None:
    async def scenario() -> None:
        async with secured(files, unproven_seconds_max=2) as server:
            silent = server.raw()
            await until(lambda: len(server.listener._tls.handshakes.all) == 1)
            for _ in range(2):
                server.listener.sweep()
            assert server.listener.stats.closed == {}
            server.listener.sweep()
            await until(lambda: server.listener._keeper.open_count == 0)
            assert server.listener.stats.closed == {"authentication": 1}
            silent.close()

    run(scenario(), loop)


def test_who_is_silent_behind_tls_holds_no_place_that_others_need(loop: str, files: Files) -> None:
    """Whoever has shaken hands has not proved yet who it is, where SASL is to come."""

    async def scenario() -> None:
        async with secured(files, served, admit=ask, connections_max=8) as server:
            known = await server.connect()
            known.send(frame(WORD))
            assert await known.answer() == WORD
            for _ in range(30):
                await server.connect()
            newest = await server.connect()
            for peer in (newest, known):
                peer.send(frame(WORD))
                assert await peer.answer() == WORD
            stats = server.listener.stats
            assert stats.refused == {}
            assert sum(stats.gave_way_at.values()) >= 30 - 8

    run(scenario(), loop)


def test_handshakes_of_operators_do_not_wait_for_a_crowd_of_others(loop: str, files: Files) -> None:
    """From many addresses every place to shake hands is taken, and each has its turn first."""

    async def scenario() -> None:
        async with secured(files, protected_listener=OPS) as server:
            timer, handshakes = server.listener._timer, server.listener._tls.handshakes
            assert timer is not None
            timer.cancel()
            greeting = hello(files.clients())
            with contextlib.ExitStack() as stack:
                for number in range(HALF_OPEN_MAX + 20):
                    source = f"127.0.{1 + number // 250}.{1 + number % 250}"
                    stack.enter_context(server.raw(source)).send(greeting)
                await until(lambda: len(handshakes._waiting) == 20)
                peer = await server.connect(name=OPS)
                peer.send(frame(b"hello"))
                assert await peer.answer() == b"hello"
                assert len(handshakes._waiting) == 20

    run(scenario(), loop)


@pytest.mark.parametrize("is_reset", [False, True])
def test_nothing_is_signed_for_those_who_have_gone(loop: str, files: Files, is_reset: bool) -> None:
    """A flood that came and went had the node sign for it, and others waited for seconds."""

    async def scenario() -> None:
        async with secured(files) as server:
            context = server.listener.doors["kafka"].context
            assert context is not None
            signed = 0

            def counted() -> ssl.SSLContext:
                nonlocal signed
                signed += 1
                return context()

            server.listener.doors = {"kafka": Door(counted, lambda _: None)}
            greeting = hello(files.clients())
            for _ in range(60):
                gone = server.raw()
                gone.send(greeting)
                if is_reset:
                    gone.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                gone.close()
            peer = await server.connect()
            peer.send(frame(b"hello"))
            assert await peer.answer() == b"hello"
            assert signed == 1
            assert server.listener._keeper.open_count == 1

    run(scenario(), loop)
