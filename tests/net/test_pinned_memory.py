"""Answers that peers do not take count as pinned memory, as parts of frames do; who has most goes
first.
"""

import struct
from pathlib import Path
from typing import Any

import pytest

from harness.waiting import until
from penstock.net import listener
from penstock.net.admission import doorkeeper
from penstock.net.answers.replies import ReplySlot
from penstock.net.connection import Connection
from penstock.net.errors import CloseKind
from penstock.net.memory_share import (
    SET_BYTES_MIN,
    SHARE_BYTES_MAX,
    SHARE_BYTES_MIN,
    machine_bytes,
    share_of,
)
from penstock.net.receive import ANSWER_BYTES_MIN, SHARE, SPARE_BYTES, FrameBudget
from tests.net.serving import LOOPS, Server, echo, frame, run, serving

pytestmark = pytest.mark.parametrize("loop", LOOPS)
MIB = 1 << 20
ANSWER = frame(bytes(MIB - 4))
LIMITS: dict[str, Any] = {"unfinished_bytes_max": 16 * MIB, "queued_bytes_max": 64 << 10}


def large(connection: Connection, data: memoryview) -> None:
    """Answer with a mebibyte, eight of them where that is asked for."""
    connection.reserve().send(*[ANSWER] * (8 if data[0] == ord("8") else 1))


def pinned(server: Server) -> int:
    return sum(connection.stalled_bytes for connection in server.listener.connections)


async def deaf(server: Server, asks: bytes, count: int = 60) -> None:
    """Ask for more than the system's buffers take, and read none of it."""
    peer = await server.connect()
    peer.reader._transport.pause_reading()  # type: ignore[attr-defined]
    before = pinned(server)
    for _ in range(count):
        peer.send(frame(asks))
    await until(lambda: pinned(server) > before)


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
            await until(lambda: not server.listener.connections)
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


def test_what_is_pinned_elsewhere_makes_answers_smaller_until_it_is_given_back(loop: str) -> None:
    async def scenario() -> None:
        async with serving(large, **LIMITS) as server:
            peer = await server.connect()
            peer.send(frame(b"1"))
            await until(lambda: bool(server.listener.connections))
            (connection,) = server.listener.connections
            server.listener.pinned_elsewhere = lambda: 4 * MIB
            server.listener.sweep()
            assert connection.answer_bytes_max == 12 * MIB // SHARE
            assert server.stats.unfinished_bytes == 4 * MIB
            server.listener.pinned_elsewhere = lambda: 0
            server.listener.sweep()
            assert connection.answer_bytes_max == 16 * MIB // SHARE

    run(scenario(), loop)


def test_half_of_the_budget_is_left_whatever_is_pinned_elsewhere(loop: str) -> None:
    budget = FrameBudget(16 * MIB)
    budget.count_elsewhere(100 * MIB)
    assert budget.used == 8 * MIB
    budget.used += 8 * MIB
    woken = []
    budget.wait(lambda: woken.append(1))
    budget.count_elsewhere(0)
    assert woken, "who waited for memory is told"
    assert budget.used == 8 * MIB


def test_the_share_is_of_the_control_group_where_it_has_less(loop: str, tmp_path: Path) -> None:
    limit, none = tmp_path / "limit", tmp_path / "none"
    limit.write_text(f"{100 * MIB}\n")
    none.write_text("max\n")
    whole = machine_bytes([str(none), str(tmp_path / "missing")])
    assert machine_bytes([str(none), str(limit)]) == 100 * MIB < whole
    assert share_of(100 * MIB) == SHARE_BYTES_MIN
    assert share_of(2048 * MIB) == 256 * MIB
    assert share_of(1 << 50) == SHARE_BYTES_MAX


def test_the_share_of_a_machine_is_divided_among_its_nodes(loop: str) -> None:
    assert share_of(2048 * MIB, nodes=4) == 64 * MIB
    assert share_of(100 * MIB, nodes=4) == SHARE_BYTES_MIN // 4
    assert share_of(100 * MIB, nodes=64) == SET_BYTES_MIN
    assert share_of(1 << 50, nodes=4) == SHARE_BYTES_MAX


def test_answers_that_come_once_nothing_is_taken_any_more_are_counted_too(loop: str) -> None:
    slots: list[ReplySlot] = []

    async def scenario() -> None:
        async with serving(lambda c, _: slots.append(c.reserve()), **LIMITS) as server:
            peer = await server.connect()
            peer.reader._transport.pause_reading()  # type: ignore[attr-defined]
            for _ in range(2):
                peer.send(frame(b"1"))
            await until(lambda: len(slots) == 2)
            slots[0].send(*[ANSWER] * 8)
            await until(lambda: pinned(server) > 0)
            before = pinned(server)
            slots[1].send(*[ANSWER] * 4)
            assert pinned(server) == before + 4 * len(ANSWER)
            await server.sweep(1)
            assert server.stats.unfinished_bytes == pinned(server)
            server.listener.connections[0].abort()
            await until(lambda: not server.listener.connections)
            await server.sweep(1)
            assert server.stats.unfinished_bytes == 0

    run(scenario(), loop)


def test_a_normal_frame_does_not_wait_for_large_ones_that_never_end(
    loop: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listener, "_SWEEP_SECONDS", 1000)  # at once, not at the next look

    async def scenario() -> None:
        limit = 8 * SPARE_BYTES
        async with serving(echo, unfinished_bytes_max=limit) as server:
            wire = frame(b"x" * (900 << 10) + b"!")
            held = [await server.connect() for _ in range(2)]
            for peer in held:
                peer.send(struct.pack(">i", 4 * SPARE_BYTES) + bytes(4 * SPARE_BYTES - 100))
            await until(lambda: server.stats.bytes_in == 2 * (4 * SPARE_BYTES - 96))
            good, pauses = await server.connect(), server.stats.reading_pauses
            good.send(wire[: 500 << 10])
            stats = server.stats
            await until(lambda: stats.closed or stats.reading_pauses > pauses)
            assert server.stats.closed == {CloseKind.MEMORY: 1}
            good.send(wire[500 << 10 :])
            assert len(await good.answer()) == len(wire) - 4
            assert server.stats.connections == 2, "one is enough"

    run(scenario(), loop)


def test_memory_is_given_back_when_many_connections_have_gone(
    loop: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(doorkeeper, "CONNECTIONS_GONE", 3)

    async def scenario() -> None:
        async with serving(echo, first_frame_seconds_max=0) as server:
            relieved: list[int] = []
            server.listener.on_relief = lambda: relieved.append(server.stats.connections)

            async def gone(count: int) -> None:
                before = server.stats.connections
                for one in server.listener.connections[:count]:
                    one.abort()
                await until(lambda: server.stats.connections == before - count)
                await server.sweep(2)

            for _ in range(4):
                await server.connect()
            await until(lambda: server.stats.connections == 4)
            await server.sweep(1)
            await gone(2)
            assert not relieved
            await gone(1)
            assert relieved == [1], "once"
            for _ in range(3):
                await server.connect()
            await until(lambda: server.stats.connections == 4)
            await server.sweep(1)
            await gone(3)
            assert relieved == [1, 1]

    run(scenario(), loop)
