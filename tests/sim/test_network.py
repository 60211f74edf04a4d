"""The simulated network when things go wrong: cuts, loss, resets, kills, power, pauses."""

import asyncio
import errno
import socket

import pytest

from simulator.kernel.process import Process
from simulator.kernel.simulation import Simulation, simulate
from simulator.kernel.sockets import GIVE_UP_S, WINDOW_BYTES
from tests.sim.net_toys import (
    PORT,
    Pair,
    Recorder,
    echo_server,
    in_a_process,
    loop_of,
    run_pair,
)


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


def test_room_that_a_reader_makes_while_the_link_is_cut_is_known_once_it_is_mended() -> None:
    async def check(pair: Pair) -> None:
        pair.server.call_soon(pair.there.transport.pause_reading)
        await asyncio.sleep(0.1)
        pair.send(bytes(1 << 20))
        await asyncio.sleep(5)
        pair.network.cut("a", "b")
        pair.server.call_soon(pair.there.transport.resume_reading)
        await asyncio.sleep(5)
        assert len(pair.there.received) == WINDOW_BYTES
        pair.network.mend("a", "b")
        await asyncio.sleep(10)
        assert len(pair.there.received) == 1 << 20

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


def test_an_idle_connection_hears_nothing_from_a_host_that_has_come_back() -> None:
    async def check(pair: Pair) -> None:
        pair.simulation.power_off("b")
        await asyncio.sleep(2)
        pair.simulation.start("b", "echo", echo_server())
        await asyncio.sleep(100)
        assert not pair.here.has_end
        assert not pair.here.lost

    run_pair(check)


def test_connecting_over_a_cut_waits_and_succeeds_once_it_is_mended() -> None:
    async def main(process: Process) -> None:
        network = loop_of(process).network
        for source, target in (("a", "b"), ("b", "a")):
            network.cut(source, target, both_ways=False)
            connecting = asyncio.create_task(
                loop_of(process).create_connection(Recorder, "b", PORT)
            )
            await asyncio.sleep(5)
            assert not connecting.done()
            network.heal()
            await asyncio.sleep(5)
            assert connecting.done()

    in_a_process(main)


def test_connecting_to_a_host_that_is_off_ends_after_a_minute_or_when_the_caller_gives_up() -> None:
    async def main(process: Process) -> None:
        loop = loop_of(process)
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
                await loop_of(process).create_connection(Recorder, "b", PORT)
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
            await loop_of(process).create_connection(Recorder, "b", PORT)
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
