"""Bytes as they come, and the frames in them.

Source: RFC 9113, sections 3.4 and 4.1.
"""

from penstock.base.ports import Buffer
from penstock.http2.codes import FRAME_BYTES_MAX, FRAME_HEAD_BYTES, PREFACE, ErrorCode
from penstock.http2.errors import ConnectionFault
from penstock.http2.frames import FrameHead, read_head


class ReceivedFrames:
    """What was fed and is not taken. Its owner feeds no more than it can keep."""

    __slots__ = ("_at", "_buffer", "_has_preface")

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._at = 0
        self._has_preface = False

    def __len__(self) -> int:
        """Bytes that are not taken."""
        return len(self._buffer) - self._at

    def feed(self, data: Buffer) -> None:
        """Take bytes."""
        self._buffer += data

    def next(self) -> tuple[FrameHead, memoryview] | None:
        """Return the next whole frame; None if there is none. Raises ConnectionFault."""
        end = self._end()
        if not end:
            return None
        head = read_head(self._buffer, self._at)
        payload = memoryview(bytes(self._buffer[self._at + FRAME_HEAD_BYTES : end]))
        self._at = end
        return head, payload

    def has_next(self) -> bool:
        """Whether there is a whole frame. Raises ConnectionFault."""
        return self._end() > 0

    def let_go(self) -> None:
        """Free what was taken."""
        del self._buffer[: self._at]
        self._at = 0

    def _end(self) -> int:
        """Return where the next frame ends; 0 if it is not whole."""
        if not self._has_preface and not self._take_preface():
            return 0
        if len(self) < FRAME_HEAD_BYTES:
            return 0
        length = int.from_bytes(self._buffer[self._at : self._at + 3])
        if length > FRAME_BYTES_MAX:
            raise ConnectionFault(ErrorCode.FRAME_SIZE_ERROR, "a frame that is too large")
        end = self._at + FRAME_HEAD_BYTES + length
        return end if end <= len(self._buffer) else 0

    def _take_preface(self) -> bool:
        begun = bytes(self._buffer[: len(PREFACE)])
        if not PREFACE.startswith(begun):
            raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, "this is not HTTP/2")
        self._has_preface = begun == PREFACE
        self._at = len(PREFACE) if self._has_preface else 0
        return self._has_preface
