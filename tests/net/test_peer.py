"""Peer links over loopback sockets: what goes through, and how they end."""

import asyncio
import socket
from functools import partial

import pytest

from harness.waiting import until
from penstock.base.errors import ConfigError
from penstock.net.peer import (
    Credentials,
    PeerFrameTooLarge,
    PeerListener,
    PeerSecurity,
    dial,
)
from tests.net.peering import DIALER, LISTENER, SECRET, End, drained, is_ended, peer_port, raw
from tests.net.serving import LOOPS, run

pytestmark = pytest.mark.parametrize("loop", LOOPS)


# --- frames --------------------------------------------------------------------------------------


def test_both_ends_know_each_other_and_frames_go_both_ways(loop: str) -> None:
    async def scenario() -> None:
        async with peer_port() as port:
            dialler, listener = await port.pair()
            assert dialler.link.hello == LISTENER
            assert listener.link.hello == DIALER
            dialler.link.send(b"a", memoryview(b"bc"), bytearray(b"d"))
            dialler.link.send()
            listener.link.send(b"answer")
            assert await listener.received(2) == [b"abcd", b""]
            assert await dialler.received(1) == [b"answer"]

    run(scenario(), loop)


def test_frames_of_all_sizes_arrive_whole_and_in_order(loop: str) -> None:
    async def scenario() -> None:
        async with peer_port() as port:
            dialler, listener = await port.pair()
            sizes = [0, 1, 3, 1 << 20, 16 << 10, (16 << 10) + 1, 5, 3 << 20, 7, 130 << 10, 8 << 20]
            sent = [bytes([number]) * size for number, size in enumerate(sizes)]
            for payload in sent:
                dialler.link.send(payload[:2], payload[2:])
            assert await listener.received(len(sent)) == sent

    run(scenario(), loop)


def test_frames_sent_before_the_owner_listens_wait_for_it(loop: str) -> None:
    async def scenario() -> None:
        async with peer_port() as port:
            link = await port.dial()
            (await port.end()).link.send(b"early")
            await drained()
            assert await End(link).received(1) == [b"early"]

    run(scenario(), loop)


def test_paused_link_hands_nothing_over_until_it_is_resumed(loop: str) -> None:
    async def scenario() -> None:
        async with peer_port() as port:
            dialler, listener = await port.pair()
            handed: list[bytes] = []
            done = asyncio.Event()

            def on_frame(view: memoryview) -> None:
                handed.append(bytes(view))
                listener.link.pause_reading()
                done.set()

            listener.link.on_frame = on_frame
            for payload in (b"1", b"2", b"3"):
                dialler.link.send(payload)
            for count in (1, 2, 3):
                await done.wait()
                done.clear()
                await drained()
                assert len(handed) == count
                listener.link.resume_reading()
            assert handed == [b"1", b"2", b"3"]

    run(scenario(), loop)


def test_slow_reader_is_told_by_marks_and_goes_on(loop: str) -> None:
    async def scenario() -> None:
        async with peer_port() as port:
            dialler, listener = await port.pair()
            listener.link.pause_reading()
            writable = asyncio.Event()
            dialler.link.on_writable = writable.set
            payload, count = bytes(1 << 20), 0
            while dialler.link.is_writable:
                dialler.link.send(payload)
                count += 1
                await asyncio.sleep(0)
            assert dialler.link.buffered_bytes > 4 << 20
            listener.link.resume_reading()
            await writable.wait()
            assert dialler.link.buffered_bytes <= 1 << 20
            assert await listener.received(count) == [payload] * count

    run(scenario(), loop)


def test_frame_that_the_other_end_would_not_take_is_not_sent(loop: str) -> None:
    async def scenario() -> None:
        async with peer_port() as port:
            dialler, listener = await port.pair()
            with pytest.raises(PeerFrameTooLarge):
                dialler.link.send(bytes(8 << 20), b"x")
            dialler.link.send(b"next")
            assert await listener.received(1) == [b"next"]

    run(scenario(), loop)


def test_oversized_frame_of_a_peer_ends_the_link(loop: str) -> None:
    async def scenario() -> None:
        async with peer_port() as port:
            dialler, listener = await port.pair()
            dialler.link.frame_bytes_max = 1 << 31
            dialler.link.send(bytes(8 << 20), b"x")
            assert "8388609 bytes" in await listener.closed()
            assert listener.frames == []
            await dialler.closed()

    run(scenario(), loop)


# --- the end of a link ---------------------------------------------------------------------------


def test_close_lets_what_was_sent_arrive_and_is_told_once_at_both_ends(loop: str) -> None:
    async def scenario() -> None:
        async with peer_port() as port:
            dialler, listener = await port.pair()
            dialler.link.send(b"last")
            dialler.link.close("done here")
            dialler.link.close("again")
            dialler.link.send(b"never")
            assert dialler.reasons == [], "not within close"
            assert await dialler.closed() == "done here"
            assert await listener.closed() == "closed by the other end"
            assert listener.frames == [b"last"]
            await drained()
            assert len(dialler.reasons) == len(listener.reasons) == 1
            assert dialler.link.is_closed
            assert dialler.link.buffered_bytes == 0

    run(scenario(), loop)


def test_reason_is_kept_for_an_owner_that_asks_later(loop: str) -> None:
    async def scenario() -> None:
        async with peer_port() as port:
            link = await port.dial()
            link.on_frame = lambda _: None
            (await port.end()).link.close("bye")
            await until(lambda: link.is_closed)
            await drained()
            assert await End(link).closed() == "closed by the other end"

    run(scenario(), loop)


def test_link_that_is_closed_while_frames_are_handled_hands_over_no_more(loop: str) -> None:
    async def scenario() -> None:
        async with peer_port() as port:
            dialler, listener = await port.pair()
            handed: list[bytes] = []

            def on_frame(view: memoryview) -> None:
                handed.append(bytes(view))
                listener.link.close("enough")

            listener.link.on_frame = on_frame
            dialler.link.send(b"1")
            dialler.link.send(b"2")
            await listener.closed()
            await dialler.closed()
            assert handed == [b"1"]

    run(scenario(), loop)


def test_broken_connection_closes_both_ends(loop: str) -> None:
    async def scenario() -> None:
        async with peer_port() as port:
            dialler, listener = await port.pair()
            dialler.link.abort("gone")
            await listener.closed()
            assert listener.link.is_closed
            listener.link.send(b"nobody there")
            assert await dialler.closed() == "gone"

    run(scenario(), loop)


def test_a_link_that_has_closed_holds_neither_memory_nor_its_owner(loop: str) -> None:
    async def scenario() -> None:
        async with peer_port() as port:
            dialler, listener = await port.pair()
            dialler.link.send(b"x" * 100_000)
            await listener.received(1)
            dialler.link.close("done")
            for end in (dialler, listener):
                await end.closed()
                await until(partial(lambda link: link._memory.capacity == 0, end.link))
                assert end.link.on_frame is None
            assert end.link.on_closed is None

    run(scenario(), loop)


def test_handler_that_fails_ends_the_link_and_is_reported(loop: str) -> None:
    async def scenario() -> None:
        async with peer_port() as port:
            reported: list[object] = []
            running = asyncio.get_running_loop()
            running.set_exception_handler(lambda _, what: reported.append(what.get("exception")))
            dialler, listener = await port.pair()

            def on_frame(_view: memoryview) -> None:
                raise ZeroDivisionError

            listener.link.on_frame = on_frame
            dialler.link.send(b"1")
            assert await listener.closed() == "a frame could not be handled"
            await dialler.closed()
            assert isinstance(reported[0], ZeroDivisionError)

    run(scenario(), loop)


# --- reaching the other end ----------------------------------------------------------------------


def test_port_that_nobody_listens_on_is_an_os_error(loop: str) -> None:
    async def scenario() -> None:
        with socket.create_server(("127.0.0.1", 0)) as taken:
            address = taken.getsockname()
        with pytest.raises(OSError, match=r"."):
            await dial(
                address,
                DIALER,
                PeerSecurity(Credentials(SECRET)),
                timeout_ms=5_000,
                frame_bytes_max=1 << 20,
            )

    run(scenario(), loop)


def test_peer_that_never_answers_is_given_up_in_time(loop: str) -> None:
    async def scenario() -> None:
        with socket.create_server(("127.0.0.1", 0)) as silent:
            address = silent.getsockname()
            with pytest.raises(TimeoutError, match="did not answer in 30 ms"):
                await dial(
                    address,
                    DIALER,
                    PeerSecurity(Credentials(SECRET)),
                    timeout_ms=30,
                    frame_bytes_max=1 << 20,
                )
        await drained()

    run(scenario(), loop)


def test_peer_that_closes_without_a_word_is_an_os_error(loop: str) -> None:
    async def scenario() -> None:
        async def answer(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.close()

        server = await asyncio.start_server(answer, "127.0.0.1", 0)
        with pytest.raises(OSError, match=r"."):
            await dial(
                server.sockets[0].getsockname(),
                DIALER,
                PeerSecurity(Credentials(SECRET)),
                timeout_ms=5_000,
                frame_bytes_max=1 << 20,
            )
        server.close()
        await server.wait_closed()

    run(scenario(), loop)


def test_stopped_listener_closes_its_links_and_strangers(loop: str) -> None:
    async def scenario() -> None:
        async with peer_port() as port:
            dialler, listener = await port.pair()
            reader, writer = await raw(port)
            await until(lambda: port.listener.stranger_count > 0)
            port.listener.stop()
            assert await is_ended(reader)
            writer.close()
            assert await listener.closed() == "the port is closed"
            await dialler.closed()

    run(scenario(), loop)


def test_port_in_use_and_empty_secret_are_told_in_one_line(loop: str) -> None:
    async def scenario() -> None:
        async with peer_port() as port:
            host, number = port.address
            security = PeerSecurity(Credentials(SECRET))
            other = PeerListener(host, number, LISTENER, security, {}, frame_bytes_max=1 << 20)
            with pytest.raises(ConfigError, match="can not listen on"):
                other.start()

    run(scenario(), loop)
    with pytest.raises(ConfigError, match="secret"):
        Credentials(b"")
