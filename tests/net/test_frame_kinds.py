"""Frames that carry records may be large; all others are bounded by far less."""

import asyncio

import pytest

from penstock.net.errors import CloseKind
from tests.net.serving import LOOPS, Recorder, echo, frame, run, serving

pytestmark = pytest.mark.parametrize("loop", LOOPS)
SMALL = 64 << 10


@pytest.mark.parametrize("kind", [b"\x00\x03", b"\x00\x01", b"\x01\x00"])
def test_a_large_frame_without_records_ends_its_connection_before_it_has_arrived(
    loop: str, kind: bytes
) -> None:
    async def scenario() -> None:
        async with serving(echo, other_frame_bytes_max=SMALL) as server:
            peer = await server.connect()
            whole = frame(kind + bytes(SMALL))
            peer.send(whole[:5])
            await asyncio.sleep(0)
            peer.send(whole[5:200])
            assert await peer.is_ended()
            assert server.stats.closed == {CloseKind.FRAME_TOO_LARGE: 1}
            assert server.stats.unfinished_bytes == 0

    run(scenario(), loop)


def test_a_large_frame_with_records_is_taken(loop: str) -> None:
    async def scenario() -> None:
        handler = Recorder()
        async with serving(handler.on_frame, other_frame_bytes_max=SMALL) as server:
            peer = await server.connect()
            peer.send(frame(bytes(2) + b"x" * 2 * SMALL))
            await handler.wait_for(1)
            assert len(handler.frames[0]) == 2 + 2 * SMALL

    run(scenario(), loop)
