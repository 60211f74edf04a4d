"""A server's side of one connection: bytes in, requests out; answers in, bytes out.

    bytes ─► feed ─► handle ─► frames ─► Events: on_request, on_data, on_end, on_gone
    bytes ◄─ take_output ◄──── frames ◄─ answer, send, end, reset

It does no I/O and has no timers: its owner feeds it, writes what it has to say, and calls `sweep`
now and then. `handle` asks before each frame whether it may go on, so that the owner can leave the
rest for a later turn. Once `is_over` the owner writes what is left and closes.

Source: RFC 9113. Departures: priorities are ignored, as that document advises; a frame on a stream
that has ended is skipped and counted, since it may have crossed the end on its way.
"""

from collections.abc import Callable
from typing import Protocol

from penstock.base.ports import Buffer
from penstock.http2.allowance import Allowance
from penstock.http2.block import OpenBlock
from penstock.http2.codes import (
    ACK,
    END_HEADERS,
    END_STREAM,
    FRAME_BYTES_MAX,
    PRIORITY,
    WINDOW_MAX,
    ErrorCode,
    FrameType,
    Setting,
)
from penstock.http2.errors import ConnectionFault, StreamFault, TooMuch
from penstock.http2.frames import (
    SETTINGS_ACK,
    FrameHead,
    frame,
    goaway_frame,
    read_settings,
    read_window,
    reset_frame,
    settings_frame,
    without_padding,
)
from penstock.http2.hpack import Header, HeaderDecoder
from penstock.http2.limits import FRAMES_PER_USE, Http2Limits
from penstock.http2.received import ReceivedFrames
from penstock.http2.receiving import ReceiveSide
from penstock.http2.request_headers import check_request
from penstock.http2.sending import SendSide
from penstock.http2.shapes import check_shape
from penstock.http2.stream import NEVER, Stream

_PRIORITY_BYTES = 5
_SMALL_BYTES = 256
"""DATA below that which does not end a request is counted as a frame that carries nothing."""
_STREAMS_PER_FRAME = 16
"""To change the windows of so many streams counts as one frame more."""


class Events(Protocol):
    """What is told of requests. A stream of which on_gone was called takes no answer any more."""

    def on_request(self, stream: Stream, headers: list[Header]) -> None:
        """A request has begun."""

    def on_data(self, stream: Stream, data: Buffer) -> None:
        """Some of its body has come; it counts as held until `consume`."""

    def on_end(self, stream: Stream) -> None:
        """The client has sent all of it."""

    def on_gone(self, stream: Stream) -> None:
        """It has ended before its answer."""


class ServerConnection:
    """See the module."""

    def __init__(self, events: Events, limits: Http2Limits, now_ms: Callable[[], int]) -> None:
        """`now_ms` tells monotonic time."""
        self._events = events
        self._limits = limits
        self._now_ms = now_ms
        self._began_ms = now = now_ms()
        self._received = ReceivedFrames()
        self._has_settings = False
        self._streams: dict[int, Stream] = {}
        self._last_id = 0
        self._block: OpenBlock | None = None
        self._decoder = HeaderDecoder(limits.header_list_bytes_max)
        self._frames = Allowance(limits.frames_burst, limits.frames_per_second, now)
        self._resets = Allowance(limits.resets_burst, limits.resets_per_second, now)
        self._send = SendSide()
        self._out = self._send.out
        told = (
            (Setting.MAX_CONCURRENT_STREAMS, limits.streams_max),
            (Setting.MAX_HEADER_LIST_SIZE, limits.header_list_bytes_max),
        )
        self._out.append(settings_frame(told))
        self._receive = ReceiveSide(limits, self._out)
        self.is_draining = False
        self.fault: ConnectionFault | None = None
        """Why the connection is over, if its client is why."""
        self._handlers: dict[int, Callable[[FrameHead, memoryview], None]] = {
            FrameType.DATA: self._on_data,
            FrameType.HEADERS: self._on_headers,
            FrameType.RST_STREAM: self._on_reset,
            FrameType.SETTINGS: self._on_settings,
            FrameType.PING: self._on_ping,
            FrameType.WINDOW_UPDATE: self._on_window,
            FrameType.CONTINUATION: self._on_continuation,
        }

    # --- for its owner -------------------------------------------------------------------------

    @property
    def is_over(self) -> bool:
        """Whether it is to be closed once its output is written."""
        return self.fault is not None or (self.is_draining and not self._streams)

    @property
    def streams(self) -> list[Stream]:
        """Requests without their whole answer, oldest first."""
        return list(self._streams.values())

    @property
    def held_bytes(self) -> int:
        """Bytes of requests and of answers that wait for the client or for whoever serves it."""
        block = 0 if self._block is None else len(self._block.data)
        return len(self._received) + block + self._receive.held + self._send.queued

    def feed(self, data: Buffer) -> None:
        """Take bytes that have come; `handle` looks at them."""
        self._received.feed(data)

    def handle(self, may_go_on: Callable[[], bool]) -> bool:
        """Handle whole frames; returns whether some are left since it might not go on."""
        received = self._received
        try:
            while not self.is_over and (found := received.next()):
                self._on_frame(*found)
                if not may_go_on():
                    break
            return not self.is_over and received.has_next()
        except ConnectionFault as fault:
            self._fail(fault)
            return False
        finally:
            received.let_go()

    def take_output(self) -> bytes:
        """Return what is to be written, once."""
        data = b"".join(self._out)
        self._out.clear()
        return data

    def sweep(self) -> None:
        """End what has taken too long."""
        now, limits = self._now_ms(), self._limits
        if not self._has_settings and now - self._began_ms > limits.settings_ms:
            self._fail(ConnectionFault(ErrorCode.SETTINGS_TIMEOUT, "no settings have come"))
        elif self._block is not None and now - self._block.began_ms > limits.block_ms:
            self._fail(TooMuch("a header block does not end"))
        elif now - self._send.oldest_blocked_ms() > limits.request_ms:
            self._fail(TooMuch("answers are not taken"))
        else:
            self._end_overdue(now)

    def _end_overdue(self, now_ms: int) -> None:
        try:
            for stream in [one for one in self._streams.values() if one.due_ms < now_ms]:
                self._break(stream.stream_id, ErrorCode.CANCEL)
        except ConnectionFault as fault:
            self._fail(fault)

    def drain(self) -> None:
        """Serve what has begun, and refuse the rest: its client sends it elsewhere."""
        if not self.is_draining and self.fault is None:
            self.is_draining = True
            self._out.append(goaway_frame(self._last_id, ErrorCode.NO_ERROR))

    def lost(self) -> None:
        """End all requests: the connection is gone, and takes nothing any more."""
        for stream in list(self._streams.values()):
            self._drop(stream)
            self._events.on_gone(stream)
        self._handlers.clear()  # they refer to this: it would stay until all objects are looked at

    # --- answers -------------------------------------------------------------------------------

    def answer(self, stream: Stream, block: bytes, *, is_end: bool = False) -> None:
        """Send the headers of an answer; `is_end` if there is nothing else."""
        self._send.headers(stream, block, is_end=is_end)
        if is_end:
            self._close(stream)

    def send(self, stream: Stream, data: bytes) -> None:
        """Send a part of the body of an answer."""
        self._send.data(stream, data, self._now_ms())
        self._note_uses()
        if self._send.queued > self._limits.queued_bytes_max:
            self._fail(TooMuch("answers are not taken"))

    def end(self, stream: Stream, trailers: bytes) -> None:
        """End an answer behind what was sent."""
        if self._send.trailers(stream, trailers):
            self._close(stream)

    def consume(self, stream: Stream, size: int) -> None:
        """Say that so many bytes of a request are not kept any more, so that others may come."""
        self._receive.consume(stream, size)

    def expect(self, stream: Stream, *, is_begun: bool) -> None:
        """Say whether a part of a request has come that has to be whole in time."""
        if not is_begun:
            stream.due_ms = NEVER
        elif stream.due_ms == NEVER:
            stream.due_ms = self._now_ms() + self._limits.request_ms

    # --- frames --------------------------------------------------------------------------------

    def _on_frame(self, head: FrameHead, payload: memoryview) -> None:
        if not self._has_settings and (head.kind != FrameType.SETTINGS or head.flags & ACK):
            raise _broken("the first frame has no settings")
        if self._block is not None and (
            head.kind != FrameType.CONTINUATION or head.stream_id != self._block.stream_id
        ):
            raise _broken("a header block is interrupted")
        check_shape(head)
        handler = self._handlers.get(head.kind)
        if handler is None:
            self._charge(1)
            return
        try:
            handler(head, payload)
        except StreamFault as fault:
            self._break(head.stream_id, fault.code)

    def _on_data(self, head: FrameHead, payload: memoryview) -> None:
        stream = self._stream(head)
        data = without_padding(head, payload)
        is_end = bool(head.flags & END_STREAM)
        if len(data) < _SMALL_BYTES and not is_end:
            self._charge(1)
        self._receive.came(head.length)
        if stream is None:
            self._charge(1)
            return
        if stream.is_whole:
            raise StreamFault(ErrorCode.STREAM_CLOSED, "data behind the end")
        self._receive.take(stream, head.length)
        if head.length > len(data):
            self._receive.consume(stream, head.length - len(data))
        self._events.on_data(stream, data)
        if stream.stream_id not in self._streams:
            return
        if is_end:
            self._end_request(stream)
        else:
            self._receive.ask_on(stream)

    def _on_headers(self, head: FrameHead, payload: memoryview) -> None:
        if not head.stream_id & 1:
            raise _broken("a request on a stream that clients do not open")
        data = without_padding(head, payload)
        if head.flags & PRIORITY:
            if len(data) < _PRIORITY_BYTES:
                raise ConnectionFault(ErrorCode.FRAME_SIZE_ERROR, "HEADERS without its priority")
            data = data[_PRIORITY_BYTES:]
        is_end = bool(head.flags & END_STREAM)
        self._block = OpenBlock(head.stream_id, self._now_ms(), self._limits, is_end=is_end)
        self._block.add(data)
        if head.flags & END_HEADERS:
            self._end_block()

    def _on_continuation(self, head: FrameHead, payload: memoryview) -> None:
        if self._block is None:
            raise _broken("CONTINUATION of nothing")
        self._charge(1)
        self._block.go_on(payload)
        if head.flags & END_HEADERS:
            self._end_block()

    def _end_block(self) -> None:
        assert self._block is not None
        block, self._block = self._block, None
        headers = self._decoder.decode(bytes(block.data))
        stream = self._streams.get(block.stream_id)
        if stream is not None:
            self._on_trailers(stream, is_end=block.is_end)
        elif block.stream_id <= self._last_id:
            self._charge(1)
        else:
            self._last_id = block.stream_id
            self._begin(block, headers)

    def _on_trailers(self, stream: Stream, *, is_end: bool) -> None:
        if stream.is_whole or not is_end:
            raise StreamFault(ErrorCode.PROTOCOL_ERROR, "headers in the middle of a request")
        self._end_request(stream)

    def _begin(self, block: OpenBlock, headers: list[Header]) -> None:
        if self.is_draining or len(self._streams) >= self._limits.streams_max:
            raise StreamFault(ErrorCode.REFUSED_STREAM, "too many requests are open")
        check_request(headers)
        self._frames.give(FRAMES_PER_USE)
        due_ms = self._now_ms() + self._limits.request_ms
        stream = Stream(block.stream_id, self._send.initial_window, due_ms)
        self._streams[block.stream_id] = stream
        self._events.on_request(stream, headers)
        if block.is_end and stream.stream_id in self._streams:
            self._end_request(stream)

    def _end_request(self, stream: Stream) -> None:
        stream.is_whole = True
        stream.due_ms = NEVER
        self._events.on_end(stream)

    def _on_reset(self, head: FrameHead, payload: memoryview) -> None:
        stream = self._stream(head)
        del payload
        self._count_reset()
        if stream is not None:
            self._drop(stream)
            self._events.on_gone(stream)

    def _on_ping(self, head: FrameHead, payload: memoryview) -> None:
        self._charge(1)
        if not head.flags & ACK:
            self._out.append(frame(FrameType.PING, ACK, 0, payload))

    def _on_window(self, head: FrameHead, payload: memoryview) -> None:
        self._charge(1)
        size = read_window(payload)
        if not head.stream_id:
            if not size:
                raise _broken("a window that widens by nothing")
            for stream in self._send.open_all(size, self._now_ms()):
                self._close(stream)
        else:
            self._widen(head, size)
        self._note_uses()

    def _widen(self, head: FrameHead, size: int) -> None:
        stream = self._stream(head)
        if stream is None:
            return
        if not size:
            raise StreamFault(ErrorCode.PROTOCOL_ERROR, "a window that widens by nothing")
        if self._send.open_one(stream, size, self._now_ms()):
            self._close(stream)

    def _on_settings(self, head: FrameHead, payload: memoryview) -> None:
        self._charge(1)
        if head.flags & ACK:
            if payload:
                raise ConnectionFault(ErrorCode.FRAME_SIZE_ERROR, "SETTINGS of a wrong length")
            return
        settings = read_settings(payload)
        self._charge(len(settings))
        self._has_settings = True
        self._out.append(SETTINGS_ACK)  # before data that the settings let through
        for number, value in settings:
            self._set(number, value)

    def _set(self, number: int, value: int) -> None:
        if number == Setting.INITIAL_WINDOW_SIZE:
            if value > WINDOW_MAX:
                raise ConnectionFault(ErrorCode.FLOW_CONTROL_ERROR, "a window beyond 2^31 - 1")
            more, self._send.initial_window = value - self._send.initial_window, value
            self._charge(len(self._streams) // _STREAMS_PER_FRAME)
            for stream in list(self._streams.values()):
                self._change_window(stream, more)
        elif number == Setting.ENABLE_PUSH and value > 1:
            raise _broken("a setting that is neither 0 nor 1")
        elif number == Setting.MAX_FRAME_SIZE and not FRAME_BYTES_MAX <= value < 1 << 24:
            raise _broken("frames of a size that there is not")

    def _change_window(self, stream: Stream, more: int) -> None:
        try:
            if self._send.open_one(stream, more, self._now_ms()):
                self._close(stream)
        except StreamFault as fault:
            raise ConnectionFault(fault.code, fault.reason) from fault

    # --- streams -------------------------------------------------------------------------------

    def _stream(self, head: FrameHead) -> Stream | None:
        """Return the stream of a frame; None if it has ended. Raises ConnectionFault."""
        if head.stream_id > self._last_id or not head.stream_id & 1:
            raise _broken("a frame of a stream that nobody has opened")
        return self._streams.get(head.stream_id)

    def _close(self, stream: Stream) -> None:
        """Forget a stream whose answer is sent; its client need not send the rest."""
        if not stream.is_whole:
            self._out.append(reset_frame(stream.stream_id, ErrorCode.NO_ERROR))
        self._drop(stream)
        stream.call = None  # which refers to its stream

    def _break(self, stream_id: int, code: ErrorCode) -> None:
        """End a stream that its client, or time, has broken."""
        self._out.append(reset_frame(stream_id, code))
        stream = self._streams.get(stream_id)
        if stream is not None:
            self._drop(stream)
            self._events.on_gone(stream)
        self._count_reset()

    def _drop(self, stream: Stream) -> None:
        del self._streams[stream.stream_id]
        self._send.forget(stream)
        self._receive.forget(stream)

    def _count_reset(self) -> None:
        if not self._resets.take(1, self._now_ms()):
            raise TooMuch("too many requests end before their answer")

    def _charge(self, count: int) -> None:
        if not self._frames.take(count, self._now_ms()):
            raise TooMuch("too many frames that carry nothing of a request")

    def _note_uses(self) -> None:
        uses, self._send.uses = self._send.uses, 0
        if uses:
            self._frames.give(uses * FRAMES_PER_USE)

    def _fail(self, fault: ConnectionFault) -> None:
        if self.fault is None:
            self.fault = fault.with_traceback(None)  # whose frames refer to this
            self._out.append(goaway_frame(self._last_id, fault.code, fault.reason))


def _broken(reason: str) -> ConnectionFault:
    return ConnectionFault(ErrorCode.PROTOCOL_ERROR, reason)
