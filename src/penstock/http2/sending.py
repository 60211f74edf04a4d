"""Answers on their way: frames, and data that waits for windows.

    headers ─► at once        data ─► as windows permit, the rest in the stream's queue ─► trailers

Source: RFC 9113, sections 5.2 and 6.9.
"""

from penstock.http2.codes import (
    END_HEADERS,
    END_STREAM,
    FRAME_BYTES_MAX,
    WINDOW_BYTES,
    WINDOW_MAX,
    ErrorCode,
    FrameType,
)
from penstock.http2.errors import ConnectionFault, StreamFault
from penstock.http2.frames import frame, head_of
from penstock.http2.stream import NEVER, Stream

_USE_BYTES = 1 << 10
"""A frame of so much data is use of the connection."""


class SendSide:
    """See the module; one for each connection."""

    __slots__ = ("_blocked", "_window", "initial_window", "out", "queued", "uses")

    def __init__(self) -> None:
        self.out: list[bytes] = []
        """Frames to be written."""
        self._window = WINDOW_BYTES
        self.initial_window = WINDOW_BYTES
        """Of streams to come."""
        self.queued = 0
        """Bytes in the queues of all streams."""
        self.uses = 0
        """Frames of data that were worth one; the caller sets it to 0."""
        self._blocked: dict[Stream, None] = {}
        """Those with a queue, in the order in which they have begun to wait."""

    def headers(self, stream: Stream, block: bytes, *, is_end: bool) -> None:
        """Send the headers of an answer; `is_end` if they are all of it."""
        flags = END_HEADERS | (END_STREAM if is_end else 0)
        self.out.append(frame(FrameType.HEADERS, flags, stream.stream_id, block))

    def data(self, stream: Stream, data: bytes, now_ms: int) -> None:
        """Send data, or queue what windows do not let through."""
        if not data:
            return
        stream.queue.append(memoryview(data))
        self.queued += len(data)
        self._pump(stream, now_ms)

    def trailers(self, stream: Stream, block: bytes) -> bool:
        """End the answer behind its data; whether that is sent already."""
        stream.trailers = block
        return self._end(stream)

    def open_all(self, size: int, now_ms: int) -> list[Stream]:
        """Widen the window of the connection; return the streams that have ended by that.

        Raises ConnectionFault.
        """
        self._window += size
        if self._window > WINDOW_MAX:
            raise ConnectionFault(ErrorCode.FLOW_CONTROL_ERROR, "a window beyond 2^31 - 1")
        ended = []
        for stream in list(self._blocked):
            if self._window <= 0:
                break
            self._pump(stream, now_ms)
            if self._end(stream):
                ended.append(stream)
        return ended

    def open_one(self, stream: Stream, size: int, now_ms: int) -> bool:
        """Widen the window of a stream; whether it has ended by that. Raises StreamFault."""
        stream.send_window += size
        if stream.send_window > WINDOW_MAX:
            raise StreamFault(ErrorCode.FLOW_CONTROL_ERROR, "a window beyond 2^31 - 1")
        if not stream.queue:
            return False
        self._pump(stream, now_ms)
        return self._end(stream)

    def oldest_blocked_ms(self) -> int:
        """Since when the answer that waits longest does not move; NEVER if none waits."""
        return min((stream.blocked_ms for stream in self._blocked), default=NEVER)

    def forget(self, stream: Stream) -> None:
        """Drop what a stream has queued."""
        self.queued -= sum(map(len, stream.queue))
        stream.queue.clear()
        self._blocked.pop(stream, None)

    def _pump(self, stream: Stream, now_ms: int) -> None:
        queue = stream.queue
        while queue:
            piece = queue[0]
            size = min(len(piece), self._window, stream.send_window, FRAME_BYTES_MAX)
            if size <= 0 and piece:
                break
            self._window -= size
            stream.send_window -= size
            self.queued -= size
            self.uses += size >= _USE_BYTES
            self.out.append(head_of(FrameType.DATA, 0, stream.stream_id, size))
            self.out.append(bytes(piece[:size]))
            stream.blocked_ms = now_ms
            if size == len(piece):
                queue.popleft()
            else:
                queue[0] = piece[size:]
        if queue:
            stream.blocked_ms = min(stream.blocked_ms, now_ms)
            self._blocked[stream] = None
        else:
            stream.blocked_ms = NEVER
            self._blocked.pop(stream, None)

    def _end(self, stream: Stream) -> bool:
        if stream.queue or stream.trailers is None:
            return False
        self.headers(stream, stream.trailers, is_end=True)
        return True
