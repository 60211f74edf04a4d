"""Frames as bytes.

    length 3, type 1, flags 1, stream 4 (the first bit is reserved), payload

Source: RFC 9113, section 4.1.
"""

from collections.abc import Iterable
from struct import Struct
from typing import Final, NamedTuple

from penstock.base.ports import Buffer
from penstock.http2.codes import (
    ACK,
    FRAME_HEAD_BYTES,
    PADDED,
    ErrorCode,
    FrameType,
)
from penstock.http2.errors import ConnectionFault

_HEAD: Final = Struct(">HBBBI")
_SETTING: Final = Struct(">HI")
_UINT32: Final = Struct(">I")
_STREAM_MASK: Final = (1 << 31) - 1
_DEBUG_BYTES_MAX: Final = 200


class FrameHead(NamedTuple):
    """The nine bytes before a payload."""

    length: int
    kind: int
    """A FrameType, or one that is skipped."""
    flags: int
    stream_id: int


def read_head(data: Buffer, at: int) -> FrameHead:
    """Return the head of the frame at `at`; its bytes are there."""
    high, low, kind, flags, stream_id = _HEAD.unpack_from(data, at)
    return FrameHead(high << 8 | low, kind, flags, stream_id & _STREAM_MASK)


def frame(kind: FrameType, flags: int, stream_id: int, payload: Buffer = b"") -> bytes:
    """Return a whole frame."""
    size = len(payload)
    return _HEAD.pack(size >> 8, size & 255, kind, flags, stream_id) + payload


def head_of(kind: FrameType, flags: int, stream_id: int, size: int) -> bytes:
    """Return the head of a frame whose payload of `size` bytes follows."""
    return _HEAD.pack(size >> 8, size & 255, kind, flags, stream_id)


def settings_frame(settings: Iterable[tuple[int, int]]) -> bytes:
    """Return this side's settings."""
    return frame(FrameType.SETTINGS, 0, 0, b"".join(_SETTING.pack(*one) for one in settings))


def window_frame(stream_id: int, size: int) -> bytes:
    """Return a WINDOW_UPDATE; stream 0 is the connection."""
    return frame(FrameType.WINDOW_UPDATE, 0, stream_id, _UINT32.pack(size))


def reset_frame(stream_id: int, code: ErrorCode) -> bytes:
    """Return a RST_STREAM."""
    return frame(FrameType.RST_STREAM, 0, stream_id, _UINT32.pack(code))


def goaway_frame(last_id: int, code: ErrorCode, reason: str = "") -> bytes:
    """Return a GOAWAY that says up to which stream requests are served."""
    debug = reason.encode()[:_DEBUG_BYTES_MAX]
    return frame(FrameType.GOAWAY, 0, 0, _UINT32.pack(last_id) + _UINT32.pack(code) + debug)


SETTINGS_ACK: Final = frame(FrameType.SETTINGS, ACK, 0)


def read_settings(payload: Buffer) -> list[tuple[int, int]]:
    """Return what a SETTINGS frame has, in order. Raises ConnectionFault."""
    if len(payload) % _SETTING.size:
        raise ConnectionFault(ErrorCode.FRAME_SIZE_ERROR, "SETTINGS of a wrong length")
    return list(_SETTING.iter_unpack(payload))


def read_window(payload: Buffer) -> int:
    """Return by how much a WINDOW_UPDATE widens; its length is checked."""
    return int(_UINT32.unpack(payload)[0]) & _STREAM_MASK


def without_padding(head: FrameHead, payload: memoryview) -> memoryview:
    """Return the payload of DATA or HEADERS without its padding. Raises ConnectionFault."""
    if not head.flags & PADDED:
        return payload
    if not payload:
        raise ConnectionFault(ErrorCode.FRAME_SIZE_ERROR, "a padded frame without a length")
    end = len(payload) - payload[0]
    if end < 1:
        raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, "more padding than a frame has")
    return payload[1:end]


assert _HEAD.size == FRAME_HEAD_BYTES
