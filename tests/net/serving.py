"""A listener on a free port, for tests that talk to it over real loopback sockets."""

import asyncio
import struct
import sys
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import uvloop

from penstock.net.connection import Connection, ReplySlot
from penstock.net.context import OnRun, one_by_one
from penstock.net.limits import NetLimits
from penstock.net.listener import Endpoint, Listener

DEADLINE_SECONDS = 120.0
OPEN_LIMITS = NetLimits(connections_per_address_max=0, connection_rate_per_address_max=0)
LOOPS: dict[str, Callable[[], asyncio.AbstractEventLoop]] = {"uvloop": uvloop.new_event_loop}
# Before 3.12.9 and 3.13.2 asyncio's writelines() does not say that the buffer is full
# (python/cpython#127655), so nothing that pauses then works on it. Nodes run on uvloop.
if not (3, 12) <= sys.version_info < (3, 12, 9) and not (3, 13) <= sys.version_info < (3, 13, 2):
    LOOPS["asyncio"] = asyncio.new_event_loop


def run(scenario: Coroutine[Any, Any, None], loop: str = "uvloop") -> None:
    """Run a scenario to its end, at most until the deadline."""

    async def bounded() -> None:
        async with asyncio.timeout(DEADLINE_SECONDS):
            await scenario

    with asyncio.Runner(loop_factory=LOOPS[loop]) as runner:
        runner.run(bounded())


def frame(payload: bytes) -> bytes:
    """A frame as on the wire; payloads are padded to the least size of a request."""
    padded = payload.ljust(10, b".")
    return struct.pack(">i", len(padded)) + padded


class Peer:
    """The client's end of a connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    def send(self, data: bytes) -> None:
        self.writer.write(data)

    async def answer(self) -> bytes:
        (size,) = struct.unpack(">i", await self.reader.readexactly(4))
        return (await self.reader.readexactly(size)).rstrip(b".")

    async def is_ended(self) -> bool:
        """Wait until the other side has closed."""
        try:
            return await self.reader.read(1) == b""
        except ConnectionResetError:
            return True


class Recorder:
    """A handler that keeps frames and their slots, for tests that answer by hand."""

    def __init__(self) -> None:
        self.frames: list[bytes] = []
        self.slots: list[ReplySlot] = []
        self.connections: list[Connection] = []
        self._arrived = asyncio.Event()

    def on_frame(self, connection: Connection, data: memoryview) -> None:
        self.frames.append(bytes(data).rstrip(b"."))
        self.slots.append(connection.reserve())
        self.connections.append(connection)
        self._arrived.set()

    async def wait_for(self, count: int) -> None:
        while len(self.frames) < count:
            self._arrived.clear()
            await self._arrived.wait()

    def answer(self, number: int) -> None:
        self.slots[number].send(frame(b"re:" + self.frames[number]))


def echo(connection: Connection, data: memoryview) -> None:
    """Answer each frame at once with itself."""
    connection.reserve().send(frame(bytes(data)))


class Server:
    """A started listener and the way to connect to it."""

    def __init__(self, listener: Listener) -> None:
        self.listener = listener
        self.stats = listener.stats
        self._peers: list[Peer] = []

    async def connect(self) -> Peer:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.listener.port)
        self._peers.append(Peer(reader, writer))
        return self._peers[-1]

    async def sweep(self, ticks: int) -> None:
        for _ in range(ticks):
            self.listener.sweep()
        await asyncio.sleep(0)

    def close_peers(self) -> None:
        for peer in self._peers:
            peer.writer.close()


@asynccontextmanager
async def serving(
    on_frame: Callable[[Connection, memoryview], None],
    *,
    on_run: OnRun = one_by_one,
    **limits: Any,
) -> AsyncIterator[Server]:
    """Serve `on_frame` with open limits, changed by `limits`."""
    limits_now = replace(OPEN_LIMITS, **limits)
    listener = Listener([Endpoint("127.0.0.1", 0)], limits_now, on_frame, on_run=on_run)
    listener.measure_by(lambda: 0.0)  # however slow the machine is, turns are as long as handlers
    listener.start()
    server = Server(listener)
    try:
        yield server
    finally:
        server.close_peers()
        await listener.stop(grace_seconds=0.2)
