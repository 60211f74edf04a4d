"""A connection that waits for work on one of its frames: order, memory, and peers that go."""

import asyncio

import pytest

from harness.waiting import until
from penstock.net.connection import Connection
from tests.net.serving import LOOPS, Recorder, frame, run, serving

pytestmark = pytest.mark.parametrize("loop", LOOPS)


def test_a_held_connection_hands_over_nothing_until_it_goes_on(loop: str) -> None:
    async def scenario() -> None:
        handler = Recorder()

        def on_frame(connection: Connection, data: memoryview) -> None:
            handler.on_frame(connection, data)
            if bytes(data).startswith(b"long"):
                connection.hold(len(data))

        async with serving(on_frame) as server:
            peer = await server.connect()
            peer.send(frame(b"long") + frame(b"next"))
            await handler.wait_for(1)
            await asyncio.sleep(0)
            assert handler.frames == [b"long"]
            peer.send(frame(b"last"))
            await asyncio.sleep(0)
            handler.connections[0].go_on(10)
            await handler.wait_for(3)
            assert handler.frames == [b"long", b"next", b"last"]
            for number in range(3):
                handler.answer(number)
            assert [await peer.answer() for _ in range(3)] == [b"re:long", b"re:next", b"re:last"]

    run(scenario(), loop)


def test_what_a_held_connection_keeps_is_given_back_also_when_it_closes(loop: str) -> None:
    async def scenario() -> None:
        handler = Recorder()

        def on_frame(connection: Connection, data: memoryview) -> None:
            handler.on_frame(connection, data)
            connection.hold(1000)

        async with serving(on_frame) as server:
            peer = await server.connect()
            peer.send(frame(b"long"))
            await handler.wait_for(1)
            await server.sweep(1)
            assert server.stats.unfinished_bytes == 1000
            handler.connections[0].abort()
            handler.connections[0].go_on(1000)
            await server.sweep(1)
            assert server.stats.unfinished_bytes == 0

    run(scenario(), loop)


def test_a_held_connection_whose_peer_has_gone_is_known_as_gone(loop: str) -> None:
    async def scenario() -> None:
        handler = Recorder()

        def on_frame(connection: Connection, data: memoryview) -> None:
            handler.on_frame(connection, data)
            connection.hold(len(data))

        async with serving(on_frame) as server:
            peer = await server.connect()
            peer.send(frame(b"long") + frame(b"never read"))
            await handler.wait_for(1)
            assert not handler.connections[0].has_gone()
            peer.writer.close()
            await until(handler.connections[0].has_gone)

    run(scenario(), loop)
