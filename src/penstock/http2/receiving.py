"""What a client may send: windows of the connection and of its streams, and what they hold.

    each stream        64 KiB in any case
    a stream that      gets 64 KiB after another, as long as all of them together have no more than
    needs more         `more_bytes_max` that nobody has consumed
    one of the others  goes on in any case, until it is whole: so they do not wait for each other

So the connection's own window is never what a stream waits for: it is given back as bytes come.

Source: RFC 9113, section 5.2; the policy is ours.
"""

from penstock.http2.codes import FRAME_BYTES_MAX, WINDOW_BYTES, ErrorCode
from penstock.http2.errors import ConnectionFault, StreamFault
from penstock.http2.frames import window_frame
from penstock.http2.limits import CONNECTION_WINDOW, Http2Limits
from penstock.http2.stream import Stream

GRANT_BYTES = 64 << 10


class ReceiveSide:
    """See the module; one for each connection."""

    __slots__ = (
        "_favoured",
        "_limits",
        "_more",
        "_out",
        "_stalled",
        "_unreturned",
        "_window",
        "held",
    )

    def __init__(self, limits: Http2Limits, out: list[bytes]) -> None:
        """`out` takes frames for the client."""
        self._limits = limits
        self._out = out
        self._window = CONNECTION_WINDOW
        self._unreturned = 0
        self.held = 0
        """Bytes of all streams that have come and are not consumed."""
        self._more = 0
        self._favoured: Stream | None = None
        self._stalled: dict[Stream, None] = {}
        out.append(window_frame(0, CONNECTION_WINDOW - WINDOW_BYTES))

    def came(self, size: int) -> None:
        """Count the payload of a DATA frame, whatever becomes of it. Raises ConnectionFault."""
        self._window -= size
        if self._window < 0:
            raise ConnectionFault(ErrorCode.FLOW_CONTROL_ERROR, "more than the window lets through")
        self._unreturned += size
        if self._unreturned >= CONNECTION_WINDOW // 2:
            self._out.append(window_frame(0, self._unreturned))
            self._window += self._unreturned
            self._unreturned = 0

    def take(self, stream: Stream, size: int) -> None:
        """Count it as held by its stream. Raises StreamFault."""
        stream.receive_window -= size
        if stream.receive_window < 0:
            raise StreamFault(ErrorCode.FLOW_CONTROL_ERROR, "more than the window lets through")
        stream.held += size
        self.held += size
        if stream.held > self._limits.request_bytes_max + WINDOW_BYTES:
            raise StreamFault(ErrorCode.ENHANCE_YOUR_CALM, "a request that is too large")

    def ask_on(self, stream: Stream) -> None:
        """Let a stream send more, where it is about to wait for that."""
        if stream.receive_window < FRAME_BYTES_MAX and stream not in self._stalled:
            self._grant_or_stall(stream)

    def consume(self, stream: Stream, size: int) -> None:
        """Count bytes as held no more: what has come is read."""
        stream.held -= size
        self.held -= size
        back = min(stream.extra, size)
        stream.extra -= back
        self._more -= back
        stream.unreturned += size - back
        if stream.unreturned >= WINDOW_BYTES // 2 and not stream.is_whole:
            self._give(stream, stream.unreturned)
            stream.unreturned = 0
        if back:
            self._go_on()

    def forget(self, stream: Stream) -> None:
        """Count a stream no more."""
        self.held -= stream.held
        self._more -= stream.extra
        stream.held = stream.extra = 0
        self._stalled.pop(stream, None)
        if self._favoured is stream:
            self._favoured = None
        self._go_on()

    def _grant_or_stall(self, stream: Stream) -> bool:
        """Whether the stream has got more; else it waits, unless it is the one that need not."""
        if self._more + GRANT_BYTES > self._limits.more_bytes_max:
            if self._favoured is None:
                self._favoured = stream
            if self._favoured is not stream:
                self._stalled[stream] = None
                return False
        self._stalled.pop(stream, None)
        stream.extra += GRANT_BYTES
        self._more += GRANT_BYTES
        self._give(stream, GRANT_BYTES)
        return True

    def _go_on(self) -> None:
        for stream in list(self._stalled):
            if not self._grant_or_stall(stream):
                return

    def _give(self, stream: Stream, size: int) -> None:
        stream.receive_window += size
        self._out.append(window_frame(stream.stream_id, size))
