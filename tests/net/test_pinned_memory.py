"""Answers that peers do not take count as pinned memory; who has most of them goes first."""

import pytest

from penstock.net.connection import Connection
from penstock.net.errors import CloseKind
from penstock.net.receive import ANSWER_BYTES_MIN, SHARE, FrameBudget
from tests.net.serving import LOOPS, Server, frame, run, serving

pytestmark = pytest.mark.parametrize("loop", LOOPS)
MIB = 1 << 20
ANSWER = frame(bytes(MIB - 4))
LIMITS = {"unfinished_bytes_max": 16 * MIB, "queued_bytes_max": 64 << 10}


def large(connection: Connection, data: memoryview) -> None:
    """Answer with a mebibyte, eight of them where that is asked for."""
    connection.reserve().send(*[ANSWER] * (8 if data[0] == ord("8") else 1))


def pinned(server: Server) -> int:
    return sum(one.stalled_bytes for one in server.listener.connections)


async def deaf(server: Server, asks: bytes, count: int = 60) -> None:
    """Ask for more than the system's buffers take, and read none of it."""
    peer = await server.connect()
    peer.reader._transport.pause_reading()  # type: ignore[attr-defined]
    before = pinned(server)
    for _ in range(count):
        peer.send(frame(asks))
    await server.until(lambda: pinned(server) > before)


def test_answers_that_are_not_taken_are_counted_until_the_connection_is_gone(loop: str) -> None:
    async def scenario() -> None:
        async with serving(large, **LIMITS) as server:
            await deaf(server, b"1")
            (connection,) = server.listener.connections
            assert 0 < connection.stalled_bytes < 2 * MIB, "one answer beyond the bound at most"
            await server.sweep(1)
            assert server.stats.unfinished_bytes >= connection.stalled_bytes
            assert connection.answer_bytes_max < LIMITS["unfinished_bytes_max"] // SHARE
            connection.abort()
            await server.until(lambda: not server.listener.connections)
            await server.sweep(1)
            assert server.stats.unfinished_bytes == 0

    run(scenario(), loop)


def test_when_memory_is_nearly_used_up_the_one_with_most_goes(loop: str) -> None:
    async def scenario() -> None:
        limits = LIMITS | {"unfinished_bytes_max": 4 * MIB}
        async with serving(large, **limits) as server:
            for asks in (b"1", b"8"):
                await deaf(server, asks)
            assert pinned(server) * 8 > limits["unfinished_bytes_max"] * 7
            most = max(server.listener.connections, key=lambda one: one.stalled_bytes)
            await server.sweep(4)
            assert server.stats.closed[CloseKind.MEMORY] >= 1
            assert most.is_closed

    run(scenario(), loop)


def test_memory_is_given_back_to_the_system_when_much_was_let_go(loop: str) -> None:
    async def scenario() -> None:
        async with serving(large) as server:
            relieved: list[bool] = []
            server.listener.on_relief = lambda: relieved.append(True)
            peer = await server.connect()
            peer.send(frame(b"1"))
            await peer.answer()
            (connection,) = server.listener.connections
            connection.hold(64 * MIB)
            await server.sweep(1)
            assert not relieved
            connection.go_on(64 * MIB)
            await server.sweep(2)
            assert relieved == [True]

    run(scenario(), loop)


def test_an_answer_may_take_a_share_of_what_is_free(loop: str) -> None:
    budget = FrameBudget(64 * MIB)
    assert budget.answer_bytes_max == 16 * MIB
    budget.used = 60 * MIB
    assert budget.answer_bytes_max == MIB
    budget.used = 64 * MIB
    assert budget.answer_bytes_max == ANSWER_BYTES_MIN
