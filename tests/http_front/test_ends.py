"""What a connection that has gone leaves behind: nothing that has to be searched."""

import asyncio
import gc

import pytest
from uvicorn.protocols.http.h11_impl import RequestResponseCycle

from harness.waiting import until
from penstock.http.limits import Limits
from penstock.http.protocol import BoundedProtocol
from tests.http_front.test_slow_clients import serving

OF_A_CONNECTION = (BoundedProtocol, RequestResponseCycle)
HEAD = b"POST /v1/topics/t/messages HTTP/1.1\r\nHost: x\r\n"
KNOWN = HEAD + b"Authorization: Bearer 0123456789abcdef01234567\r\n"
SAID = {
    "nothing": b"",
    "half a head": HEAD,
    "no token": HEAD + b"Content-Length: 2\r\n\r\n{}",
    "a bad body": KNOWN + b"Content-Length: 2\r\n\r\n{}",
    "half a body": KNOWN + b"Content-Length: 9000\r\n\r\n" + bytes(5_000),
}


def alive() -> int:
    return sum(type(one) in OF_A_CONNECTION for one in gc.get_objects())


@pytest.mark.parametrize("said", SAID.values(), ids=SAID.keys())
@pytest.mark.parametrize("is_reset", [False, True], ids=["ends", "reset"])
def test_a_connection_that_has_gone_is_free_at_once(said: bytes, is_reset: bool) -> None:
    async def scenario() -> None:
        async with serving(Limits()) as (front, connect):
            gc.collect()
            gc.disable()
            before = alive()
            reader, writer = await connect()
            writer.write(said)
            await until(lambda: len(front.places) == 1)
            await asyncio.sleep(0)
            (writer.transport.abort if is_reset else writer.close)()
            await until(lambda: not front.places)
            del reader, writer
            await until(lambda: alive() <= before)

    try:
        asyncio.run(scenario())
    finally:
        gc.enable()
