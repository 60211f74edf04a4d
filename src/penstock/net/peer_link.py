"""One link between two peers: a handshake, then frames in both directions.

    socket ─► FrameMemory ─► whole frames, in a plain loop ─► on_frame(view)
    socket ◄─ transport.write of the caller's own buffers ◄── send(*buffers)

After the handshake a link waits: bytes that arrive before its owner has set `on_frame` stay in the
socket. A link closes for one reason, which is passed to `on_closed` once, even if that is set
later. Unsent bytes are bounded: `on_writable` tells when to continue, and an owner that ignores it
loses the link. Frames beyond the peers' share of a turn of the loop wait for the next turn, and the
link is not read meanwhile.

Frames are a u32 size and as many bytes (docs/formats/peer-links.md). After the handshake they are
protected by TCP only, or by TLS if the security has contexts.
"""

import asyncio
import logging
import socket
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, cast

from penstock.base.ports import Buffer
from penstock.net.peer_auth import (
    HANDSHAKE_BYTES_MAX,
    Identity,
    PeerHello,
    Progress,
    looks_like_handshake,
)
from penstock.net.peer_errors import PeerFrameTooLarge, PeerRefused, RefusalLog
from penstock.net.peer_measure import NOTED_SECONDS, FrameTurns
from penstock.net.peer_receive import SIZE_BYTES, FrameMemory
from penstock.net.turn_share import Sent, TurnShare

HIGH_BYTES = 4 << 20
"""Unsent bytes above which `is_writable` is False."""
LOW_BYTES = 1 << 20
"""Unsent bytes at which `on_writable` is called afterwards."""

_UNSENT_BYTES_MAX = 256 << 20
"""Unsent bytes at which the link is closed: its owner ignores that the peer reads nothing."""

_JOIN_BYTES_MAX = 16 << 10
"""Frames up to this size are copied into one write with their size; larger ones are not copied."""

_CLOSE_SECONDS = 2.0
"""Time for a closing link to send what is queued."""

_KEEPALIVE_SECONDS = 10
_LOST_MS = 20_000
"""Time without a TCP acknowledgement after which the link is closed: the machine is gone."""

log = logging.getLogger(__name__)


class Handshake(Protocol):
    """Either side of net/peer_auth.py."""

    def step(self, body: bytes) -> Progress:
        """Process one frame's body."""


UNENDED_STEP = 1 << 20


def _ignore_link(_link: "PeerLink") -> None:
    """The callback of an owner that does not count links."""


OnShaken = Callable[["PeerLink", str], None]
"""Called once: with an empty string when the link is open, else with the reason why it failed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkSetup:
    """Parameters of a new link. `first` is the body of a handshake frame to send at once."""

    handshake: Handshake
    on_shaken: OnShaken
    frame_bytes_max: int
    turn: TurnShare
    """The share of a turn that all links of this process have together."""
    refusals: RefusalLog
    frames: FrameTurns
    timeout_s: float | None = None
    """For the handshake; None if the owner has a time-out of its own."""
    first: bytes = b""
    on_gone: Callable[["PeerLink"], None] = _ignore_link
    """Called once when the connection is closed and its descriptor free."""
    on_unended: Callable[["PeerLink"], None] = _ignore_link
    """Called for each UNENDED_STEP bytes more of a frame whose end has not come."""


def _ignore() -> None:
    """The callback that an owner has not set."""


def _any_kind(_frame: memoryview) -> str:
    return "frame"


class PeerLink(asyncio.BufferedProtocol):
    """A link. Used on its event loop only."""

    def __init__(self, setup: LinkSetup) -> None:
        self.hello = PeerHello(b"", "", -1, 0)
        """Identity of the other end, known after the handshake."""
        self.is_closed = False
        self.is_writable = True
        self.on_writable: Callable[[], None] = _ignore
        self.address = "?"
        """Address of the other end, for log lines."""
        self.host = "?"
        """Host of the other end, without the port."""
        self.frame_bytes_max = 0
        """Largest frame that the other end accepts."""
        self.has_received = False
        """Whether the other end has sent anything, handshake or not."""
        self.was_refused = False
        """Whether the handshake ended with a refusal of either side."""
        self.kind_of: Callable[[memoryview], str] = _any_kind
        """Returns the kind of a frame, for metrics."""
        self.turn = setup.turn
        self.frames = setup.frames
        self._setup = setup
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport = cast("asyncio.Transport", None)
        self._memory = FrameMemory(HANDSHAKE_BYTES_MAX)
        self._noted_bytes = 0
        """Bytes of an unended frame of which the port knows."""
        self._is_open = False
        self._on_frame: Callable[[memoryview], None] | None = None
        self._on_closed: Callable[[str], None] | None = None
        self._reason = ""
        self._is_reported = False
        self._pauses = 0
        """Number of callers that have paused reading; it continues at 0."""
        self._is_waiting = False
        """Paused until a later turn of the loop."""
        self._is_reading = True
        self._is_handling = False
        self._timer: asyncio.TimerHandle | None = None
        if setup.timeout_s is not None:
            self._timer = self._loop.call_later(setup.timeout_s, self._on_timeout)

    # --- the owner's side ----------------------------------------------------------------------

    @property
    def on_frame(self) -> Callable[[memoryview], None] | None:
        """Called with each frame's body; the view is valid during the call only."""
        return self._on_frame

    @on_frame.setter
    def on_frame(self, callback: Callable[[memoryview], None]) -> None:
        self._on_frame = callback
        self._read_or_not()
        self._loop.call_soon(self._handle)

    @property
    def on_closed(self) -> Callable[[str], None] | None:
        """Called once with the reason when the link has closed, never within `close`."""
        return self._on_closed

    @on_closed.setter
    def on_closed(self, callback: Callable[[str], None]) -> None:
        self._on_closed = callback
        if self.is_closed:
            self._loop.call_soon(self._report_closed)

    @property
    def buffered_bytes(self) -> int:
        """Bytes sent that the operating system has not accepted yet."""
        return 0 if self.is_closed else self._transport.get_write_buffer_size()

    @property
    def is_connected(self) -> bool:
        """Whether there ever was a connection, with or without a handshake."""
        return self._transport is not None

    @property
    def is_open(self) -> bool:
        """Whether the handshake is complete and the link not closed."""
        return self._is_open and not self.is_closed

    def send(self, *buffers: Buffer) -> None:
        """Send one frame made of all buffers; on a closed link this does nothing.

        The buffers must not change until they are sent: pass bytes, or memory that is written once.

        Raises:
            PeerFrameTooLarge: the other side would not accept it.
        """
        if self.is_closed:
            return
        assert self._is_open, "a link is given to its owner after the handshake"
        size = sum(map(len, buffers))
        if size > self.frame_bytes_max:
            raise PeerFrameTooLarge(size, self.frame_bytes_max)
        head = size.to_bytes(SIZE_BYTES, "big")
        if size <= _JOIN_BYTES_MAX:
            self._transport.write(b"".join((head, *buffers)))
        else:
            self._transport.writelines((head, *buffers))
        if not self.is_writable and self.buffered_bytes > _UNSENT_BYTES_MAX:
            self.abort("the other end takes nothing of what is sent")

    def keep(self, frame: memoryview) -> Buffer:
        """Return the frame that is being handled, valid after that; a large one is not copied."""
        return self._memory.keep(frame)

    def pause_reading(self) -> None:
        """Handle no more frames, not even received ones, until `resume_reading` as often."""
        self._pauses += 1
        self._read_or_not()

    def resume_reading(self) -> None:
        """Handle the remaining frames in a later callback, then continue reading."""
        self._pauses -= 1
        assert self._pauses >= 0, "more resumes than pauses"
        self._read_or_not()
        self._loop.call_soon(self._handle)

    def close(self, reason: str) -> None:
        """Close the link; queued bytes are still sent if the other end reads them soon."""
        if self.is_closed:
            return
        self._end(reason)
        if self._transport is not None:
            self._transport.close()
            self._timer = self._loop.call_later(_CLOSE_SECONDS, self._transport.abort)

    def abort(self, reason: str) -> None:
        """Close the link without sending anything more, also one that is closing."""
        if not self.is_closed:
            self._end(reason)
        if self._transport is not None:
            self._transport.abort()

    def break_off(self, who: str, reason: str) -> None:
        """Close the link at once for a breach of the protocol; logged with limited frequency."""
        if not self.is_closed:
            place, now_s = f"{who} at {self.address}", self._loop.time()
            self._setup.refusals.note(self.host, place, reason, now_s, what="ended")
            self.abort(reason)

    # --- the transport's side ------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Accept the transport, and send the first frame if there is one."""
        self._transport = cast("asyncio.Transport", transport)
        self._transport.set_write_buffer_limits(high=HIGH_BYTES, low=LOW_BYTES)
        _tune(transport.get_extra_info("socket"))
        address = transport.get_extra_info("peername")
        if address:
            self.host, self.address = str(address[0]), f"{address[0]}:{address[1]}"
        if self.is_closed:
            self._transport.abort()
        elif self._setup.first:
            self._write_frame(self._setup.first)

    def connection_lost(self, exc: Exception | None) -> None:
        """Notify the owner, unless this side has closed and notified it already."""
        if not self.is_closed:
            self._end(f"connection lost: {exc}" if exc else "closed by the other end")
        self._stop_timer()
        self._memory.free()
        self._setup.on_gone(self)
        self._on_frame = None  # break the reference cycle of link and owner at once

    def eof_received(self) -> bool:
        """Close when the other end has sent its last byte."""
        return False

    @property
    def unended_bytes(self) -> int:
        """Bytes that have come of a frame whose end has not, or that wait for their turn."""
        return len(self._memory.arrived())

    def get_buffer(self, sizehint: int) -> Buffer:
        """Lend memory for one read."""
        return self._memory.window()

    def buffer_updated(self, nbytes: int) -> None:
        """Handle the frames that are complete."""
        self.has_received = True
        self._memory.added(nbytes)
        self._handle()
        unended = self.unended_bytes
        if unended < self._noted_bytes:
            self._noted_bytes = 0
        if unended >= self._noted_bytes + UNENDED_STEP:
            self._noted_bytes = unended
            self._setup.on_unended(self)

    def pause_writing(self) -> None:
        """Note that the other end reads more slowly than the owner sends."""
        self.is_writable = False

    def resume_writing(self) -> None:
        """Notify the owner that it may continue."""
        self.is_writable = True
        if not self.is_closed:
            self.on_writable()

    # --- frames --------------------------------------------------------------------------------

    def _handle(self) -> None:
        if self._is_handling or self._is_waiting:
            return
        self._is_handling = True
        try:
            self._handle_frames()
        except PeerFrameTooLarge as error:
            self.abort(f"{error}" if self._is_open else "the first bytes are no handshake")
        except BaseException:
            self.abort("a frame could not be handled")  # otherwise it would be handled again
            raise
        finally:
            self._is_handling = False

    def _handle_frames(self) -> None:
        memory = self._memory
        while not self._is_open and not self.is_closed:
            if not looks_like_handshake(memory.arrived()):
                self.abort("the first bytes are no handshake")
                return
            frame = memory.next_frame()
            if frame is None:
                return
            self._shake(bytes(frame))
        turn = self.turn
        while not self.is_closed and not self._pauses:
            on_frame = self._on_frame
            if on_frame is None or (turn.left <= 0 and self._must_wait()):
                return
            frame = memory.next_frame()
            if frame is None:
                return
            began = turn.stopwatch()
            on_frame(frame)
            ended = turn.stopwatch()
            if ended - began >= NOTED_SECONDS:
                self.frames.note(self.kind_of(frame), ended - began, ended)
            if not turn.spend(ended - began) and len(memory.arrived()):
                self._wait_for_turn(Sent.MORE)
                return

    def _must_wait(self) -> bool:
        """Wait with everything received if the share of this turn is used up."""
        sent = Sent.SEVERAL if self._memory.has_several else Sent.ONE
        if self.turn.has_room(sent):
            return False
        self._wait_for_turn(sent)
        return True

    def _wait_for_turn(self, sent: Sent) -> None:
        self._is_waiting = True
        self._read_or_not()
        self.turn.wait(self._begin_turn, sent)

    def _begin_turn(self) -> None:
        self._is_waiting = False
        self._handle()
        self._read_or_not()

    def _shake(self, body: bytes) -> None:
        try:
            progress = self._setup.handshake.step(body)
        except PeerRefused as error:
            self.was_refused = True
            self.close(error.reason)
            return
        if progress.answer:
            self._write_frame(progress.answer)
        if progress.refusal:
            self.was_refused = True
            self.close(progress.refusal)
        elif progress.peer is not None:
            self._open(progress.peer)

    def _open(self, peer: Identity) -> None:
        self._stop_timer()
        self.hello = peer.hello
        self.frame_bytes_max = peer.frame_bytes_max
        self._memory.raise_limit(self._setup.frame_bytes_max)
        self._is_open = True
        self._read_or_not()
        self._setup.on_shaken(self, "")

    def _write_frame(self, body: bytes) -> None:
        self._transport.write(len(body).to_bytes(SIZE_BYTES, "big") + body)

    def _read_or_not(self) -> None:
        """Pause or resume the transport, depending on whether frames are accepted."""
        is_held = self._pauses or self._is_waiting
        wanted = not is_held and (not self._is_open or self._on_frame is not None)
        if wanted is self._is_reading or self.is_closed:
            return
        self._is_reading = wanted
        if wanted:
            self._transport.resume_reading()
        else:
            self._transport.pause_reading()

    # --- the end -------------------------------------------------------------------------------

    def _on_timeout(self) -> None:
        self.abort("no handshake in time")

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _end(self, reason: str) -> None:
        self.is_closed = True
        self._reason = reason or "closed without a reason"  # an empty one would mean: open
        self._stop_timer()
        self._loop.call_soon(self._report_closed)

    def _report_closed(self) -> None:
        if self._is_reported:
            return
        if not self._is_open:
            self._is_reported = True
            self._setup.on_shaken(self, self._reason)
        elif self._on_closed is not None:
            self._is_reported = True
            on_closed, self._on_closed, self.on_writable = self._on_closed, None, _ignore
            on_closed(self._reason)


def _tune(opened: socket.socket | None) -> None:
    """Send small frames at once, and detect a machine that is gone."""
    if opened is None:
        return
    opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    opened.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    if hasattr(socket, "TCP_USER_TIMEOUT"):
        opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, _KEEPALIVE_SECONDS)
        opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, _KEEPALIVE_SECONDS // 2)
        opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 3)
        opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, _LOST_MS)
