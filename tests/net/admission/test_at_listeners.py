"""Limits of connections over real sockets: floods, listeners of their own, and rates."""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest

from harness.waiting import until
from penstock.net.admission.creation_rate import WAIT_SECONDS_MIN
from penstock.net.errors import CloseKind, RefuseKind, YieldKind
from penstock.net.listener import Endpoint, Listener
from penstock.net.tls.doors import Door
from tests.net.asking import LONG_FAREWELL, WORD, ask, served
from tests.net.serving import LOOPS, OPEN_LIMITS, Peer, frame, run

pytestmark = pytest.mark.parametrize("loop", LOOPS)


class Ports:
    """A listener with the ports `kafka` and `OUT`, which both ask for the word, and a plain one."""

    def __init__(self, listener: Listener) -> None:
        self.listener, self.peers = listener, list[Peer]()

    async def connect(self, name: str = "kafka", source: str = "127.0.0.1") -> Peer:
        port = self.listener.ports[name]
        opened = await asyncio.open_connection("127.0.0.1", port, local_addr=(source, 0))
        self.peers.append(Peer(*opened))
        return self.peers[-1]

    async def is_let_in(
        self, name: str = "kafka", word: bytes = WORD, source: str = "127.0.0.1"
    ) -> bool:
        try:
            peer = await self.connect(name, source)
            peer.send(frame(word))
            return await peer.answer() == word
        except (asyncio.IncompleteReadError, ConnectionError):
            return False


@asynccontextmanager
async def guarded(**limits: Any) -> AsyncIterator[Ports]:
    names = ("kafka", "OUT", "PLAIN")
    listener = Listener(
        [Endpoint("127.0.0.1", 0, name) for name in names], replace(OPEN_LIMITS, **limits), served
    )
    listener.doors = {name: Door(None, ask) for name in names[:2]}
    listener.measure_by(lambda: 0.0)
    listener.start()
    ports = Ports(listener)
    try:
        yield ports
    finally:
        for peer in ports.peers:
            peer.writer.transport.abort()
        await listener.stop(grace_seconds=0.2)


def test_a_crowd_that_says_nothing_keeps_nobody_out(loop: str) -> None:
    async def scenario() -> None:
        async with guarded(connections_max=8) as ports:
            for _ in range(3):
                for _ in range(50):
                    await ports.connect()
                assert await ports.is_let_in()
            stats = ports.listener.stats
            assert stats.refused == {}
            assert set(stats.gave_way_at) <= {("kafka", kind) for kind in YieldKind}
            assert stats.closed == {CloseKind.GAVE_WAY: sum(stats.gave_way_at.values())}
            assert stats.open_at["kafka"] <= 8

    run(scenario(), loop)


def test_a_crowd_that_comes_in_one_turn_keeps_nobody_out(loop: str) -> None:
    """What is accepted in one turn is not open before the next: it has to give way as well."""

    async def scenario() -> None:
        async with guarded(connections_max=8) as ports:
            address = ("127.0.0.1", ports.listener.port)
            with contextlib.ExitStack() as stack:
                timer = ports.listener._timer
                assert timer is not None
                timer.cancel()
                for _ in range(60):
                    stack.enter_context(socket.create_connection(address))
                assert await ports.is_let_in()
                stats = ports.listener.stats
                assert stats.refused == {}
                # Who has given way is gone at once, and not by the clock, which stands still.
                await until(lambda: stats.connections <= 8)

    run(scenario(), loop)


def test_at_a_full_node_an_address_beyond_its_limit_ends_nobody(loop: str) -> None:
    """At a full node its limit was not asked for, and it got the place of another client."""

    async def scenario() -> None:
        banned = ("127.0.0.9:0",)
        async with guarded(connections_max=4, connections_per_address_overrides=banned) as ports:
            assert all([await ports.is_let_in() for _ in range(3)])
            await ports.connect()
            await until(lambda: ports.listener.stats.connections == 4)
            assert not await ports.is_let_in(source="127.0.0.9")
            stats = ports.listener.stats
            assert stats.refused == {RefuseKind.OVER_OVERRIDE: 1}
            assert stats.gave_way_at == {}

    run(scenario(), loop)


def test_an_address_beyond_its_quota_ends_nobody(loop: str) -> None:
    """What is closed after a delay needs no place, and another client had to go for it."""

    async def scenario() -> None:
        async with guarded(listeners=("OUT.connections_max=1",)) as ports:
            await ports.connect("OUT")
            await until(lambda: ports.listener.stats.connections == 1)
            ports.listener.quota_delay_ms = lambda _: 1
            assert not await ports.is_let_in("OUT")
            assert ports.listener.stats.refused == {RefuseKind.QUOTA: 1}
            assert ports.listener.stats.gave_way_at == {}
            ports.listener.quota_delay_ms = lambda _: 0
            assert await ports.is_let_in("OUT")
            assert ports.listener.stats.gave_way_at == {("OUT", YieldKind.LISTENER_FULL): 1}

    run(scenario(), loop)


def test_who_was_ended_and_does_not_read_why_gives_way(loop: str) -> None:
    """For ten seconds an ended client may take its last answers: it kept its place meanwhile."""

    async def scenario() -> None:
        async with guarded(connections_max=4) as ports:
            for _ in range(12):
                deaf = await ports.connect()
                deaf.writer.transport.pause_reading()  # type: ignore[attr-defined]
                deaf.send(frame(LONG_FAREWELL))
            stats = ports.listener.stats
            await until(lambda: stats.closed[CloseKind.AUTHENTICATION] > 0)
            assert await ports.is_let_in()
            assert stats.refused == {}

    run(scenario(), loop)


def test_an_address_of_ipv4_is_the_same_at_a_port_of_ipv6(loop: str) -> None:
    async def scenario() -> None:
        limits = replace(OPEN_LIMITS, connections_per_address_overrides=("127.0.0.1:0",))
        listener = Listener([Endpoint("::", 0)], limits, served)
        listener.start()
        try:
            peer = Peer(*await asyncio.open_connection("127.0.0.1", listener.port))
            assert await peer.is_ended()
            assert listener.stats.refused == {RefuseKind.OVER_OVERRIDE: 1}
            peer.writer.close()
        finally:
            await listener.stop(grace_seconds=0.2)

    run(scenario(), loop)


def test_clients_that_are_known_are_ended_by_no_crowd(loop: str) -> None:
    async def scenario() -> None:
        async with guarded(connections_max=8) as ports:
            assert all([await ports.is_let_in() for _ in range(8)])
            assert not await ports.is_let_in()
            for peer in ports.peers[:8]:
                peer.send(frame(WORD))
                assert await peer.answer() == WORD
            assert ports.listener.stats.refused_at == {("kafka", RefuseKind.TOO_MANY): 1}

    run(scenario(), loop)


def test_a_listener_has_a_limit_of_its_own(loop: str) -> None:
    async def scenario() -> None:
        async with guarded(listeners=("plain.connections_max=2",)) as ports:
            assert [await ports.is_let_in("PLAIN", b"hello") for _ in range(3)] == [
                True,
                True,
                False,
            ]
            assert await ports.is_let_in()
            assert ports.listener.stats.refused_at == {
                ("PLAIN", RefuseKind.TOO_MANY_AT_LISTENER): 1
            }

    run(scenario(), loop)


def test_at_a_full_listener_those_give_way_that_have_proved_nothing(loop: str) -> None:
    async def scenario() -> None:
        async with guarded(listeners=("OUT.connections_max=2",)) as ports:
            for _ in range(2):
                await ports.connect("OUT")
            assert await ports.is_let_in("OUT")
            assert ports.listener.stats.gave_way_at == {("OUT", YieldKind.LISTENER_FULL): 1}

    run(scenario(), loop)


def test_the_protected_listener_gets_the_place_of_who_is_idle(loop: str) -> None:
    async def scenario() -> None:
        async with guarded(connections_max=4, protected_listener="OUT") as ports:
            idle = [await ports.connect("PLAIN") for _ in range(3)]
            for peer in idle:
                peer.send(frame(b"hello"))
                await peer.answer()
                ports.listener.sweep()
            assert not await ports.is_let_in("PLAIN", b"hello"), "one place is kept"
            assert [await ports.is_let_in("OUT") for _ in range(2)] == [True, True]
            assert await idle[0].is_ended()
            assert ports.listener.stats.gave_way_at == {("PLAIN", YieldKind.IDLE): 1}

    run(scenario(), loop)


def test_beyond_the_rate_connections_wait_and_none_is_refused(loop: str) -> None:
    async def scenario() -> None:
        clock = asyncio.get_running_loop().time
        async with guarded(listeners=("PLAIN.connection_rate_max=20",)) as ports:
            began = clock()
            times = list[float]()

            async def come() -> None:
                assert await ports.is_let_in("PLAIN", b"hello")
                times.append(clock() - began)

            await asyncio.gather(*(come() for _ in range(40)))
            assert times[19] < times[39], "a second's worth comes at once"
            assert all(times[20 + at] >= (at + 1) / 20 - 0.01 for at in range(20)), "then evenly"
            stats = ports.listener.stats
            assert stats.refused == {}
            waits = stats.waits_at["PLAIN", "too_fast_at_listener"]
            assert waits > 0
            assert stats.waited_seconds_at["PLAIN"] > 0.9 * WAIT_SECONDS_MIN * waits
            assert await ports.is_let_in(), "another port does not wait"

    run(scenario(), loop)


def test_who_gives_way_is_logged_with_listener_address_and_setting(
    loop: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        async with guarded(connections_max=8) as ports:
            for _ in range(50):
                await ports.connect()
            assert await ports.is_let_in()

    caplog.set_level("WARNING", logger="penstock.net")
    run(scenario(), loop)
    (line,) = [line for line in caplog.messages if "unproven_from_address" in line]
    assert "listener=kafka" in line
    assert "127.0.0.1=" in line
    assert "net.unproven_per_address_max" in line
