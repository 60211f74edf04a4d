"""What the head of a frame has to be like for its kind, whatever its payload says.

Source: RFC 9113, section 6.
"""

from typing import Final

from penstock.http2.codes import ErrorCode as Code
from penstock.http2.codes import FrameType
from penstock.http2.errors import ConnectionFault
from penstock.http2.frames import FrameHead

_OF_CONNECTION: Final = frozenset({FrameType.SETTINGS, FrameType.PING, FrameType.GOAWAY})
_OF_STREAM: Final = frozenset(
    {
        FrameType.DATA,
        FrameType.HEADERS,
        FrameType.PRIORITY,
        FrameType.RST_STREAM,
        FrameType.CONTINUATION,
    }
)
_LENGTHS: Final[dict[int, int]] = {
    FrameType.PRIORITY: 5,
    FrameType.RST_STREAM: 4,
    FrameType.PING: 8,
    FrameType.WINDOW_UPDATE: 4,
}
_GOAWAY_BYTES_MIN: Final = 8


def check_shape(head: FrameHead) -> None:
    """Raise ConnectionFault for a frame that no client may send."""
    kind, length = head.kind, head.length
    if kind == FrameType.PUSH_PROMISE:
        raise ConnectionFault(Code.PROTOCOL_ERROR, "clients push nothing")
    if (kind in _OF_CONNECTION and head.stream_id) or (kind in _OF_STREAM and not head.stream_id):
        raise ConnectionFault(Code.PROTOCOL_ERROR, "a frame of a stream where it can not be")
    if length != _LENGTHS.get(kind, length) or (
        kind == FrameType.GOAWAY and length < _GOAWAY_BYTES_MIN
    ):
        raise ConnectionFault(Code.FRAME_SIZE_ERROR, "a frame of a wrong length")
