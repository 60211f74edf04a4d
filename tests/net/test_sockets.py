"""Whether the other end of a connection has hung up is known before its bytes are read."""

import asyncio
import socket
from collections.abc import Callable
from typing import cast

import pytest
import uvloop

from harness.waiting import until
from penstock.net.sockets import has_hung_up

NEW_LOOPS: list[Callable[[], asyncio.AbstractEventLoop]] = [
    uvloop.new_event_loop,
    asyncio.new_event_loop,
]


class _Paused(asyncio.Protocol):
    """Reads nothing, so only the system knows what the peer does."""

    transport: asyncio.Transport

    def __init__(self) -> None:
        self.accepted: asyncio.Future[socket.socket] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)
        self.transport.pause_reading()
        self.accepted.set_result(transport.get_extra_info("socket"))


async def _seen() -> tuple[bool, bool]:
    """Return what is seen of a connection while it is open, and once its peer has closed it."""
    loop = asyncio.get_running_loop()
    paused = _Paused()
    server = await loop.create_server(lambda: paused, "127.0.0.1", 0)
    client = socket.create_connection(server.sockets[0].getsockname())
    accepted = await paused.accepted
    before = has_hung_up(accepted)
    client.sendall(b"unread")
    client.close()
    await until(lambda: has_hung_up(accepted))
    server.close()
    paused.transport.abort()
    return before, has_hung_up(accepted)


@pytest.mark.parametrize("new_loop", NEW_LOOPS)
def test_a_peer_that_has_closed_is_noticed_behind_bytes_that_nobody_has_read(
    new_loop: Callable[[], asyncio.AbstractEventLoop],
) -> None:
    with asyncio.Runner(loop_factory=new_loop) as runner:
        assert runner.run(_seen()) == (False, True)


def test_without_a_socket_of_the_system_nobody_has_hung_up() -> None:
    assert not has_hung_up(None)
