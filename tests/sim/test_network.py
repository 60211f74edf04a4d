"""The simulated network: what TCP promises, and what goes wrong."""

import asyncio
import errno
import socket
from collections.abc import Callable
from typing import TypeVar

import pytest

from penstock.base.errors import ConfigError
from penstock.sim.process import Process
from penstock.sim.simulation import Outcome, Simulation, simulate
from penstock.sim.sockets import BACKLOG_MAX, GIVE_UP_S, WINDOW_BYTES
from tests.sim.net_toys import PORT, BufferedRecorder, Pair, Recorder, echo_server

T = TypeVar("T")


def run_pair(
    check: Callable[[Pair], "asyncio.Future[T] | object"],
    seed: int = 1,
    make: Callable[[], asyncio.BaseProtocol] = Recorder,
) -> Outcome[object]:
    """Connect two hosts, then run `check`, a coroutine function."""

    async def story(simulation: Simulation) -> object:
        pair = Pair(simulation)
        await pair.connect(make)
        return await check(pair)  # type: ignore[misc]

    outcome = simulate(seed, story)
    assert not outcome.failures
    return outcome


def in_a_process(main: Callable[[Process], object], host: str = "a") -> Outcome[None]:
    """Run one program on a host; hosts a, b and c exist, on b echoes a server."""

    async def story(simulation: Simulation) -> None:
        simulation.network.add_host("c", "10.0.0.3")
        simulation.start("b", "echo", echo_server())
        await asyncio.sleep(0.1)
        process = simulation.start(host, "caller", main)  # type: ignore[arg-type]
        await process.ended
        assert process.exit_code == 0, simulation.failures

    return simulate(1, story)


# --- what TCP promises -------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(5))
def test_bytes_arrive_whole_and_in_order_but_in_other_pieces_than_they_were_written(
    seed: int,
) -> None:
    sent = [bytes([number % 251]) * (number * 7 % 900 + 1) for number in range(400)]

    async def check(pair: Pair) -> None:
        for piece in sent:
            pair.send(piece)
            await asyncio.sleep(0.000_1)
        await asyncio.sleep(2)
        assert pair.there.received == b"".join(sent)
        assert pair.there.chunks != sent
        assert any(len(chunk) < 100 for chunk in pair.there.chunks)

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

        await process.loop.create_server(accept, "10.0.0.3", PORT)
        for name in ("10.0.0.3", "localhost", "127.0.0.1", "c"):
            transport, _ = await process.loop.create_connection(Recorder, name, PORT)
            assert transport.get_extra_info("peername") == ("c", PORT)
            transport.close()
            (found,) = await process.loop.getaddrinfo(name, PORT)
            assert found[4] == (name, PORT)
        await asyncio.sleep(0.1)
        assert accepted == ["one"] * 4
        with pytest.raises(socket.gaierror, match="no host is called nowhere"):
            await process.loop.create_connection(Recorder, "nowhere", PORT)
        with pytest.raises(ConfigError, match="no address of this host"):
            process.loop.open_socket("b", PORT)

    in_a_process(main, host="c")


def test_a_port_without_a_listener_refuses() -> None:
    async def main(process: Process) -> None:
        began = process.loop.time()
        with pytest.raises(ConnectionRefusedError):
            await process.loop.create_connection(Recorder, "b", PORT + 1)
        assert process.loop.time() - began < 0.01
        process.loop.network.link("a", "b").is_refusing = True
        with pytest.raises(ConnectionRefusedError):
            await process.loop.create_connection(Recorder, "b", PORT)

    in_a_process(main)


def test_tls_and_made_sockets_are_refused_with_what_to_do() -> None:
    async def main(process: Process) -> None:
        with pytest.raises(ValueError, match="configure plaintext"):
            await process.loop.create_connection(Recorder, "b", PORT, ssl=True)
        with pytest.raises(ValueError, match="by host and port"):
            await process.loop.create_connection(Recorder, sock=object())

    in_a_process(main)


def test_free_ports_differ_and_a_closed_one_can_be_opened_again() -> None:
    async def main(process: Process) -> None:
        opened = [process.loop.open_socket("", 0) for _ in range(10)]
        ports = [each.getsockname()[1] for each in opened]
        assert len(set(ports)) == 10
        opened[3].close()
        assert process.loop.open_socket("", ports[3]).getsockname() == ("a", ports[3])

    in_a_process(main)


def test_connections_wait_to_be_accepted_up_to_a_bound() -> None:
    async def main(process: Process) -> None:
        loop = process.loop
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


# --- what goes wrong ---------------------------------------------------------------------------


def test_latency_is_that_of_the_link_and_differs_by_direction() -> None:
    async def check(pair: Pair) -> None:
        pair.network.link("a", "b").latency_s = (0.2, 0.3)
        at = pair.here.loop.time()
        pair.send(b"slow")
        pair.answer(b"fast")
        await asyncio.sleep(1)
        assert 0.2 <= pair.there.times[0] - at <= 0.301
        assert pair.here.times[0] - at <= 0.01

    run_pair(check)


def test_lost_segments_come_late_and_hold_up_what_follows() -> None:
    async def check(pair: Pair) -> None:
        pair.network.set_links(["a"], ["b"], loss=0.3)
        sent = [b"%d," % number for number in range(200)]
        at = pair.here.loop.time()
        for piece in sent:
            pair.send(piece)
        await asyncio.sleep(60)
        assert pair.there.received == b"".join(sent)
        assert max(pair.there.times) - at > 0.2

    run_pair(check)


def test_connections_overtake_each_other() -> None:
    async def main(process: Process) -> None:
        order: list[int] = []

        async def ask(number: int) -> None:
            reader, writer = await asyncio.open_connection("b", PORT)
            writer.write(b"%d\n" % number)
            assert await reader.readline() == b"%d\n" % number
            order.append(number)
            writer.close()
            await writer.wait_closed()

        await asyncio.gather(*map(ask, range(50)))
        assert order != sorted(order)
        assert sorted(order) == list(range(50))

    in_a_process(main)


def test_a_cut_holds_bytes_back_until_it_is_mended() -> None:
    async def check(pair: Pair) -> None:
        pair.network.cut("a", "b")
        pair.send(b"held")
        pair.answer(b"held too")
        await asyncio.sleep(10)
        assert (pair.here.received, pair.there.received) == (b"", b"")
        pair.network.mend("a", "b")
        await asyncio.sleep(3)
        assert (pair.here.received, pair.there.received) == (b"held too", b"held")
        assert not pair.here.lost
        assert not pair.there.lost

    run_pair(check)


def test_a_cut_in_one_direction_leaves_the_other_open() -> None:
    async def check(pair: Pair) -> None:
        pair.network.cut("a", "b", both_ways=False)
        pair.send(b"held")
        pair.answer(b"arrives")
        await asyncio.sleep(10)
        assert (pair.here.received, pair.there.received) == (b"arrives", b"")
        pair.network.heal()
        await asyncio.sleep(3)
        assert pair.there.received == b"held"

    run_pair(check)


def test_who_gets_no_acknowledgement_gives_the_connection_up_and_the_other_end_hears_nothing() -> (
    None
):
    async def check(pair: Pair) -> None:
        at = pair.here.loop.time()
        pair.network.cut("a", "b", both_ways=False)
        pair.answer(b"arrives, but nobody can say so")
        await asyncio.sleep(40)
        ((lost_at, error),) = pair.there.lost
        assert isinstance(error, TimeoutError)
        assert GIVE_UP_S <= lost_at - at <= GIVE_UP_S + 3
        assert not pair.here.lost
        pair.network.heal()
        pair.send(b"anybody there?")
        await asyncio.sleep(3)
        assert isinstance(pair.here.lost[0][1], ConnectionResetError)

    run_pair(check)


def test_a_program_that_sets_the_user_timeout_waits_that_long() -> None:
    async def check(pair: Pair) -> None:
        opened = pair.here.transport.get_extra_info("socket")
        opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, 3_000)
        at = pair.here.loop.time()
        pair.network.cut("a", "b")
        pair.send(b"x")
        await asyncio.sleep(40)
        assert 3 <= pair.here.lost[0][0] - at <= 3.1

    run_pair(check)


def test_keepalive_finds_a_dead_host_without_anything_being_sent() -> None:
    async def check(pair: Pair) -> None:
        opened = pair.here.transport.get_extra_info("socket")
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 10)
        opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, 20_000)
        await asyncio.sleep(60)
        assert not pair.here.lost
        at = pair.here.loop.time()
        pair.simulation.power_off("b")
        await asyncio.sleep(60)
        ((lost_at, error),) = pair.here.lost
        assert isinstance(error, TimeoutError)
        assert 10 <= lost_at - at <= 31

    run_pair(check)


def test_an_idle_connection_to_a_dead_host_looks_alive() -> None:
    async def check(pair: Pair) -> None:
        pair.simulation.power_off("b")
        await asyncio.sleep(3_000)
        assert not pair.here.lost

    run_pair(check)


def test_a_host_that_comes_back_resets_what_it_does_not_know() -> None:
    async def check(pair: Pair) -> None:
        pair.simulation.power_off("b")
        pair.send(b"x")
        await asyncio.sleep(5)
        assert not pair.here.lost
        pair.simulation.start("b", "echo", echo_server())
        await asyncio.sleep(3)
        assert isinstance(pair.here.lost[0][1], ConnectionResetError)

    run_pair(check)


def test_connecting_over_a_cut_waits_and_succeeds_once_it_is_mended() -> None:
    async def main(process: Process) -> None:
        network = process.loop.network
        for source, target in (("a", "b"), ("b", "a")):
            network.cut(source, target, both_ways=False)
            connecting = asyncio.create_task(process.loop.create_connection(Recorder, "b", PORT))
            await asyncio.sleep(5)
            assert not connecting.done()
            network.heal()
            await asyncio.sleep(5)
            assert connecting.done()

    in_a_process(main)


def test_connecting_to_a_host_that_is_off_ends_after_a_minute_or_when_the_caller_gives_up() -> None:
    async def main(process: Process) -> None:
        loop = process.loop
        loop.network.switch_off("c")
        began = loop.time()
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(2):
                await loop.create_connection(Recorder, "c", PORT)
        assert 2 <= loop.time() - began < 2.01
        with pytest.raises(TimeoutError) as caught:
            await loop.create_connection(Recorder, "c", PORT)
        assert caught.value.errno == errno.ETIMEDOUT
        assert 62 < loop.time() - began < 70

    in_a_process(main)


@pytest.mark.parametrize("seed", range(6))
def test_peers_of_a_killed_process_hear_of_it_at_once(seed: int) -> None:
    async def check(pair: Pair) -> object:
        pair.send(b"x")
        await asyncio.sleep(1)
        at = pair.here.loop.time()
        pair.server.kill()
        await asyncio.sleep(1)
        ((lost_at, error),) = pair.here.lost
        assert lost_at - at < 0.01
        assert not pair.there.lost
        assert pair.network.connections() == 0
        return type(error).__name__

    assert run_pair(check, seed).value in ("ConnectionResetError", "NoneType")


def test_a_killed_process_with_unread_bytes_resets_its_peer() -> None:
    async def check(pair: Pair) -> None:
        pair.server.pause()
        pair.send(b"x")
        await asyncio.sleep(1)
        pair.server.kill()
        await asyncio.sleep(1)
        assert isinstance(pair.here.lost[0][1], ConnectionResetError)

    run_pair(check)


def test_what_a_killed_process_has_sent_may_still_arrive() -> None:
    async def check(pair: Pair) -> object:
        pair.answer(b"last words")
        await asyncio.sleep(0.000_05)
        pair.server.kill()
        await asyncio.sleep(1)
        return pair.here.received

    received = [run_pair(check, seed).value for seed in range(20)]
    assert set(received) == {b"last words", b""}


def test_peers_of_a_host_without_power_hear_nothing() -> None:
    async def check(pair: Pair) -> None:
        pair.send(b"x")
        await asyncio.sleep(1)
        pair.simulation.power_off("b")
        await asyncio.sleep(5)
        assert not pair.here.lost
        at = pair.here.loop.time()
        pair.send(b"y")
        await asyncio.sleep(40)
        assert isinstance(pair.here.lost[0][1], TimeoutError)
        assert GIVE_UP_S <= pair.here.lost[0][0] - at <= GIVE_UP_S + 3

    run_pair(check)


def test_the_ports_of_a_killed_process_refuse() -> None:
    async def check(pair: Pair) -> None:
        pair.server.kill()
        failed: list[str] = []

        async def main(process: Process) -> None:
            with pytest.raises(ConnectionRefusedError):
                await process.loop.create_connection(Recorder, "b", PORT)
            failed.append("refused")

        await pair.simulation.start("a", "other", main).ended
        assert failed == ["refused"]

    run_pair(check)


def test_a_paused_process_takes_connections_and_bytes_while_they_fit() -> None:
    async def check(pair: Pair) -> None:
        pair.server.pause()
        pair.send(bytes(1 << 20))
        await asyncio.sleep(GIVE_UP_S * 2)
        assert not pair.here.lost
        assert pair.here.transport.get_write_buffer_size() == (1 << 20) - WINDOW_BYTES
        connected: list[bool] = []

        async def main(process: Process) -> None:
            await process.loop.create_connection(Recorder, "b", PORT)
            connected.append(True)

        await pair.simulation.start("a", "other", main).ended
        assert connected
        assert not pair.there.chunks
        pair.server.resume()
        await asyncio.sleep(3)
        assert len(pair.there.received) == 1 << 20

    run_pair(check)


def test_a_reset_ends_both_ends_of_the_connections_between_two_hosts_and_no_others() -> None:
    async def check(pair: Pair) -> None:
        assert pair.network.connections("a", "b") == pair.network.connections("b", "a") == 1
        assert pair.network.reset("a", "c") == 0
        assert pair.network.reset("b", "a", share=0.0) == 0
        assert pair.network.reset("b", "a") == 1
        await asyncio.sleep(0.1)
        for end in (pair.here, pair.there):
            assert isinstance(end.lost[0][1], ConnectionResetError)

    run_pair(check)


def test_a_partition_cuts_between_groups_and_not_within() -> None:
    async def story(simulation: Simulation) -> None:
        network = simulation.network
        for host in "abcd":
            network.add_host(host)
        network.partition("ab", "c")
        passing = [one + two for one in "abcd" for two in "abcd" if network.passes(one, two)]
        assert passing == ["aa", "ab", "ad", "ba", "bb", "bd", "cc", "cd", "da", "db", "dc", "dd"]
        network.heal()
        assert all(network.passes(one, two) for one in "abcd" for two in "abcd")

    simulate(1, story)


def test_what_the_end_of_a_run_leaves_open_does_nothing_any_more() -> None:
    kept: list[Recorder] = []

    async def story(simulation: Simulation) -> None:
        pair = Pair(simulation)
        await pair.connect()
        kept.append(pair.here)

    simulate(1, story)
    transport = kept[0].transport
    transport.write(b"too late")
    transport.abort()
    assert not kept[0].lost
