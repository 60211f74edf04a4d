"""Who is let in at a peer port, what strangers cost, and what the log says of them."""

import asyncio
import logging
import resource
import socket
import struct
from functools import partial

import pytest

from harness.waiting import until
from penstock.net import peer_listener
from penstock.net.peer import (
    Credentials,
    PeerHello,
    PeerRefused,
    PeerSecurity,
    dial,
)
from penstock.net.peer_auth import DialerHandshake, Identity
from penstock.net.peer_listener import STRANGERS_MAX
from penstock.net.sockets import DESCRIPTOR_RESERVE
from penstock.runtime.io.http_server import CONNECTIONS_MAX
from tests.net.peering import (
    DIALER,
    SECRET,
    End,
    drained,
    is_ended,
    peer_port,
    raw,
    read_frame,
    send_frame,
)
from tests.net.serving import LOOPS, run

pytestmark = pytest.mark.parametrize("loop", LOOPS)


def test_wrong_secret_is_refused_and_logged_once_at_both_ends(
    loop: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        wrong = PeerSecurity(Credentials(b"another secret"))
        async with peer_port() as port:
            for _ in range(3):
                with pytest.raises(PeerRefused, match="wrong secret"):
                    await port.dial(security=wrong)
            assert port.ends == []

    with caplog.at_level(logging.DEBUG, "penstock"):
        run(scenario(), loop)
    lines = [record.getMessage() for record in caplog.records]
    assert len(lines) == 2, "one of the listener, one of the dialler, for three attempts"
    assert all("refused: " in line and "wrong secret" in line for line in lines)
    assert any("peer=2 purpose=ha" in line for line in lines)
    assert not any("another" in line or SECRET.decode() in line for line in lines)


def test_listener_that_does_not_know_the_secret_is_refused_by_the_dialler(loop: str) -> None:
    async def scenario() -> None:
        async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readexactly(int.from_bytes(await reader.readexactly(4), "big"))
            writer.write(struct.pack(">I4sBB", 38, b"PNPL", 1, 2) + bytes(32))
            await reader.readexactly(42)
            identity = struct.pack(">qqI", 1, 0, 1 << 20) + b"\0\0"
            body = struct.pack(">4sBB", b"PNPL", 1, 4) + bytes(32) + identity
            writer.write(struct.pack(">I", len(body)) + body)
            await reader.read()
            writer.close()

        server = await asyncio.start_server(answer, "127.0.0.1", 0)
        address = server.sockets[0].getsockname()
        with pytest.raises(PeerRefused, match="wrong secret"):
            await dial(
                address,
                DIALER,
                PeerSecurity(Credentials(SECRET)),
                timeout_ms=5_000,
                frame_bytes_max=1 << 20,
            )
        server.close()
        await server.wait_closed()
        await drained()

    run(scenario(), loop)


@pytest.mark.parametrize(
    ("hello", "reason"),
    [
        (PeerHello(b"ha", "other", 2, 0), "cluster 'cluster', peer 2 to cluster 'other'"),
        (PeerHello(b"ha", "cluster", 1, 0), "both ends are peer 1"),
        (PeerHello(b"\xff'", "cluster", 2, 0), r"serves no links for"),
    ],
)
def test_peers_that_do_not_belong_are_refused_by_name(
    loop: str, hello: PeerHello, reason: str
) -> None:
    async def scenario() -> None:
        async with peer_port() as port:
            with pytest.raises(PeerRefused, match=reason):
                await port.dial(hello)
            assert port.ends == []

    run(scenario(), loop)


def test_joining_side_learns_the_cluster_id(loop: str) -> None:
    async def scenario() -> None:
        async with peer_port() as port:
            link = await port.dial(PeerHello(b"ha", "", 2, 0))
            assert link.hello.cluster_id == "cluster"
            link.close("")
        async with peer_port(own=PeerHello(b"", "", 1, 0)) as port:
            link = await port.dial()
            assert (await port.end()).link.hello.cluster_id == "cluster"
            link.close("")
            port.listener.own = PeerHello(b"", "cluster", 1, 0)
            assert (await port.dial(PeerHello(b"ha", "", 2, 0))).hello.cluster_id == "cluster"

    run(scenario(), loop)


def test_recorded_handshake_opens_nothing_a_second_time(loop: str) -> None:
    async def scenario() -> None:
        async with peer_port() as port:
            recorded = bytearray()

            async def relay(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
                up_reader, up_writer = await raw(port)

                async def down() -> None:
                    while data := await up_reader.read(1 << 16):
                        writer.write(data)

                task = asyncio.create_task(down())
                while data := await reader.read(1 << 16):
                    recorded.extend(data)
                    up_writer.write(data)
                up_writer.close()
                await task
                writer.close()

            server = await asyncio.start_server(relay, "127.0.0.1", 0)
            address = server.sockets[0].getsockname()
            security = PeerSecurity(Credentials(SECRET))
            link = await dial(address, DIALER, security, timeout_ms=5_000, frame_bytes_max=1 << 20)
            first = await port.end()
            link.close("recorded")
            await first.closed()
            reader, writer = await raw(port)
            writer.write(recorded)
            answer = await reader.read()
            writer.close()
            assert b"wrong secret" in answer
            assert len(port.ends) == 1
            server.close()
            await server.wait_closed()

    run(scenario(), loop)


@pytest.mark.parametrize(
    "start",
    [
        b"GET / HTTP/1.1\r\n",
        b"\x16\x03\x01\x02\x00\x01",
        b"\0\0\0\x40nonsense",
        b"\xff\xff\xff\xff",
        b"\0\0\x02\x01",
    ],
)
def test_bytes_that_are_no_handshake_are_closed_at_once(loop: str, start: bytes) -> None:
    async def scenario() -> None:
        async with peer_port() as port:
            reader, writer = await raw(port)
            writer.write(start)
            assert await is_ended(reader)
            writer.close()
            assert port.listener.stranger_count == 0

    run(scenario(), loop)


def test_stranger_that_sends_too_much_or_out_of_turn_is_closed(loop: str) -> None:
    async def scenario() -> None:
        proof = struct.pack(">I4sBB", 38, b"PNPL", 1, 3) + bytes(32)
        later = struct.pack(">I4sBB", 38, b"PNPL", 9, 1) + bytes(32)
        hello = struct.pack(">I4sBB", 38 + 3, b"PNPL", 1, 1) + bytes(35)
        async with peer_port() as port:
            for sent in (proof, later, hello):
                reader, writer = await raw(port)
                writer.write(sent)
                assert await is_ended(reader)
                writer.close()
            assert port.ends == []

    run(scenario(), loop)


def test_slow_handshake_is_ended_after_its_time(loop: str) -> None:
    async def scenario() -> None:
        async with peer_port() as port:
            port.listener.handshake_timeout_ms = 30
            readers = []
            for start in (b"", b"\0\0", b"\0\0\0\x40PNPL"):
                reader, writer = await raw(port)
                writer.write(start)
                readers.append((reader, writer))
            for reader, writer in readers:
                assert await is_ended(reader)
                writer.close()
            assert port.listener.stranger_count == 0

    run(scenario(), loop)


def test_too_many_strangers_end_the_oldest_and_let_a_peer_in(loop: str) -> None:
    async def scenario() -> None:
        async with peer_port() as port:
            port.listener.strangers_max = 3
            strangers = [await raw(port) for _ in range(4)]
            assert await is_ended(strangers[0][0])
            dialler, _ = await port.pair()
            assert not dialler.link.is_closed
            assert port.listener.stranger_count <= 3
            for _, writer in strangers:
                writer.close()

    run(scenario(), loop)


def test_strangers_from_one_address_do_not_end_a_peer_that_is_shaking_hands(loop: str) -> None:
    """Whose answers take a moment on the way: the flood of others is quicker than that."""

    async def scenario() -> None:
        async with peer_port() as port:
            port.listener.strangers_max = 4
            hello = DialerHandshake(
                Identity(DIALER, 1 << 20), Credentials(SECRET).keys[0], bytes(32)
            )
            reader, writer = await raw(port)
            await send_frame(writer, hello.start())
            challenge = await read_frame(reader)
            flood = [
                await asyncio.open_connection(*port.address, local_addr=("127.0.0.2", 0))
                for _ in range(12)
            ]
            assert await is_ended(flood[7][0])
            await send_frame(writer, hello.step(challenge).answer)
            assert hello.step(await read_frame(reader)).peer is not None
            for _, other in [*flood, (reader, writer)]:
                other.close()

    run(scenario(), loop)


def test_peer_that_forgets_its_links_keeps_nobody_else_out(loop: str) -> None:
    async def scenario() -> None:
        async with peer_port() as port:
            port.listener.links_max = 5
            port.listener.links_per_peer_max = 4
            ends = [await port.pair() for _ in range(6)]
            assert "newer links" in await ends[1][1].closed()
            await ends[1][0].closed()
            other = await port.dial(PeerHello(b"ha", "cluster", 3, 0))
            assert not other.is_closed
            assert not any(dialler.link.is_closed for dialler, _ in ends[2:])
            assert port.listener.link_count == 5

    run(scenario(), loop)


def has_come(end: End, size: int) -> bool:
    """Whether so many bytes of an unended frame are there, or the link has ended."""
    return end.link.unended_bytes >= size or bool(end.reasons)


def test_frames_without_an_end_are_bounded_over_all_links_of_a_peer(loop: str) -> None:
    async def scenario() -> None:
        async with peer_port() as port:
            port.listener.unended_bytes_max = 8 << 20
            other = await port.dial(PeerHello(b"ha", "cluster", 3, 0))
            pairs = [await port.pair() for _ in range(4)]
            parts = (6 << 20).to_bytes(4, "big") + bytes(3 << 20)
            held = 0
            for dialler, accepted in pairs:
                dialler.link._transport.write(parts)
                await until(partial(has_come, accepted, len(parts)))
                held = max(held, sum(end.link.unended_bytes for _, end in pairs))
            ended = [end for _, end in pairs if end.reasons]
            assert len(ended) == 2
            assert all("without an end exceed" in end.reasons[0] for end in ended)
            assert held <= (8 << 20) + (1 << 20)
            assert not other.is_closed

    run(scenario(), loop)


def test_large_frames_that_end_close_no_link(loop: str) -> None:
    async def scenario() -> None:
        async with peer_port() as port:
            port.listener.unended_bytes_max = 8 << 20
            dialler, accepted = await port.pair()
            for count in range(1, 6):
                dialler.link.send(bytes(5 << 20))
                assert len((await accepted.received(count))[-1]) == 5 << 20
            assert not accepted.reasons

    run(scenario(), loop)


def test_strangers_at_both_ports_leave_descriptors_for_log_files(loop: str) -> None:
    del loop
    assert DESCRIPTOR_RESERVE >= 2 * STRANGERS_MAX + CONNECTIONS_MAX + 100


@pytest.mark.parametrize(
    ("files", "strangers"),
    [(256, 16), (64, 8), (1_024, 64), (1 << 20, STRANGERS_MAX),
     (resource.RLIM_INFINITY, STRANGERS_MAX)],
)  # fmt: skip
def test_a_process_that_may_open_few_files_has_few_strangers(
    loop: str, files: int, strangers: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (files, files))

    async def scenario() -> None:
        async with peer_port() as port:
            opened = [await raw(port) for _ in range(strangers + 4)]
            assert await is_ended(opened[0][0])
            assert port.listener.stranger_count == strangers
            dialler, _ = await port.pair()
            assert not dialler.link.is_closed
            for _, writer in opened:
                writer.close()

    run(scenario(), loop)


def test_links_beyond_the_limit_are_refused_until_one_closes(loop: str) -> None:
    async def scenario() -> None:
        async with peer_port() as port:
            port.listener.links_max = 1
            dialler, listener = await port.pair()
            with pytest.raises(OSError, match=r"."):
                await port.dial()
            dialler.link.close("make room")
            await listener.closed()
            await port.dial()

    run(scenario(), loop)


def test_connection_that_says_nothing_leaves_no_line_in_the_log(
    loop: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        async with peer_port() as port:
            _, writer = await raw(port)
            await until(lambda: port.listener.stranger_count == 1)
            writer.close()
            await until(lambda: port.listener.stranger_count == 0)

    with caplog.at_level(logging.INFO, "penstock"):
        run(scenario(), loop)
    assert caplog.records == []


def test_a_flood_of_strangers_waits_in_the_backlog(
    loop: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    together = peer_listener._ACCEPTS_PER_TURN

    async def scenario() -> None:
        monkeypatch.setattr(peer_listener, "_REST_SECONDS", 3_600.0)
        async with peer_port() as port:
            # connected by the system: the loop does not turn meanwhile
            opened = [socket.create_connection(port.address) for _ in range(together + 3)]
            await until(lambda: port.listener.stranger_count)
            for _ in range(100):
                await asyncio.sleep(0)
            assert port.listener.stranger_count == together
            for one in opened:
                one.close()

    run(scenario(), loop)
