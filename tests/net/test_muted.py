"""A muted connection hands over no frames for a while; others go on, and answers still leave."""

import asyncio

import pytest

from harness.waiting import until
from penstock.net.answers.muted import MutedConnections
from penstock.net.connection import Connection
from penstock.net.errors import CloseKind, RefuseKind
from penstock.net.receive import SPARE_BYTES
from tests.net.serving import LOOPS, Recorder, frame, run, serving

pytestmark = pytest.mark.parametrize("loop", LOOPS)
SHORT_MS = 1
LONG_MS = 3_600_000


def muting(handler: Recorder, delay_ms: int | None) -> object:
    def on_frame(connection: Connection, data: memoryview) -> None:
        handler.on_frame(connection, data)
        if bytes(data).startswith(b"much"):
            connection.mute(delay_ms)

    return on_frame


def test_a_muted_connection_is_answered_and_others_go_on(loop: str) -> None:
    async def scenario() -> None:
        handler = Recorder()
        async with serving(muting(handler, LONG_MS)) as server:  # type: ignore[arg-type]
            muted, other = await server.connect(), await server.connect()
            muted.send(frame(b"much") + frame(b"behind"))
            await handler.wait_for(1)
            other.send(frame(b"other"))
            await handler.wait_for(2)
            assert handler.frames == [b"much", b"other"]
            handler.answer(0)
            handler.answer(1)
            assert await muted.answer() == b"re:much"
            assert await other.answer() == b"re:other"
            assert handler.frames == [b"much", b"other"]

    run(scenario(), loop)


def test_after_its_time_it_goes_on_with_what_had_come(loop: str) -> None:
    async def scenario() -> None:
        handler = Recorder()
        async with serving(muting(handler, SHORT_MS)) as server:  # type: ignore[arg-type]
            peer = await server.connect()
            peer.send(frame(b"much") + frame(b"next"))
            await handler.wait_for(2)
            assert handler.frames == [b"much", b"next"]
            assert not len(handler.connections[0]._context.muted)

    run(scenario(), loop)


def test_who_is_muted_for_no_time_may_be_muted_again_in_the_same_turn(loop: str) -> None:
    """uvloop's handle for what is due at once tells no time: asked for it, the node stopped."""

    async def scenario() -> None:
        muted, woken = MutedConnections(asyncio.get_running_loop()), list[int]()
        for delay_ms in (0, 0, SHORT_MS, 0):
            muted.wake_after("connection", delay_ms, lambda: woken.append(1))
        assert len(muted) == 1
        await until(lambda: not len(muted))
        assert woken == [1]

    run(scenario(), loop)


def test_muted_without_a_time_it_waits_for_one_and_the_longest_counts(loop: str) -> None:
    async def scenario() -> None:
        handler = Recorder()
        async with serving(muting(handler, None)) as server:  # type: ignore[arg-type]
            peer = await server.connect()
            peer.send(frame(b"much") + frame(b"next"))
            await handler.wait_for(1)
            connection = handler.connections[0]
            assert not len(connection._context.muted)
            connection.mute(LONG_MS)
            connection.mute(0)
            await server.sweep(1)
            assert handler.frames == [b"much"]
            assert len(connection._context.muted) == 1
            connection._unmute()
            await handler.wait_for(2)

    run(scenario(), loop)


def test_a_connection_that_ends_takes_its_timer_along(loop: str) -> None:
    async def scenario() -> None:
        handler = Recorder()
        async with serving(muting(handler, LONG_MS)) as server:  # type: ignore[arg-type]
            peer = await server.connect()
            peer.send(frame(b"much"))
            await handler.wait_for(1)
            connection = handler.connections[0]
            muted = connection._context.muted
            assert len(muted) == 1
            connection.abort()
            await until(lambda: not len(muted))
            connection.mute(LONG_MS)
            assert not len(muted)

    run(scenario(), loop)


def test_a_frame_that_waited_in_a_muted_connection_is_not_too_slow(loop: str) -> None:
    async def scenario() -> None:
        handler = Recorder()
        async with serving(muting(handler, LONG_MS)) as server:  # type: ignore[arg-type]
            peer = await server.connect()
            peer.send(frame(b"much") + frame(b"half")[:9])
            await handler.wait_for(1)
            connection = handler.connections[0]
            await server.sweep(60)
            connection._unmute()
            await server.sweep(1)
            assert not connection.is_closed
            peer.send(frame(b"half")[9:])
            await handler.wait_for(2)
            assert server.stats.closed[CloseKind.FRAME_TOO_SLOW] == 0

    run(scenario(), loop)


def test_an_address_above_its_quota_is_closed_after_a_delay_and_unread(loop: str) -> None:
    async def scenario() -> None:
        handler = Recorder()
        async with serving(handler.on_frame) as server:
            asked: list[str] = []

            def delay_ms(address: str) -> int:
                asked.append(address)
                return 5 if len(asked) > 1 else 0

            server.listener.quota_delay_ms = delay_ms
            first, second = await server.connect(), await server.connect()
            second.send(frame(b"unread"))
            assert await second.is_ended()
            first.send(frame(b"read"))
            await handler.wait_for(1)
            assert handler.frames == [b"read"]
            assert asked == ["127.0.0.1"] * 2
            assert server.stats.refused[RefuseKind.QUOTA] == 1
            assert not server.listener._delayed

    run(scenario(), loop)


def test_refused_connections_that_wait_are_closed_when_the_listener_stops(loop: str) -> None:
    async def scenario() -> None:
        async with serving(Recorder().on_frame) as server:
            server.listener.quota_delay_ms = lambda _: LONG_MS
            peer = await server.connect()
            await until(lambda: len(server.listener._delayed) == 1)
            await server.listener.stop()
            assert await peer.is_ended()

    run(scenario(), loop)


def test_what_muted_connections_hold_gives_way_when_others_wait_for_memory(loop: str) -> None:
    async def scenario() -> None:
        handler = Recorder()
        on_frame, limit = muting(handler, LONG_MS), 2 * SPARE_BYTES
        async with serving(on_frame, unfinished_bytes_max=limit) as server:  # type: ignore[arg-type]
            large = frame(b"x" * (900 << 10))
            for number in range(3):
                peer = await server.connect()
                peer.send(frame(b"much") + large[: 700 << 10])
                await handler.wait_for(number + 1)
            good = await server.connect()
            good.send(large)
            while len(handler.frames) < 4:
                await server.sweep(1)
                await asyncio.sleep(0)
            assert server.stats.closed[CloseKind.MEMORY] >= 1
            assert set(server.stats.closed) == {CloseKind.MEMORY}

    run(scenario(), loop)


def test_the_longest_of_several_times_counts(loop: str) -> None:
    async def scenario() -> None:
        events, woken = asyncio.get_running_loop(), asyncio.Event()
        muted = MutedConnections(events)
        muted.wake_after("c", LONG_MS, woken.set)
        muted.wake_after("c", 0, woken.set)
        await asyncio.sleep(0)
        assert (woken.is_set(), len(muted)) == (False, 1)
        muted.forget("c")
        muted.wake_after("c", 0, woken.set)
        await woken.wait()
        assert not len(muted)

    run(scenario(), loop)


def test_who_is_muted_again_by_its_wake_stays_muted(loop: str) -> None:
    async def scenario() -> None:
        muted, woken = MutedConnections(asyncio.get_running_loop()), asyncio.Event()

        def wake() -> None:
            muted.wake_after("c", LONG_MS, woken.set)
            woken.set()

        muted.wake_after("c", 0, wake)
        await woken.wait()
        await asyncio.sleep(0)
        assert "c" in muted
        muted.forget("c")
        assert not len(muted)

    run(scenario(), loop)


def test_times_do_not_add_up(loop: str) -> None:
    async def scenario() -> None:
        events = asyncio.get_running_loop()
        muted = MutedConnections(events)
        for more in range(3):
            muted.wake_after("c", LONG_MS + more, lambda: None)
        assert muted._timers["c"].due <= events.time() + LONG_MS / 1000 + 1
        muted.forget("c")

    run(scenario(), loop)
