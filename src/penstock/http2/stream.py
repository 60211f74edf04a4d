"""One stream: a request and its answer.

Source: RFC 9113, section 5.1. A stream that is closed on both sides is forgotten.
"""

from collections import deque
from typing import Any, Final

from penstock.http2.codes import WINDOW_BYTES

NEVER: Final = 1 << 62


class Stream:
    """What both sides of a connection know of a stream. `call` belongs to the layer above."""

    __slots__ = (
        "blocked_ms",
        "call",
        "due_ms",
        "extra",
        "held",
        "is_whole",
        "queue",
        "receive_window",
        "send_window",
        "stream_id",
        "trailers",
        "unreturned",
    )

    def __init__(self, stream_id: int, send_window: int, due_ms: int) -> None:
        """`due_ms` is when what has begun to come has to be whole."""
        self.stream_id = stream_id
        self.call: Any = None
        self.is_whole = False
        """Whether the client has sent all of its request."""
        self.due_ms = due_ms
        self.receive_window = WINDOW_BYTES
        self.held = 0
        """Bytes that have come and are not consumed."""
        self.extra = 0
        """Bytes that were asked for beyond the first window, and are not consumed."""
        self.unreturned = 0
        """Bytes that are consumed, and that the client may not send again yet."""
        self.send_window = send_window
        self.queue: deque[memoryview] = deque()
        """Data for which there is no window."""
        self.trailers: bytes | None = None
        """The block that follows the data."""
        self.blocked_ms = NEVER
        """Since when the queue does not move."""
