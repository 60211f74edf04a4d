"""Listening ports: accept, refuse, check time-outs of connections, shut down in order.

All ports of a listener share its limits, memory and turns of the loop.

Connections are accepted here rather than by the event loop's server, so that a refusal needs no
transport, and running out of file descriptors neither spins nor goes unnoticed: one descriptor is
kept in reserve, closed to accept and close what cannot be served, then opened again.

Source: the limits of NetLimits; CPython issue 151615 for asyncio's own accept loop when descriptors
run out (a log line for each slot of the backlog, and again each second).
Who a client is, and TLS, are asked by the door of its port (net/tls/doors.py), where it has one.
"""

import asyncio
import contextlib
import errno
import logging
import os
import socket
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import NamedTuple

from penstock.base.endpoints import FIRST_LISTENER
from penstock.net.admission.doorkeeper import Doorkeeper
from penstock.net.admission.other_ports import OtherConnection, OtherPort, Shared
from penstock.net.admission.unproven import Client
from penstock.net.connection import Connection
from penstock.net.context import ConnectionContext, OnClose, OnFrame, OnRun, one_by_one
from penstock.net.errors import CloseKind, RefuseKind
from penstock.net.limits import NetLimits
from penstock.net.memory_share import pinned_bytes_max
from penstock.net.receive import SPARE_BYTES, UNPROVEN_PART, FrameBudget, ReceiveBuffers
from penstock.net.shares import by_share
from penstock.net.sockets import OpenSocket, descriptors_for_connections, host_of, open_socket
from penstock.net.tls.doors import Door
from penstock.net.tls.side import TlsPorts, TlsSide

_ACCEPTS_PER_TURN = 64
_SWEEP_SECONDS = 1.0
RELIEF_BYTES = 32 << 20
"""Bytes freed by clients after which memory is returned to the system."""
_ABORT_SECONDS = 1.0
_DELAYED_MAX = 200
"""Sockets of refused connections that wait for their end: of the descriptors in reserve."""
_SLOW_TICKS_MIN = 2
"""When memory for unfinished frames is used up, only a frame at least this old is closed."""

log = logging.getLogger(__name__)

_Served = Connection | OtherConnection
_Protocol = _Served | TlsSide

_OUT_OF_DESCRIPTORS = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)


class Endpoint(NamedTuple):
    """Host, port and name of a listening port; port 0 takes a free one."""

    host: str
    port: int
    name: str = FIRST_LISTENER


class Listener:
    """One or several ports, each with a name. Created and used on its event loop."""

    def __init__(
        self,
        endpoints: Sequence[Endpoint],
        limits: NetLimits,
        on_frame: OnFrame[Connection],
        *,
        on_run: OnRun[Connection] = one_by_one,
        on_close: OnClose[Connection] | None = None,
        budget: FrameBudget | None = None,
    ) -> None:
        """`budget` may be shared by several listeners; the default follows the limits."""
        self.endpoints = endpoints
        self.doors: Mapping[str, Door] = {}
        """By the names of endpoints, set before `start`; those without one serve everybody."""
        self.others: Mapping[str, OtherPort] = {}
        """By the names of endpoints, set before `start`: those that speak another protocol."""
        self.limits = limits
        self._on_close = on_close
        buffers = ReceiveBuffers(
            budget or FrameBudget(limits.unfinished_bytes_max or pinned_bytes_max(limits))
        )
        self._context = ConnectionContext(
            limits=limits,
            buffers=buffers,
            on_frame=on_frame,
            on_run=on_run,
            on_gone=self._on_gone,
        )
        self.stats = self._context.stats
        self._budget = buffers.budget
        self._loop = asyncio.get_running_loop()
        self._sockets: dict[str, socket.socket] = {}
        self._spare_descriptor = -1
        self._keeper = Doorkeeper(
            limits, self.stats, self._context.connections.keys, self._loop.time, self._note_proof
        )
        self._all_gone = asyncio.Event()
        self._resting: dict[str, asyncio.TimerHandle] = {}
        """Ports that accept nothing for a moment; who connects waits in the backlog."""
        self._opening: set[asyncio.Task[None]] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._tls = TlsPorts(
            self._loop,
            self._budget,
            lambda: self._context.tick,
            self._ended_early,
            self._keeper.giving_way.begun,
        )
        self.on_relief: Callable[[], None] = _nothing
        """Called when clients pin far less memory than before."""
        self.has_let_go: Callable[[], bool] = _never
        """Called once a second: whether other memory was freed as well."""
        self.quota_delay_ms: Callable[[str], int] = _no_quota
        """Called for each new connection with its address; above 0 it is closed after this time."""
        self._delayed: dict[socket.socket, asyncio.TimerHandle] = {}
        self.pinned_elsewhere: Callable[[], int] = _nowhere
        """Called once a second: bytes that clients pin beside their connections."""

    def use_limits(self, limits: NetLimits) -> None:
        """Go by other limits; no open connection is ended for there being too many."""
        self.limits = self._context.limits = limits
        self._tls.protected_listener = limits.protected_listener
        self._keeper.go_by(limits, min(limits.connections_max, descriptors_for_connections()))

    def measure_by(self, stopwatch: Callable[[], float]) -> None:
        """Measure the handling of requests with another clock, in seconds, than the system's."""
        self._context.turn.stopwatch = stopwatch

    @property
    def port(self) -> int:
        """The first open port; the actual one if its endpoint has 0."""
        return self.ports[self.endpoints[0].name]

    @property
    def ports(self) -> dict[str, int]:
        """Open ports by the names of their endpoints."""
        return {name: int(one.getsockname()[1]) for name, one in self._sockets.items()}

    @property
    def connections(self) -> list[Connection]:
        """Open connections, oldest first."""
        return list(self._context.connections)

    def start(self, open_socket: OpenSocket = open_socket) -> None:
        """Open the ports and serve. Raises ConfigError if one cannot be opened."""
        self.use_limits(self.limits)
        self._spare_descriptor = os.open(os.devnull, os.O_RDONLY)
        try:
            for host, port, name in self.endpoints:
                self._sockets[name] = open_socket(host, port)
        except BaseException:
            self._stop_accepting()
            raise
        for name, opened in self._sockets.items():
            self._loop.add_reader(opened.fileno(), self._accept_some, name, opened)
            self.stats.open_at[name] = 0
        self._timer = self._loop.call_later(_SWEEP_SECONDS, self._on_timer)

    async def stop(self, grace_seconds: float = 5.0) -> None:
        """Stop accepting and reading, let requests in progress be answered, then close all.

        Returns after `grace_seconds` and a moment at the latest.
        """
        self._stop_accepting()
        if self._timer is not None:
            self._timer.cancel()
        await asyncio.gather(*self._opening, return_exceptions=True)
        self._tls.give_up("the listener stops")
        for served in self._served():
            served.drain()
        await self._wait_until_all_gone(grace_seconds)
        for served in self._served():
            served.abort()
        await self._wait_until_all_gone(_ABORT_SECONDS)

    async def _wait_until_all_gone(self, seconds: float) -> None:
        if self._keeper.open_count:
            self._all_gone.clear()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._all_gone.wait(), seconds)

    def _stop_accepting(self) -> None:
        for timer in self._resting.values():
            timer.cancel()
        for opened in self._sockets.values():
            self._loop.remove_reader(opened.fileno())
            opened.close()
        self._sockets.clear()
        for accepted in list(self._delayed):
            self._close_delayed(accepted)
        if self._spare_descriptor >= 0:
            os.close(self._spare_descriptor)
            self._spare_descriptor = -1

    # --- accepting -----------------------------------------------------------------------------

    def _accept_some(self, name: str, opened: socket.socket) -> None:
        seconds = self._keeper.wait_seconds(name)
        if seconds:
            self._loop.remove_reader(opened.fileno())
            self._resting[name] = self._loop.call_later(
                seconds, self._accept_again, name, opened, self._loop.time()
            )
            return
        for _ in range(_ACCEPTS_PER_TURN):
            if not self._keeper.may_accept(name):
                return
            try:
                accepted, address = opened.accept()
            except (BlockingIOError, InterruptedError):
                return
            except OSError as error:
                if error.errno not in _OUT_OF_DESCRIPTORS:
                    continue  # the peer disconnected before it was accepted
                self._refuse_without_descriptor(name, opened)
                return
            self._admit(name, accepted, host_of(address))

    def _accept_again(self, name: str, opened: socket.socket, since: float) -> None:
        del self._resting[name]
        self._keeper.waited(name, self._loop.time() - since)
        self._loop.add_reader(opened.fileno(), self._accept_some, name, opened)

    def _admit(self, name: str, accepted: socket.socket, host: str) -> None:
        if not self._keeper.may_come(name, host):
            accepted.close()
            return
        delay_ms = self.quota_delay_ms(host)
        if delay_ms:  # before anybody gives way: it does not stay
            self._keeper.refused(RefuseKind.QUOTA, name, host)
            self._close_later(accepted, delay_ms)
            return
        if not self._keeper.lets_in(name, host):
            accepted.close()
            return
        accepted.setblocking(False)
        self._keeper.came(name, host)
        protocol = self._protocol(name, host)
        self._keeper.giving_way.arrived(protocol, self._context.tick)
        task = self._loop.create_task(self._open(protocol, accepted))
        self._opening.add(task)
        task.add_done_callback(self._opening.discard)

    def _close_later(self, accepted: socket.socket, delay_ms: int) -> None:
        """Close a connection that nobody reads after a delay, so that its client slows down."""
        if len(self._delayed) >= _DELAYED_MAX:
            accepted.close()
            return
        timer = self._loop.call_later(delay_ms / 1000, self._close_delayed, accepted)
        self._delayed[accepted] = timer

    def _close_delayed(self, accepted: socket.socket) -> None:
        self._delayed.pop(accepted).cancel()
        accepted.close()

    async def _open(self, protocol: _Protocol, accepted: socket.socket) -> None:
        try:
            await self._loop.connect_accepted_socket(lambda: protocol, accepted)
        except OSError:
            accepted.close()
            self._count_out(protocol)

    def _protocol(self, name: str, host: str) -> _Protocol:
        door = self.doors.get(name)
        if door is None or door.context is None:
            connection = self._connection(name, host)
            if door is not None:
                door.admit(connection)
            return connection
        return TlsSide(
            self._tls,
            host,
            door,
            listener_name=name,
            on_open=partial(self._open_behind_door, door),
            on_gone=self._count_out,
        )

    def _connection(self, name: str, host: str) -> _Served:
        other = self.others.get(name)
        if other is None:
            return Connection(self._context, host, name)
        return other.connect(host, self._shared())

    def _shared(self) -> Shared:
        context = self._context
        return Shared(
            self.limits,
            context.turn,
            self.stats,
            context.buffers,
            lambda: context.tick,
            self._other_gone,
        )

    def _open_behind_door(self, door: Door, side: TlsSide, transport: asyncio.Transport) -> _Served:
        self._keeper.giving_way.left(side)
        connection = self._connection(side.listener_name, side.client_host)
        connection.certificate = side.certificate
        transport.set_protocol(connection)  # it may write at once, and be told that it waits
        connection.connection_made(transport)
        door.admit(connection)
        self._keeper.giving_way.arrived(connection, side.began_tick)
        self._note_proof(connection)
        return connection

    def _note_proof(self, client: Client) -> None:
        """Remember the address of a client that has proved who it is at a door."""
        is_open = isinstance(client, _Served) and client.listener_name in self.doors
        if is_open and not client.is_unproven:
            self._tls.addresses.proved(client.client_host, self._context.tick)

    def _ended_early(self, kind: CloseKind, host: str, reason: str) -> None:
        """Count a client that TLS has ended before it was served."""
        self.stats.closed[kind] += 1
        log.debug("client=%s not served: %s (%s)", host, kind, reason)

    def _served(self) -> list[Connection | OtherPort]:
        return [*self.connections, *self.others.values()]

    def _other_gone(self, client: Client) -> None:
        self._note_proof(client)
        self._count_out(client)

    def _on_gone(self, connection: Connection) -> None:
        self._other_gone(connection)
        if self._on_close is not None:
            self._on_close(connection)

    def _count_out(self, client: Client) -> None:
        self._keeper.gone(client)
        if self._keeper.open_count == 0:
            self._all_gone.set()

    def _refuse_without_descriptor(self, name: str, opened: socket.socket) -> None:
        """Accept a waiting connection with the spare descriptor and close it: none hangs."""
        if self._spare_descriptor >= 0:
            os.close(self._spare_descriptor)
            self._spare_descriptor = -1
        host = ""
        with contextlib.suppress(OSError):
            accepted, address = opened.accept()
            host = host_of(address)
            accepted.close()
        with contextlib.suppress(OSError):
            self._spare_descriptor = os.open(os.devnull, os.O_RDONLY)
        self._keeper.refused(RefuseKind.NO_DESCRIPTOR, name, host)

    # --- time ----------------------------------------------------------------------------------

    def _on_timer(self) -> None:
        self._timer = self._loop.call_later(_SWEEP_SECONDS, self._on_timer)
        self.sweep()

    def sweep(self) -> None:
        """Count one second and close connections that exceed a time limit."""
        self._context.tick += 1
        self._keeper.sweep(self._context.tick, self._budget.limit // UNPROVEN_PART)
        self._tls.sweep()
        budget = self._budget
        budget.count_elsewhere(self.pinned_elsewhere())
        self.stats.unfinished_bytes = budget.used
        for served in self._served():
            served.sweep()
        if budget.used > budget.limit // 8 * 7 or self._context.room.is_short:
            self._end_worst_readers()
        if budget.is_starved:
            self._end_largest_parts()
        budget.peak = max(budget.peak, budget.used)
        have_gone = self._keeper.have_gone()
        if budget.peak - budget.used > RELIEF_BYTES or self.has_let_go() or have_gone:
            budget.peak = budget.used
            self._context.buffers.shrink()
            self.on_relief()

    def _end_worst_readers(self) -> None:
        """Close slow readers, those with most unsent answers first, as memory is nearly used up.

        One a second; while fetches wait for memory, as many as are needed to free half of it.
        """
        tick, budget = self._context.tick, self._budget
        slow = [c for c in self.connections if c.is_slow_reader(tick - _SLOW_TICKS_MIN)]
        slow.sort(key=lambda c: c.pinned_bytes)
        used = budget.used
        while slow:
            worst = slow.pop()
            used -= worst.pinned_bytes
            self.stats.closed[CloseKind.MEMORY] += 1
            worst.abort()
            if not self._context.room.is_short or used <= budget.limit // 2:
                break

    def _end_largest_parts(self) -> None:
        """Close those whose frames are slow, largest shares first.

        One, while only frames that grow wait for memory; else until an eighth of it is free. More
        would not help: those who are closed send all of it again. Those whose peer has gone do not
        notice, as they are not read while they wait: all of them. Muted ones are not read for long,
        and would keep what they hold meanwhile: they count as slow.
        """
        muted = self._context.muted
        slow = by_share(
            c
            for c in self.connections
            if c.unfinished_ticks >= _SLOW_TICKS_MIN or (c.received_bytes and c in muted)
        )
        budget = self._budget
        left = 1 if budget.has_room(SPARE_BYTES) else budget.limit // 8
        while slow:
            worst = slow.pop()
            if left > 0 or (worst in self._context.holders and worst.has_gone()):
                left -= worst.received_bytes
                worst.end(CloseKind.MEMORY)


def _nowhere() -> int:
    """Default: nothing is pinned beside connections."""
    return 0


def _no_quota(host: str) -> int:
    """Default: addresses have no quota."""
    del host
    return 0


def _never() -> bool:
    return False


def _nothing() -> None:
    """Default: leave freed memory to the allocator."""
