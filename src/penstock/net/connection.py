"""One client connection: frames in, answers out, in request order.

    socket ─► receive memory ─► whole frames, in a plain loop ─► on_run, else on_frame
                                                                   │ reserve() a ReplySlot
    socket ◄─ one write for all answers that are ready ◄───────────┘ slot.send(...), now or later

Answers leave in the order of the requests: a slot that is answered early waits for those before
it. All answers of one turn of the loop leave in one write, also those that come from a flush or a
purgatory later.

The socket is not read while too many requests are unanswered, while the peer does not take its
answers, or while memory for unfinished frames is used up; whole frames that have been read by then
wait in the receive memory. One read may bring ten thousand small requests: a turn takes no more of
them than may be in flight, and none when handlers have held it for long enough (turn_share.py);
then come the others. No timer belongs to a connection: its listener
calls `sweep` once a second; times count in those ticks, so a stopped process ends no connection.

Source: Kafka's framing (a 4-byte size before each message). Departures from its SocketServer:
several requests of one connection may be in progress, Kafka mutes the channel after one.
"""

import asyncio
import logging
from struct import Struct
from typing import Any, cast

from penstock.base.ports import Buffer
from penstock.net.answers.answer_room import Begin
from penstock.net.answers.answering import (
    FREE_BYTES,
    PAUSED_DRAINING,
    PAUSED_FRAMES,
    PAUSED_IN_FLIGHT,
    PAUSED_MEMORY,
    PAUSED_TURN,
    PAUSED_WORK,
    AnsweringSide,
)
from penstock.net.answers.overdue import overdue
from penstock.net.answers.replies import ReplyPlace, ReplySlot
from penstock.net.context import ConnectionContext
from penstock.net.errors import CloseKind, kind_of_size
from penstock.net.limits import FRAME_BYTES_MIN, is_too_large
from penstock.net.receive import SAVED_BYTES_MAX, PartFrame
from penstock.net.shares import makes_room
from penstock.net.sockets import has_hung_up, peer_port
from penstock.net.tls.guard import Guard
from penstock.net.turn_share import Sent, sent_in

_SIZE = Struct(">i")
_SIZE_BYTES = _SIZE.size
_ABORT_TICKS = 10
"""A connection that is closing may send what is queued for so long."""

log = logging.getLogger(__name__)

__all__ = ["Connection", "ReplyPlace", "ReplySlot"]


class Connection(AnsweringSide):
    """A client connection. `state` belongs to the layer above."""

    __slots__ = (
        "_is_reading",
        "_part",
        "_saved",
        "certificate",
        "client_host",
        "guard",
        "has_sent",
        "is_by_token",
        "listener_name",
        "principal",
        "state",
    )

    def __init__(
        self, context: ConnectionContext["Connection"], client_host: str, listener_name: str
    ) -> None:
        super().__init__(context)
        self.client_host = client_host
        self.listener_name = listener_name
        """Which port the client came in by."""
        self.state: Any = None
        self.certificate = b""
        """The client's certificate (DER), which TLS has checked; empty if there is none."""
        self.principal = ""
        """Who the client is; empty while that is unknown."""
        self.is_by_token = False
        """Whether a delegation token of that principal is the client's proof."""
        self.guard: Guard | None = None
        """Asked before each frame, as long as the client has to say who it is."""
        self.is_closed = False
        self.has_sent = False
        self._transport = cast("asyncio.Transport", None)
        self._saved = b""
        self._part: PartFrame | None = None
        self._paused = 0
        self._is_reading = True
        self._is_in_loop = False
        self.last_tick = self.frame_tick = context.tick

    @property
    def client_port(self) -> int:
        """Port that the client connected from; 0 where that is not known."""
        return peer_port(self._transport)

    # --- the transport's side ------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take the transport; from here on the connection counts."""
        self._transport = cast("asyncio.Transport", transport)
        self._transport.set_write_buffer_limits(high=FREE_BYTES)
        self._context.connections[self] = None
        self._context.stats.connections += 1
        if self.is_closed:
            self._transport.abort()  # others have got its place before it was open

    def connection_lost(self, exc: Exception | None) -> None:
        """Give all memory back; answers that come later go nowhere."""
        context = self._context
        self.is_closed = True
        self._forget_received()
        self._unpin()
        context.room.forget(self)
        context.muted.forget(self)
        self._head, self._tail, self._out = None, None, []
        if self in context.connections:
            del context.connections[self]
            context.stats.connections -= 1
            context.on_gone(self)
        self.guard = None  # each refers to the other: memory of both, and of TLS, would stay

    def eof_received(self) -> bool:
        """Close when the peer has sent its last byte, as Kafka does."""
        return False

    def get_buffer(self, sizehint: int) -> Buffer:
        """Lend memory for one read."""
        part = self._part
        if part is None:
            return self._context.buffers.window(self._saved)
        return part.view[part.filled :]

    def buffer_updated(self, nbytes: int) -> None:
        """Handle the frames that are whole now."""
        context = self._context
        if self.is_closed:
            return
        context.stats.bytes_in += nbytes
        self.last_tick = context.tick
        self.has_sent = True
        part = self._part
        if part is None:
            filled = (saved := len(self._saved)) + nbytes
            at = self._handle_frames(context.buffers.spare_view, filled)
            if (saved or at != filled) and not self.is_closed:
                self._save(at, filled)
        else:
            part.filled += nbytes
            self._handle_part(part)
        if self._out or self._paused:
            self._flush()
        if self._paused and (self._paused != PAUSED_TURN or self._part is not None):
            self._read_or_not()  # for a turn, what little it has sent may lie: stopping costs more
        if self._in_flight and not self._flush_is_due and not self.is_closed:
            # Behind what the handlers have scheduled: their answers leave in the same loop turn.
            self._schedule_flush()

    # --- frames --------------------------------------------------------------------------------

    def _handle_frames(self, view: memoryview, filled: int) -> int:
        """Hand whole frames of [0, filled) over; returns where the rest begins."""
        context = self._context
        limits, turn = context.limits, context.turn
        at = count = 0
        if turn.left <= 0 and self._must_wait(view, filled):
            return 0
        began = turn.stopwatch()
        self._is_in_loop = True
        try:
            while not (self._paused & PAUSED_FRAMES or self.is_closed or filled - at < _SIZE_BYTES):
                (size,) = _SIZE.unpack_from(view, at)
                end = at + _SIZE_BYTES + size
                if (
                    not FRAME_BYTES_MIN <= size <= limits.frame_bytes_max
                    and not self._is_token(size)
                ) or (size > limits.other_frame_bytes_max and is_too_large(view, at, filled)):
                    self.end(kind_of_size(size, bytes(view[at : at + _SIZE_BYTES])))
                    break
                if end > filled:
                    break
                has_more = filled - end > _SIZE_BYTES
                most = limits.in_flight_max - max(self._in_flight, count) if has_more else 0
                taken, rest = context.on_run(self, view, at, filled, most) if has_more else (0, at)
                if not taken:
                    context.on_frame(self, view[at + _SIZE_BYTES : end])
                    taken, rest = 1, end
                at, count = rest, count + taken
                if self._in_flight >= limits.in_flight_max:
                    self._paused |= PAUSED_IN_FLIGHT
                now = turn.stopwatch()
                is_over = not turn.spend(now - began) or count >= limits.in_flight_max
                began = now
                if is_over and filled - at > FRAME_BYTES_MIN:
                    self._wait_for_turn(Sent.MORE)
        except BaseException:
            self.end(CloseKind.HANDLER_FAILED)  # else the frame would be handled again
            raise
        finally:
            self._is_in_loop = False
        if count:
            context.stats.frames += count
            self.frame_tick = context.tick
        return at

    def _is_token(self, size: int) -> bool:
        """Whether a frame too short for a request is a bare token."""
        guard = self.guard
        return guard is not None and guard.takes_tokens and 0 <= size < FRAME_BYTES_MIN

    def _must_wait(self, view: memoryview, filled: int) -> bool:
        """Wait for a turn with all that has come, unless it waits for something else already."""
        sent = sent_in(view, filled)
        if self._paused & PAUSED_FRAMES or self._context.turn.has_room(sent):
            return False
        self._wait_for_turn(sent)
        return True

    def _wait_for_turn(self, sent: Sent) -> None:
        """Go on in a turn to come: enough was done in this one, here or by others."""
        self._paused |= PAUSED_TURN
        self._context.turn.wait(self._begin_turn, sent)

    def _begin_turn(self) -> None:
        self._go_on(PAUSED_TURN)

    def _save(self, start: int, end: int) -> None:
        """Keep bytes [start, end) of the spare buffer until more arrive."""
        buffers = self._context.buffers
        budget = buffers.budget
        saved_before = len(self._saved)
        size = end - start
        if size == saved_before == 0:
            return
        if not size:
            self._saved = b""
            budget.give_back(saved_before)
            return
        if not saved_before:
            self.frame_tick = self._context.tick
        if size > SAVED_BYTES_MAX and makes_room(
            self, len(buffers.spare) - saved_before, self._context
        ):
            self._saved = b""
            self._context.holders[self] = None
            self._part = buffers.adopt(start, end)
            budget.give_back(saved_before)
            self._make_room(self._part)
            return
        self._saved = bytes(buffers.spare_view[start:end])
        budget.change(saved_before, size)
        if size > SAVED_BYTES_MAX:
            self._wait_for_memory()

    def _handle_part(self, part: PartFrame) -> None:
        part.cut(self._handle_frames(part.view, part.filled))
        if self.is_closed:
            return
        if part.filled > SAVED_BYTES_MAX:
            self._make_room(part)
            return
        self._part = None
        self._context.holders.pop(self, None)
        self._saved = bytes(part.view[: part.filled])
        self._context.buffers.budget.used += part.filled
        part.free()

    def _make_room(self, part: PartFrame) -> None:
        """Let the part-frame grow towards its size, or stop reading until memory is free."""
        (size,) = _SIZE.unpack_from(part.view, 0)
        if self.guard is not None and size > self.guard.frame_bytes_max:
            self.end(CloseKind.FRAME_TOO_LARGE)
            return
        if part.has_room() or self._paused & PAUSED_FRAMES:
            return
        if not part.grow(size + _SIZE_BYTES):
            self._wait_for_memory()

    def _wait_for_memory(self) -> None:
        if not self._paused & PAUSED_MEMORY:
            self._pause(PAUSED_MEMORY)
            self._context.buffers.budget.wait(self._wake)

    def _wake(self) -> None:
        """Memory has become free, in the middle of another connection's work: not now."""
        self._context.loop.call_soon(self._go_on, PAUSED_MEMORY)

    def _forget_received(self) -> None:
        part, self._part = self._part, None
        self._context.holders.pop(self, None)
        saved, self._saved = len(self._saved), b""
        if part is not None:
            part.free()
        self._context.buffers.budget.change(saved, 0)

    # --- pausing -------------------------------------------------------------------------------

    def hold(self, size: int) -> None:
        """Hand over no more frames until `go_on`: one of `size` bytes, copied, is being worked on.

        What it holds counts as memory of unfinished frames.
        """
        assert not self._paused & PAUSED_WORK, "one frame at a time is worked on"
        self._paused |= PAUSED_WORK
        self._context.buffers.budget.used += size
        if not self._is_in_loop:
            self._read_or_not()

    def go_on(self, size: int) -> None:
        """End `hold`, also of a connection that is closed; called in a turn of its own."""
        self._context.buffers.budget.give_back(size)
        self._go_on(PAUSED_WORK)

    @property
    def is_unproven(self) -> bool:
        """Whether its client has yet to prove who it is, or has failed and is not gone yet."""
        return self.guard is not None and not self.principal

    def has_gone(self) -> bool:
        """Whether the peer has closed, also where nobody has read so far as to notice."""
        return self.is_closed or has_hung_up(self._transport.get_extra_info("socket"))

    def _pause(self, reason: int) -> None:
        self._paused |= reason
        self._read_or_not()

    def _read_or_not(self) -> None:
        """Pause or resume reading, only on a change: both are system calls."""
        wanted = not self._paused
        if wanted is self._is_reading or self.is_closed:
            return
        self._is_reading = wanted
        if wanted:
            self._transport.resume_reading()
        else:
            self._context.stats.reading_pauses += 1
            self._transport.pause_reading()

    def _go_on(self, reason: int) -> None:
        """Drop one reason to pause, handle frames that were left, and read on if none is left."""
        if not self._paused & reason or self.is_closed:
            return
        self._paused &= ~reason
        if not self._paused & PAUSED_FRAMES and not self._is_in_loop:
            self._handle_left()  # in the loop, a large answer was written at once: it goes on
        self._read_or_not()
        if self._out:
            self._schedule_flush()

    def _handle_left(self) -> None:
        if self._part is not None:
            self._handle_part(self._part)
        elif self._saved:
            saved = self._saved
            view = self._context.buffers.spare_view
            view[: len(saved)] = saved
            at = self._handle_frames(view, len(saved))
            if not self.is_closed:
                self._save(at, len(saved))

    # --- answers: the order of them is in AnsweringSide -----------------------------------------

    def reserve(self) -> ReplySlot:
        """Take the next place in the order of answers; each must be answered or skipped once."""
        slot = ReplySlot(self)
        self.enqueue(slot)
        return slot

    def ask_room(self, most: int, begin: Begin) -> None:
        """Let `begin` prepare an answer of `most` bytes, or less, as soon as there is room for it.

        It is called once, now or in a later turn; see AnswerRoom.
        """
        self._context.room.ask(self, most, begin)

    # --- the end -------------------------------------------------------------------------------

    def close(self, reason: str) -> None:
        """End the connection because of a request; the caller counts what was wrong with it."""
        log.debug("client=%s closed reason=%s", self.client_host, reason)
        self.end(CloseKind.REQUEST)

    def end(self, kind: CloseKind) -> None:
        """End the connection: what is ready is still sent, requests in progress are dropped."""
        if self.is_closed:
            return
        self._context.stats.closed[kind] += 1
        if self._out:
            self._write_out()
        self.is_closed = True
        self.frame_tick = self._context.tick
        self._forget_received()
        self._transport.close()

    def drain(self) -> None:
        """Take no more requests, and end as soon as those in progress are answered."""
        self._pause(PAUSED_DRAINING)
        self._end_when_answered()

    def _end_when_answered(self) -> None:
        if self._in_flight == 0:
            self.end(CloseKind.SHUTDOWN)

    def abort(self, kind: CloseKind | None = None) -> None:
        """End the connection now; what is queued is lost. Without a `kind` its caller counts it."""
        if kind is not None and not self.is_closed:
            self._context.stats.closed[kind] += 1
        self.is_closed = True
        if self._transport is not None:
            self._transport.abort()

    def sweep(self) -> None:
        """Check the times; the listener calls it once a tick."""
        tick = self._context.tick
        if self.is_closed:
            if tick - self.frame_tick > _ABORT_TICKS:
                self._transport.abort()
            return
        if self.guard is not None and self.principal and self.guard.is_late():
            self.end(CloseKind.AUTHENTICATION)
            return
        kind = overdue(self, self._transport.get_write_buffer_size(), tick, self._context.limits)
        if kind is CloseKind.ANSWERS_NOT_READ:
            self._context.stats.closed[kind] += 1
            self.abort()
        elif kind is not None:
            self.end(kind)

    @property
    def received_bytes(self) -> int:
        """Memory that it holds for a frame that has not arrived whole."""
        return len(self._saved) if self._part is None else len(self._part.view)

    @property
    def unfinished_ticks(self) -> int:
        """For how long a frame has been arriving; 0 when none is, or when it waits for us."""
        if (self._part is None and not self._saved) or self._paused & PAUSED_FRAMES:
            return 0
        return self._context.tick - self.frame_tick
