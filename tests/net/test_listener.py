"""Opening and closing the port, and who is let in."""

import asyncio
import resource
import socket
from dataclasses import replace
from typing import Any

import pytest

from harness.waiting import until
from penstock.base.errors import ConfigError
from penstock.net.errors import RefuseKind
from penstock.net.limits import NetLimits
from penstock.net.listener import Endpoint, Listener
from penstock.net.sockets import open_socket, raise_descriptor_limit
from tests.net.serving import LOOPS, OPEN_LIMITS, Peer, Recorder, echo, frame, run, serving

pytestmark = pytest.mark.parametrize("loop", LOOPS)


def test_a_port_in_use_is_reported_in_one_line(loop: str) -> None:
    async def scenario() -> None:
        async with serving(echo) as server:
            other = Listener([Endpoint("127.0.0.1", server.listener.port)], OPEN_LIMITS, echo)
            with pytest.raises(ConfigError, match=r"can not listen on 127\.0\.0\.1:\d+: .*port"):
                other.start()

    run(scenario(), loop)


def test_a_host_of_another_machine_is_reported_in_one_line(loop: str) -> None:
    with pytest.raises(ConfigError, match="choose another host"):
        open_socket("192.0.2.1", 0)


async def is_served(peer: Peer) -> bool:
    try:
        peer.send(frame(b"hello"))
        return await peer.answer() == b"hello"
    except (asyncio.IncompleteReadError, ConnectionError):
        return False


def test_connections_beyond_the_total_are_refused_until_one_is_closed(loop: str) -> None:
    async def scenario() -> None:
        async with serving(echo, connections_max=2) as server:
            peers = [await server.connect() for _ in range(3)]
            assert [await is_served(peer) for peer in peers] == [True, True, False]
            assert server.stats.refused == {RefuseKind.TOO_MANY: 1}
            peers[0].writer.close()
            await until(lambda: server.stats.connections == 1)
            assert await is_served(await server.connect())

    run(scenario(), loop)


def test_one_address_gets_only_its_share_of_connections(loop: str) -> None:
    async def scenario() -> None:
        async with serving(echo, connections_per_address_max=2) as server:
            peers = [await server.connect() for _ in range(3)]
            assert [await is_served(peer) for peer in peers] == [True, True, False]
            assert server.stats.refused == {RefuseKind.TOO_MANY_FROM_ADDRESS: 1}

    run(scenario(), loop)


def test_one_address_may_connect_only_so_often_in_a_second(loop: str) -> None:
    async def scenario() -> None:
        async with serving(echo, connection_rate_per_address_max=2) as server:
            peers = [await server.connect() for _ in range(3)]
            assert [await is_served(peer) for peer in peers] == [True, True, False]
            assert server.stats.refused == {RefuseKind.TOO_FAST_FROM_ADDRESS: 1}
            await server.sweep(1)
            assert await is_served(await server.connect())

    run(scenario(), loop)


def test_running_out_of_descriptors_refuses_and_recovers(loop: str) -> None:
    async def scenario() -> None:
        async with serving(echo) as server:
            assert await is_served(await server.connect())
            client = socket.socket()
            client.setblocking(False)
            soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
            with socket.socket() as lowest_free:
                used = lowest_free.fileno()
            resource.setrlimit(resource.RLIMIT_NOFILE, (used, hard))
            try:
                running = asyncio.get_running_loop()
                await running.sock_connect(client, ("127.0.0.1", server.listener.port))
                assert await running.sock_recv(client, 1) == b""
            finally:
                resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
                client.close()
            assert server.stats.refused[RefuseKind.NO_DESCRIPTOR] == 1
            assert await is_served(await server.connect())

    run(scenario(), loop)


def test_stop_lets_requests_in_progress_be_answered(loop: str) -> None:
    async def scenario() -> None:
        handler = Recorder()
        async with serving(handler.on_frame) as server:
            busy, idle = await server.connect(), await server.connect()
            idle.send(frame(b"i"))
            busy.send(frame(b"b"))
            await handler.wait_for(2)
            handler.answer(handler.frames.index(b"i"))
            await idle.answer()
            stopping = asyncio.create_task(server.listener.stop(grace_seconds=5))
            assert await idle.is_ended()
            busy.send(frame(b"too late"))
            handler.answer(handler.frames.index(b"b"))
            assert await busy.answer() == b"re:b"
            assert await busy.is_ended()
            await stopping
            assert len(handler.frames) == 2

    run(scenario(), loop)


def test_stop_does_not_wait_for_ever(loop: str) -> None:
    async def scenario() -> None:
        handler = Recorder()
        async with serving(handler.on_frame) as server:
            peer = await server.connect()
            peer.send(frame(b"never answered"))
            await handler.wait_for(1)
            await server.listener.stop(grace_seconds=0.05)
            assert await peer.is_ended()
            assert server.stats.connections == 0

    run(scenario(), loop)


def test_the_layer_above_hears_of_closed_connections(loop: str) -> None:
    async def scenario() -> None:
        gone: list[object] = []
        listener = Listener(
            [Endpoint("127.0.0.1", 0, "name")], OPEN_LIMITS, echo, on_close=gone.append
        )
        listener.start()
        reader, writer = await asyncio.open_connection("127.0.0.1", listener.port)
        assert await is_served(Peer(reader, writer))
        (connection,) = listener.connections
        assert (connection.client_host, connection.listener_name) == ("127.0.0.1", "name")
        writer.close()
        await listener.stop()
        assert gone == [connection]

    run(scenario(), loop)


def test_several_ports_are_known_apart_and_limited_together(loop: str) -> None:
    async def scenario() -> None:
        endpoints = [Endpoint("127.0.0.1", 0, "one"), Endpoint("127.0.0.1", 0, "two")]
        listener = Listener(endpoints, replace(OPEN_LIMITS, connections_max=2), echo)
        listener.start()
        ports = listener.ports
        peers = []
        for name in ("two", "one", "one"):
            peers.append(Peer(*await asyncio.open_connection("127.0.0.1", ports[name])))
            await is_served(peers[-1])
        assert [connection.listener_name for connection in listener.connections] == ["two", "one"]
        assert await peers[-1].is_ended(), "a third one, whichever port it takes"
        for peer in peers:
            peer.writer.close()
        await listener.stop()
        assert listener.ports == {}

    run(scenario(), loop)


def test_a_port_that_can_not_be_opened_leaves_none_open(loop: str) -> None:
    async def scenario() -> None:
        async with serving(echo) as server:
            taken = Endpoint("127.0.0.1", server.listener.port, "taken")
            listener = Listener([Endpoint("127.0.0.1", 0, "free"), taken], OPEN_LIMITS, echo)
            with pytest.raises(ConfigError, match=str(server.listener.port)):
                listener.start()
            assert listener.ports == {}

    run(scenario(), loop)


def test_the_descriptor_limit_can_be_raised(loop: str) -> None:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        assert raise_descriptor_limit() == resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


def test_the_first_refusal_is_told_with_address_and_setting(
    loop: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        async with serving(echo, connections_per_address_max=1) as server:
            for _ in range(3):
                await is_served(await server.connect())

    caplog.set_level("WARNING", logger="penstock.net")
    run(scenario(), loop)
    (line,) = caplog.messages
    assert "127.0.0.1=1" in line
    assert "net.connections_per_address_max" in line


def test_by_default_three_hundred_clients_of_one_host_are_all_served(loop: str) -> None:
    async def scenario() -> None:
        defaults = NetLimits()
        limits: dict[str, Any] = {
            "connections_per_address_max": defaults.connections_per_address_max,
            "connection_rate_per_address_max": defaults.connection_rate_per_address_max,
        }
        async with serving(echo, **limits) as server:
            peers = [await server.connect() for _ in range(300)]
            assert all([await is_served(peer) for peer in peers])

    run(scenario(), loop)
