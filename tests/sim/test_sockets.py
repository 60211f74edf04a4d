"""Simulated connections when nothing goes wrong: what TCP and asyncio promise."""

import asyncio
import socket

import pytest

from penstock.base.errors import ConfigError
from penstock.net.sockets import has_hung_up
from simulator.kernel.listen_socket import BACKLOG_MAX
from simulator.kernel.process import Process
from simulator.kernel.simulation import Simulation, simulate
from simulator.kernel.sockets import WINDOW_BYTES
from tests.sim.net_toys import (
    PORT,
    BufferedRecorder,
    Pair,
    Recorder,
    in_a_process,
    loop_of,
    run_pair,
)


@pytest.mark.parametrize("seed", range(5))
def test_bytes_arrive_whole_and_in_order_but_in_other_pieces_than_they_were_written(
    seed: int,
) -> None:
    pieces = [bytes([number % 251]) * 1_000 for number in range(200)]

    async def check(pair: Pair) -> None:
        for number, piece in enumerate(pieces):
            pair.send(piece)
            await asyncio.sleep(0.01 if number < 100 else 0)
        await asyncio.sleep(2)
        assert pair.there.received == b"".join(pieces)
        sizes = [len(chunk) for chunk in pair.there.chunks]
        assert min(sizes) < 1_000, "some pieces were split"
        assert max(sizes) > 1_000, "some were joined"

    run_pair(check, seed)


def test_a_buffered_protocol_gets_no_more_than_its_memory_holds() -> None:
    data = bytes(range(256)) * 400

    async def check(pair: Pair) -> None:
        pair.send(data)
        await asyncio.sleep(2)
        there = pair.there
        assert isinstance(there, BufferedRecorder)
        assert there.received == data
        assert max(there.reads) == 1_000
        assert min(there.reads) < 1_000

    run_pair(check, make=lambda: BufferedRecorder(1_000))


def test_memory_may_change_once_it_was_written() -> None:
    async def check(pair: Pair) -> None:
        memory = bytearray(b"x" * 1_000_000)

        def write() -> None:
            pair.here.transport.write(memoryview(memory)[:3])
            pair.here.transport.writelines([memoryview(memory)[:2], memory])
            memory[:] = b"y" * len(memory)

        pair.client.call_soon(write)
        await asyncio.sleep(5)
        assert pair.there.received == b"x" * (3 + 2 + 1_000_000)

    run_pair(check)


def test_a_reader_that_pauses_stops_the_writer_and_bounds_what_is_under_way() -> None:
    async def check(pair: Pair) -> None:
        pair.server.call_soon(pair.there.transport.pause_reading)
        await asyncio.sleep(0.1)
        pair.send(bytes(4 << 20))
        await asyncio.sleep(10)
        here = pair.here
        assert here.flow == ["pause"]
        assert here.transport.get_write_buffer_size() == (4 << 20) - WINDOW_BYTES
        assert not pair.there.chunks
        pair.server.call_soon(pair.there.transport.resume_reading)
        await asyncio.sleep(10)
        assert here.flow == ["pause", "resume"]
        assert here.transport.get_write_buffer_size() == 0
        assert len(pair.there.received) == 4 << 20

    run_pair(check)


def test_a_connection_that_is_closed_still_sends_what_was_written() -> None:
    async def check(pair: Pair) -> None:
        pair.send(bytes(2 << 20))
        pair.client.call_soon(pair.here.transport.close)
        await asyncio.sleep(5)
        assert len(pair.there.received) == 2 << 20
        assert pair.there.has_end
        assert [error for _, error in pair.there.lost] == [None]
        assert [error for _, error in pair.here.lost] == [None]
        assert pair.network.connections() == 0

    run_pair(check)


def test_closing_with_unread_bytes_resets_the_connection() -> None:
    async def check(pair: Pair) -> None:
        pair.server.call_soon(pair.there.transport.pause_reading)
        pair.send(b"never read")
        await asyncio.sleep(1)
        pair.server.call_soon(pair.there.transport.close)
        await asyncio.sleep(1)
        assert isinstance(pair.here.lost[0][1], ConnectionResetError)

    run_pair(check)


def test_bytes_for_a_closed_connection_are_answered_by_a_reset() -> None:
    class HalfOpen(Recorder):
        def eof_received(self) -> bool:
            return True

    async def check(pair: Pair) -> None:
        pair.client.call_soon(pair.here.transport.close)
        await asyncio.sleep(1)
        assert not pair.there.lost
        pair.answer(b"are you there?")
        await asyncio.sleep(1)
        pair.answer(b"who has read the end finds out when it writes again")
        await asyncio.sleep(1)
        assert isinstance(pair.there.lost[0][1], ConnectionResetError)

    run_pair(check, make=HalfOpen)


def test_one_half_of_a_connection_can_end_before_the_other() -> None:
    class HalfOpen(Recorder):
        def eof_received(self) -> bool:
            self.has_end = True
            return True

    async def check(pair: Pair) -> None:
        pair.send(b"question")
        pair.client.call_soon(pair.here.transport.write_eof)
        await asyncio.sleep(1)
        assert pair.there.received == b"question"
        assert pair.there.has_end
        assert has_hung_up(pair.there.transport.get_extra_info("socket"))
        assert not has_hung_up(pair.here.transport.get_extra_info("socket"))
        pair.answer(b"answer")
        await asyncio.sleep(1)
        assert pair.here.received == b"answer"

    run_pair(check, make=HalfOpen)


def test_an_error_in_a_protocol_is_reported_and_ends_the_connection() -> None:
    class Failing(Recorder):
        def data_received(self, data: bytes) -> None:
            raise ValueError("can not read that")

    async def story(simulation: Simulation) -> None:
        pair = Pair(simulation)
        await pair.connect(Failing)
        pair.send(b"x")
        await asyncio.sleep(1)
        assert isinstance(pair.there.lost[0][1], ValueError)
        assert len(pair.here.lost) == 1

    (failure,) = simulate(1, story).failures
    assert failure.message.startswith("Fatal error: protocol.data_received")


def test_a_name_and_an_address_reach_the_host_that_they_were_given_to() -> None:
    async def main(process: Process) -> None:
        accepted: list[str] = []

        def accept() -> Recorder:
            accepted.append("one")
            return Recorder()

        await loop_of(process).create_server(accept, "10.0.0.3", PORT)
        for name in ("10.0.0.3", "localhost", "127.0.0.1", "c"):
            transport, _ = await loop_of(process).create_connection(Recorder, name, PORT)
            assert transport.get_extra_info("peername") == ("c", PORT)
            transport.close()
            (found,) = await loop_of(process).getaddrinfo(name, PORT)
            assert found[4] == (name, PORT)
        await asyncio.sleep(0.1)
        assert accepted == ["one"] * 4
        with pytest.raises(socket.gaierror, match="no host is called nowhere"):
            await loop_of(process).create_connection(Recorder, "nowhere", PORT)
        with pytest.raises(ConfigError, match="no address of this host"):
            loop_of(process).open_socket("b", PORT)

    in_a_process(main, host="c")


def test_a_port_without_a_listener_refuses() -> None:
    async def main(process: Process) -> None:
        began = loop_of(process).time()
        with pytest.raises(ConnectionRefusedError):
            await loop_of(process).create_connection(Recorder, "b", PORT + 1)
        assert loop_of(process).time() - began < 0.01
        loop_of(process).network.link("a", "b").is_refusing = True
        with pytest.raises(ConnectionRefusedError):
            await loop_of(process).create_connection(Recorder, "b", PORT)

    in_a_process(main)


def test_tls_and_made_sockets_are_refused_with_what_to_do() -> None:
    async def main(process: Process) -> None:
        with pytest.raises(ValueError, match="configure plaintext"):
            await loop_of(process).create_connection(Recorder, "b", PORT, ssl=True)
        with pytest.raises(ValueError, match="by host and port"):
            await loop_of(process).create_connection(Recorder, sock=object())

    in_a_process(main)


def test_free_ports_differ_and_a_closed_one_can_be_opened_again() -> None:
    async def main(process: Process) -> None:
        opened = [loop_of(process).open_socket("", 0) for _ in range(10)]
        ports = [each.getsockname()[1] for each in opened]
        assert len(set(ports)) == 10
        opened[3].close()
        assert loop_of(process).open_socket("", ports[3]).getsockname() == ("a", ports[3])
        with pytest.raises(OSError, match="choose another port"):
            await asyncio.start_server(print, "a", ports[3])

    in_a_process(main)


def test_connections_wait_to_be_accepted_up_to_a_bound() -> None:
    async def main(process: Process) -> None:
        loop = loop_of(process)
        opened = loop.open_socket("a", 77)
        with pytest.raises(BlockingIOError):
            opened.accept()
        connecting = [
            asyncio.create_task(loop.create_connection(Recorder, "a", 77))
            for _ in range(BACKLOG_MAX + 10)
        ]
        await asyncio.sleep(1)
        assert sum(task.done() for task in connecting) == BACKLOG_MAX
        accepted: list[object] = []
        loop.add_reader(opened.fileno(), lambda: accepted.append(opened.accept()[0]))
        await asyncio.sleep(5)
        assert len(accepted) == len(connecting)
        assert all(task.done() for task in connecting)
        assert loop.remove_reader(opened.fileno())
        assert not loop.remove_reader(opened.fileno())
        with pytest.raises(ValueError, match="no listening socket"):
            loop.add_reader(0, print)

    in_a_process(main)
