"""Numbers of HTTP/2.

Source: RFC 9113, sections 6, 6.5.2 and 7.
"""

from enum import IntEnum
from typing import Final

PREFACE: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
"""What a client sends before its first frame."""
FRAME_HEAD_BYTES: Final = 9
FRAME_BYTES_MAX: Final = 16_384
"""Payload of a frame, either way: the least that everybody takes, and nobody is told of more."""
WINDOW_BYTES: Final = 65_535
"""Of a connection or a stream until somebody says otherwise."""
WINDOW_MAX: Final = (1 << 31) - 1


class FrameType(IntEnum):
    """Kinds of frames; others are skipped."""

    DATA = 0
    HEADERS = 1
    PRIORITY = 2
    RST_STREAM = 3
    SETTINGS = 4
    PUSH_PROMISE = 5
    PING = 6
    GOAWAY = 7
    WINDOW_UPDATE = 8
    CONTINUATION = 9


END_STREAM: Final = 0x1
"""Of DATA and HEADERS."""
ACK: Final = 0x1
"""Of SETTINGS and PING."""
END_HEADERS: Final = 0x4
PADDED: Final = 0x8
PRIORITY: Final = 0x20


class Setting(IntEnum):
    """Settings; others are skipped."""

    HEADER_TABLE_SIZE = 1
    ENABLE_PUSH = 2
    MAX_CONCURRENT_STREAMS = 3
    INITIAL_WINDOW_SIZE = 4
    MAX_FRAME_SIZE = 5
    MAX_HEADER_LIST_SIZE = 6


class ErrorCode(IntEnum):
    """Why a stream or a connection ends."""

    NO_ERROR = 0
    PROTOCOL_ERROR = 1
    INTERNAL_ERROR = 2
    FLOW_CONTROL_ERROR = 3
    SETTINGS_TIMEOUT = 4
    STREAM_CLOSED = 5
    FRAME_SIZE_ERROR = 6
    REFUSED_STREAM = 7
    CANCEL = 8
    COMPRESSION_ERROR = 9
    CONNECT_ERROR = 10
    ENHANCE_YOUR_CALM = 11
    INADEQUATE_SECURITY = 12
    HTTP_1_1_REQUIRED = 13
