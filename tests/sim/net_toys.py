"""Small protocols and programs for the tests of the simulated network."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from simulator.kernel.loop import SimLoop
from simulator.kernel.process import Main, Process
from simulator.kernel.simulation import Outcome, Simulation, simulate

PORT = 9


def loop_of(process: Process) -> SimLoop:
    """The loop that runs the process, with all that the simulation adds to it."""
    assert isinstance(process.loop, SimLoop)
    return process.loop


class Recorder(asyncio.Protocol):
    """Notes what its transport tells, with virtual times."""

    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        self.transport: asyncio.Transport
        self.chunks: list[bytes] = []
        self.times: list[float] = []
        self.flow: list[str] = []
        self.has_end = False
        self.lost: list[tuple[float, Exception | None]] = []

    @property
    def received(self) -> bytes:
        return b"".join(self.chunks)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.chunks.append(data)
        self.times.append(self.loop.time())

    def eof_received(self) -> bool:
        self.has_end = True
        return False

    def pause_writing(self) -> None:
        self.flow.append("pause")

    def resume_writing(self) -> None:
        self.flow.append("resume")

    def connection_lost(self, exc: Exception | None) -> None:
        self.lost.append((self.loop.time(), exc))


class BufferedRecorder(asyncio.BufferedProtocol):
    """The same into lent memory of `size` bytes."""

    def __init__(self, size: int) -> None:
        self.memory = bytearray(size)
        self.received = b""
        self.reads: list[int] = []

    def get_buffer(self, sizehint: int) -> bytearray:
        return self.memory

    def buffer_updated(self, nbytes: int) -> None:
        self.reads.append(nbytes)
        self.received += self.memory[:nbytes]

    def eof_received(self) -> bool:
        return False


class Pair:
    """Two processes on hosts a and b, and one connection from a to b."""

    def __init__(self, simulation: Simulation) -> None:
        self.simulation = simulation
        self.network = simulation.network
        self.server: Process
        self.client: Process
        self.here: Recorder
        self.there: Recorder

    async def connect(self, make: Callable[[], asyncio.BaseProtocol] = Recorder) -> None:
        """`make` makes the protocol of b's end."""
        accepted: list[asyncio.BaseProtocol] = []
        connected: list[Recorder] = []

        def make_and_keep() -> asyncio.BaseProtocol:
            accepted.append(make())
            return accepted[-1]

        async def serve(process: Process) -> None:
            await loop_of(process).create_server(make_and_keep, "b", PORT)
            await process.stopping.wait()

        async def call(process: Process) -> None:
            await asyncio.sleep(0.5)
            _, protocol = await loop_of(process).create_connection(Recorder, "b", PORT)
            connected.append(protocol)
            await process.stopping.wait()

        self.server = self.simulation.start("b", "server", serve)
        self.client = self.simulation.start("a", "client", call)
        await asyncio.sleep(1)
        (self.here,) = connected
        (there,) = accepted
        self.there = there  # type: ignore[assignment]  # a test that brings another knows it

    def send(self, data: bytes) -> None:
        """Write as the client."""
        self.client.call_soon(self.here.transport.write, data)

    def answer(self, data: bytes) -> None:
        """Write as the server."""
        self.server.call_soon(self.there.transport.write, data)


def echo_server(port: int = PORT) -> Main:
    """Return a program that answers each line with itself."""

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while line := await reader.readline():
                writer.write(line)
                await writer.drain()
        except OSError:
            return
        finally:
            writer.close()

    async def main(process: Process) -> None:
        await asyncio.start_server(handle, process.host, port)
        await process.stopping.wait()

    return main


def run_pair(
    check: Callable[[Pair], Coroutine[Any, Any, object]],
    seed: int = 1,
    make: Callable[[], asyncio.BaseProtocol] = Recorder,
) -> Outcome[object]:
    """Connect two hosts, `make` being the protocol of the second, then run `check`."""

    async def story(simulation: Simulation) -> object:
        pair = Pair(simulation)
        await pair.connect(make)
        return await check(pair)

    outcome = simulate(seed, story)
    assert not outcome.failures
    return outcome


def in_a_process(main: Main, host: str = "a") -> None:
    """Run one program on a host; hosts a, b and c exist, on b echoes a server."""

    async def story(simulation: Simulation) -> None:
        simulation.network.add_host("c", "10.0.0.3")
        simulation.start("b", "echo", echo_server())
        await asyncio.sleep(0.1)
        process = simulation.start(host, "caller", main)
        await process.ended
        assert process.exit_code == 0, simulation.failures

    simulate(1, story)
