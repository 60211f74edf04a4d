"""The sending half of a connection: answers in the order of requests, and what of them is pinned.

    slot.send(...) ─► first in order? ─► one write ─► socket ─► what it did not take: stalled
                         └─► held until those before it are answered

What lies here counts in the budget of what clients pin: `stalled`, `held`, and what is `kept` for
answers that are being made. Not counted is what a turn has made and writes at its end, and up to
FREE_BYTES that a socket did not take.
"""

import asyncio
from abc import ABC, abstractmethod
from typing import Any

from penstock.base.ports import Buffer
from penstock.net.answers.replies import ReplyPlace
from penstock.net.context import ConnectionContext
from penstock.net.sockets import write_all

PAUSED_IN_FLIGHT, PAUSED_WRITES, PAUSED_MEMORY, PAUSED_DRAINING, PAUSED_TURN = 1, 2, 4, 8, 16
PAUSED_WORK, PAUSED_QUOTA = 32, 64
PAUSED_FRAMES = ~PAUSED_MEMORY

FREE_BYTES = 32 << 10
"""What a socket has not taken counts from here on: 5,000 connections are 160 MB at most."""


class AnsweringSide(asyncio.BufferedProtocol, ABC):
    """See the module; a connection adds the frames."""

    __slots__ = (
        "_context",
        "_flush_is_due",
        "_head",
        "_held_bytes",
        "_in_flight",
        "_is_in_loop",
        "_is_stalled",
        "_out",
        "_out_bytes",
        "_paused",
        "_tail",
        "_transport",
        "frame_tick",
        "is_closed",
        "kept_bytes",
        "last_tick",
        "paced_tick",
        "stalled_bytes",
        "taken_bytes",
        "taken_tick",
        "written_bytes",
    )

    _transport: asyncio.Transport
    _paused: int
    _is_in_loop: bool
    is_closed: bool
    last_tick: int
    frame_tick: int

    def __init__(self, context: ConnectionContext[Any]) -> None:
        self._context = context
        self._head: ReplyPlace | None = None
        self._tail: ReplyPlace | None = None
        self._in_flight = 0
        self._held_bytes = 0
        self._out: list[Buffer] = []
        self._out_bytes = 0
        self._flush_is_due = False
        self._is_stalled = False
        self.written_bytes = self.stalled_bytes = self.kept_bytes = 0
        self.taken_bytes, self.taken_tick, self.paced_tick = 0, context.tick, context.tick
        """What the peer had taken of what was written, and when it last took any, and some."""

    @abstractmethod
    def _pause(self, reason: int) -> None:
        """Handle no more frames for this reason."""

    @abstractmethod
    def _go_on(self, reason: int) -> None:
        """The reason is over: handle what was left, unless there is another one."""

    @abstractmethod
    def _end_when_answered(self) -> None:
        """While draining: end the connection once nothing is left to be answered."""

    @property
    def in_flight(self) -> int:
        """Requests that are not answered yet."""
        return self._in_flight

    # --- the order of answers ------------------------------------------------------------------

    def enqueue(self, place: ReplyPlace, count: int = 1) -> bool:
        """Make `place`, of `count` requests, last in the order of answers; say if it is alone."""
        tail = self._tail
        self._tail = place
        self._in_flight += count
        if tail is None:
            self._head = place
            return True
        tail.next_place = place
        return False

    def answered(
        self, place: ReplyPlace, buffers: tuple[Buffer, ...], size: int, count: int = 1
    ) -> None:
        """Queue the answer, `size` bytes in all, for its place; called by the place itself."""
        assert place.buffers is None, "a request is answered once"
        place.buffers = buffers
        if self.is_closed:
            return
        self._in_flight -= count
        if place is self._head:
            self._out += buffers
            self._out_bytes += size
            if self._out_bytes > self._context.limits.queued_bytes_max:
                self._write_out()  # now, so that the peer's pace is felt
            following = place.next_place
            if following is None:
                self._head = self._tail = None
            else:
                self._release_held(following)
        else:
            self._hold(size)
        if not self._is_in_loop and not self._flush_is_due:
            self._schedule_flush()

    def _release_held(self, place: ReplyPlace | None) -> None:
        """Move answers that waited for the head of the queue to the next write."""
        while place is not None and place.buffers is not None:
            size = sum(map(len, place.buffers))
            self._held_bytes -= size
            self._context.buffers.budget.unpin_answer(size)
            self._out += place.buffers
            self._out_bytes += size
            if self._out_bytes > self._context.limits.queued_bytes_max:
                self._write_out()
            place = place.next_place
        self._head = place
        if place is None:
            self._tail = None

    def _hold(self, size: int) -> None:
        """An answer that waits for an earlier one: it counts as queued."""
        self._held_bytes += size
        self._context.buffers.budget.pin_answer(size)
        if self._held_bytes > self._context.limits.queued_bytes_max:
            self._pause(PAUSED_IN_FLIGHT)

    def _schedule_flush(self) -> None:
        if not self._flush_is_due:
            self._flush_is_due = True
            self._context.loop.call_soon(self._flush_now)

    def _flush_now(self) -> None:
        self._flush_is_due = False
        self._flush()

    def _flush(self) -> None:
        """Write what is ready; then go on with requests that had to wait for these answers."""
        if self.is_closed:
            return
        if self._out:
            self._write_out()
        if self._paused & PAUSED_DRAINING:
            self._end_when_answered()
        elif self._paused & PAUSED_IN_FLIGHT:
            limits = self._context.limits
            has_place = self._in_flight < limits.in_flight_max
            if has_place and self._held_bytes <= limits.queued_bytes_max:
                self._go_on(PAUSED_IN_FLIGHT)

    def _write_out(self) -> None:
        out, self._out = self._out, []
        total, self._out_bytes = self._out_bytes, 0
        self._context.stats.bytes_out += total
        self.written_bytes += total
        self.last_tick = self._context.tick
        write_all(self._transport, out, total)
        if self._is_stalled:
            self.count_stalled()

    # --- quotas --------------------------------------------------------------------------------

    def mute(self, delay_ms: int | None) -> None:
        """Hand over no more frames for this time; with None until it is called with a time.

        Answers still leave. Times of a frame in progress begin anew after it.
        """
        if self.is_closed:
            return
        self._pause(PAUSED_QUOTA)
        if delay_ms is not None:
            self._context.muted.wake_after(self, delay_ms, self._unmute)

    def _unmute(self) -> None:
        self.frame_tick = self.last_tick = self._context.tick
        self._go_on(PAUSED_QUOTA)

    # --- what is pinned ------------------------------------------------------------------------

    @property
    def pinned_bytes(self) -> int:
        """What the connection holds of answers: being made, waiting for others, not taken."""
        return self.stalled_bytes + self._held_bytes + self.kept_bytes

    @property
    def is_choked(self) -> bool:
        """Whether more answers lie here, not taken, than a connection may have."""
        return self._paused & PAUSED_WRITES != 0

    @property
    def answer_bytes_max(self) -> int:
        """How large an answer should be at most, by what clients have pinned already."""
        return self._context.buffers.budget.answer_bytes_max

    def keep(self, size: int) -> None:
        """Count `size` bytes of an answer that is being made, until `let_go`."""
        self.kept_bytes += size
        self._context.buffers.budget.pin_answer(size)

    def let_go(self, size: int) -> None:
        """Count them no more: they are gone, or on their way to the peer."""
        self.kept_bytes -= size
        self._context.buffers.budget.unpin_answer(size)

    def pause_writing(self) -> None:
        """Count what the peer does not take; called by the transport."""
        self._is_stalled = True
        self.count_stalled()

    def resume_writing(self) -> None:
        """Go on with the frames that were left, then with reading."""
        self._is_stalled = False
        self._change_stalled(0)
        self._go_on(PAUSED_WRITES)

    def count_stalled(self) -> None:
        """Count what waits for the peer; take no more requests where that is much.

        What one write has is let go when all of it is sent, so it counts as a whole until then.
        """
        if self._is_stalled:
            waits = self._transport.get_write_buffer_size()
            self._change_stalled(max(self.stalled_bytes, waits))
            if self.stalled_bytes > self._context.limits.queued_bytes_max and not self.is_choked:
                self._pause(PAUSED_WRITES)

    def is_slow_reader(self, since_tick: int) -> bool:
        """Whether it pins answers, and has taken next to nothing of them since that tick.

        Answers that wait for an earlier one count as not taken from the bound on: whether that is
        slow on purpose can not be told.
        """
        is_slow = self.stalled_bytes > 0 and self.paced_tick <= since_tick
        return is_slow or self._held_bytes > self._context.limits.queued_bytes_max

    def _change_stalled(self, size: int) -> None:
        before, self.stalled_bytes = self.stalled_bytes, size
        if size >= before:
            self._context.buffers.budget.pin_answer(size - before)
        else:
            self._context.buffers.budget.unpin_answer(before - size)

    def _unpin(self) -> None:
        """Give back what the connection held; what is kept goes when it is ready."""
        held, self._held_bytes = self._held_bytes, 0
        self._is_stalled = False
        self._change_stalled(0)
        self._context.buffers.budget.unpin_answer(held)
