"""A connection of a gRPC client: between the loop's transport and the core of HTTP/2.

    socket ─► shared memory ─► ServerConnection ─► Call ─► method
    socket ◄─ one write for all that is to be said in a turn ◄─┘

A connection is not read while frames of it wait for their turn, while its client does not take what
is written, and while it holds something and all clients together hold too much. No timer belongs to
it: its port calls `sweep` once a second.

Source: ours; net/connection.py for turns.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, Protocol, cast

from penstock.base.errors import PlatformError
from penstock.base.invariant import InvariantViolation
from penstock.base.ports import Buffer
from penstock.grpc.answers import HEAD, NOT_GRPC, OK, prefixed, status_alone
from penstock.grpc.call import Call, Wire
from penstock.grpc.client import GrpcClient
from penstock.grpc.config import LISTENER_NAME
from penstock.grpc.error_map import status_of
from penstock.grpc.errors import CallFault, Refused
from penstock.grpc.metadata import is_grpc, read_head
from penstock.grpc.proto.messages import Answer
from penstock.grpc.statuses import GrpcStatus
from penstock.http2.connection import ServerConnection
from penstock.http2.hpack import Header
from penstock.http2.stream import Stream
from penstock.net.admission.other_ports import OtherConnection
from penstock.net.errors import CloseKind
from penstock.net.sockets import has_hung_up
from penstock.net.turn_share import Sent
from penstock.protobuf.codec import encode

if TYPE_CHECKING:
    from penstock.base.ports import Cancellable
    from penstock.grpc.front import GrpcFront
    from penstock.net.admission.other_ports import Shared

READ_BYTES: Final = 64 << 10
WRITE_BYTES_MAX: Final = 256 << 10
"""What may wait in the transport; the connection is not read until its client has taken that."""
_ABORT_TICKS: Final = 10
"""A connection that is over may send what is queued for so long."""
_TURN, _WRITES, _MEMORY, _QUOTA = 1, 2, 4, 8

log = logging.getLogger(__name__)


class Kept(Protocol):
    """What the connections of a port are kept in."""

    connections: dict[GrpcConnection, None]
    starved: dict[GrpcConnection, None]
    """Those that are not read since all together hold too much."""

    def count(self, more: int) -> bool:
        """Count what is held; whether that is too much."""


class CallGuard(Protocol):
    """Watches a connection whose client has to say with each call who it is."""

    def user_of(self, headers: list[Header]) -> str:
        """Return the principal of a call with these headers. Raises Refused, CallFault."""

    def is_late(self) -> bool:
        """Whether what the client has proved does not hold any more; asked once a second."""


class GrpcConnection(OtherConnection):
    """See the module."""

    def __init__(self, front: GrpcFront, kept: Kept, host: str, shared: Shared) -> None:
        self._front = front
        self._kept = kept
        self.client_host = host
        self.listener_name = LISTENER_NAME
        self.guard: CallGuard | None = None
        """Asked before each call, where clients have to say who they are."""
        self.is_closed = False
        self.core = ServerConnection(self, front.limits, front.broker.clock.monotonic_ms)
        self.principal = ""
        self._clients: dict[str, GrpcClient] = {}
        """By their principals; the guard has a bound for them."""
        self._wire = Wire(self.core, self.write_soon)
        self._shared = shared
        self._transport = cast("asyncio.Transport", None)
        self._paused = 0
        self._muted: Cancellable | None = None
        self._muted_until_ms = 0
        self._is_writing_soon = False
        self._held = 0
        self._last_tick = self._over_tick = shared.tick()

    @property
    def is_unproven(self) -> bool:
        """Whether the client has yet to prove who it is."""
        return self.guard is not None and not self.principal

    @property
    def received_bytes(self) -> int:
        """What its core held when it was last looked at."""
        return self._held

    # --- the transport's side ------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take the transport; from here on the connection counts."""
        self._transport = cast("asyncio.Transport", transport)
        self._transport.set_write_buffer_limits(high=WRITE_BYTES_MAX)
        self._shared.stats.connections += 1
        self._kept.connections[self] = None
        if self.is_closed:
            self._transport.abort()
        self._write()

    def connection_lost(self, exc: Exception | None) -> None:
        """End all calls."""
        self.is_closed = True
        self._forget_mute()
        self.core.lost()
        self._account()
        self._kept.starved.pop(self, None)
        # Each refers to the other: all would stay until all objects are gone through.
        for client in self._clients.values():
            client.gone()
        self._clients.clear()
        self.core, self._wire = cast("ServerConnection", None), cast("Wire", None)
        if self in self._kept.connections:
            del self._kept.connections[self]
            self._shared.stats.connections -= 1
            self._shared.gone(self)
        self.guard = None  # who has not proved it until here never has

    def eof_received(self) -> bool:
        """Close when the client has sent its last byte: it takes no answers any more."""
        return False

    def get_buffer(self, sizehint: int) -> Buffer:
        """Lend memory for one read."""
        return self._shared.buffers.spare_view[:READ_BYTES]

    def buffer_updated(self, nbytes: int) -> None:
        """Handle what has come."""
        if self.is_closed:
            return
        self._shared.stats.bytes_in += nbytes
        self._last_tick = self._shared.tick()
        self.core.feed(self._shared.buffers.spare_view[:nbytes])
        if self._paused & _TURN:
            return
        if self._shared.turn.has_room(Sent.SEVERAL):
            self._handle()
        else:
            self._wait(Sent.SEVERAL)

    def pause_writing(self) -> None:
        """Read nothing from a client that takes nothing."""
        self._pause(_WRITES)

    def resume_writing(self) -> None:
        """Read on."""
        self._go_on(_WRITES)

    # --- turns ---------------------------------------------------------------------------------

    def _handle(self) -> None:
        turn = self._shared.turn
        began = turn.stopwatch()

        def may_go_on() -> bool:
            nonlocal began
            now = turn.stopwatch()
            is_left = turn.spend(now - began)
            began = now
            return is_left

        try:
            has_more = self.core.handle(may_go_on)
        except InvariantViolation:
            raise
        except Exception:
            log.exception("client: %s; unhandled", self.client_host)
            self._front.broker.stats.count_request_error("unhandled")
            self.abort(CloseKind.HANDLER_FAILED)
            return
        if has_more:
            self._wait(Sent.MORE)
        self._write()

    def _wait(self, sent: Sent) -> None:
        self._pause(_TURN)
        self._shared.turn.wait(self._begin_turn, sent)

    def _begin_turn(self) -> None:
        if self.is_closed:
            return
        if has_hung_up(self._transport.get_extra_info("socket")):
            self.abort()  # it was not read while it waited, and nobody else would notice
            return
        self._go_on(_TURN)
        self._handle()

    def _pause(self, reason: int) -> None:
        if not self._paused and not self.is_closed:
            self._transport.pause_reading()
            self._shared.stats.reading_pauses += 1
        self._paused |= reason

    def _go_on(self, reason: int) -> None:
        if not self._paused & reason:
            return
        self._paused &= ~reason
        if not self._paused and not self.is_closed and not self.core.is_over:
            self._transport.resume_reading()

    def mute(self, delay_ms: int | None) -> None:
        """Read nothing more for this time; with None until it is called with a time.

        Answers still leave, and calls that were read are handled.
        """
        if self.is_closed:
            return
        self._pause(_QUOTA)
        if delay_ms is None:
            return
        until_ms = self._front.broker.clock.monotonic_ms() + delay_ms
        if self._muted is not None and self._muted_until_ms >= until_ms:
            return
        self._forget_mute()
        self._muted_until_ms = until_ms
        self._muted = self._front.broker.scheduler.call_later(delay_ms, self._unmute)

    def _unmute(self) -> None:
        self._muted = None
        self._last_tick = self._shared.tick()
        self._go_on(_QUOTA)

    def _forget_mute(self) -> None:
        if self._muted is not None:
            self._muted.cancel()
            self._muted = None

    # --- writing -------------------------------------------------------------------------------

    def write_soon(self) -> None:
        """Write what is to be said, with all that comes up until the end of this turn."""
        if not self._is_writing_soon:
            self._is_writing_soon = True
            self._front.broker.scheduler.call_soon(self._write)

    def _write(self) -> None:
        self._is_writing_soon = False
        if self.is_closed:
            return
        data = self.core.take_output()
        if data:
            self._shared.stats.bytes_out += len(data)
            self._transport.write(data)
        self._account()
        if self.core.is_over:
            self._close()

    def _close(self) -> None:
        """Close behind what is written."""
        if self._transport.is_closing():
            return
        self._over_tick = self._shared.tick()
        fault = self.core.fault
        if fault is not None:
            self._front.faults[fault.code.name] += 1
            self._shared.stats.closed[CloseKind.REQUEST] += 1
            log.debug("client=%s closed: %s", self.client_host, fault)
        self._transport.close()

    def _account(self) -> None:
        """Tell what is held; read no more of this connection if that is too much."""
        now = 0 if self.is_closed else self.core.held_bytes
        before, self._held = self._held, now
        if self._kept.count(now - before) and now:
            self._pause(_MEMORY)
            self._kept.starved[self] = None

    def read_again(self) -> None:
        """Go on: all clients together hold less."""
        self._go_on(_MEMORY)

    # --- time ----------------------------------------------------------------------------------

    def sweep(self) -> None:
        """End what has taken too long."""
        if self.is_closed:
            return
        tick = self._shared.tick()
        if self._transport.is_closing():
            if tick - self._over_tick > _ABORT_TICKS:
                self._transport.abort()
            return
        idle = self._shared.limits.idle_seconds_max
        if idle and tick - self._last_tick > idle and not self._paused:
            self.abort(CloseKind.IDLE)
            return
        if self.guard is not None and self.guard.is_late():
            self.end(CloseKind.AUTHENTICATION)
            return
        if not self._paused & _QUOTA:  # what is not read can not become whole
            self.core.sweep()
        self._write()

    def drain(self) -> None:
        """Answer what has begun, and refuse the rest."""
        if self.is_closed:
            return
        for stream in self.core.streams:
            if stream.call is not None and stream.call.method.stays_open:
                stream.call.end(GrpcStatus.UNAVAILABLE, "the node stops")
        self.core.drain()
        self._write()

    def end(self, kind: CloseKind) -> None:
        """End it behind what is ready to be sent, and count why."""
        if self.is_closed or self._transport.is_closing():
            return
        self.drain()
        if not self._transport.is_closing():
            self._over_tick = self._shared.tick()
            self._transport.close()
        self._shared.stats.closed[kind] += 1

    def abort(self, kind: CloseKind = CloseKind.SHUTDOWN) -> None:
        """End it at once and count why."""
        self.is_closed = True
        self._shared.stats.closed[kind] += 1
        if self._transport is not None:
            self._transport.abort()

    # --- requests ------------------------------------------------------------------------------

    def on_request(self, stream: Stream, headers: list[Header]) -> None:
        """Find the method of a call."""
        if not is_grpc(headers):
            self.core.answer(stream, NOT_GRPC, is_end=True)
            return
        try:
            client = self._client_of(headers)
            head = read_head(headers)
            method = self._front.method(head.method)
        except CallFault as fault:
            self._refuse(stream, fault)
            return
        except Refused as refused:
            self._front.refusals[refused.code] += 1
            self.core.answer(stream, HEAD)
            self.core.send(stream, prefixed(encode(Answer(status=status_of(refused)))))
            self.core.end(stream, OK)
            return
        self._front.requests[method.name] += 1
        stream.call = Call(self._wire, stream, head, method, client)

    def _client_of(self, headers: list[Header]) -> GrpcClient:
        """Return who makes a call. Raises Refused, CallFault."""
        user = self.principal if self.guard is None else self.guard.user_of(headers)
        client = self._clients.get(user)
        if client is None:
            client = GrpcClient(self._front, self.client_host, self.mute, user)
            self._clients[user] = client
        return client

    def on_data(self, stream: Stream, data: Buffer) -> None:
        """Pass on a part of a call's body."""
        call: Call | None = stream.call
        if call is None or call.is_over:
            self.core.consume(stream, len(data))
        else:
            self._guarded(call, lambda: call.take(data))

    def on_end(self, stream: Stream) -> None:
        """Handle a call that its client has sent."""
        call: Call | None = stream.call
        self._shared.stats.frames += 1
        if call is not None and not call.is_over:
            self._guarded(call, call.take_end)
            call.limit()

    def on_gone(self, stream: Stream) -> None:
        """Forget a call that its client, or time, has ended."""
        if stream.call is not None:
            stream.call.over()
            stream.call = None

    def _refuse(self, stream: Stream, fault: CallFault) -> None:
        self.core.answer(stream, status_alone(fault.status, fault.reason), is_end=True)

    def _guarded(self, call: Call, work: Callable[[], None]) -> None:
        try:
            work()
        except InvariantViolation:
            raise
        except PlatformError as error:
            call.fail(error)
