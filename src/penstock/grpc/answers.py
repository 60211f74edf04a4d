"""Header blocks of answers, and messages with the five bytes before them.

    an answer        200, application/grpc    messages    grpc-status 0
    a status alone   200, application/grpc, grpc-status, grpc-message

Source: gRPC over HTTP/2 (`Responses`, `Length-Prefixed-Message`; `grpc-message` is
percent-encoded).
"""

from struct import Struct
from typing import Final
from urllib.parse import quote

from penstock.grpc.statuses import GrpcStatus
from penstock.http2.hpack import Header, encode_headers

_PREFIX: Final = Struct(">BI")
PREFIX_BYTES: Final = _PREFIX.size
_TEXT_CHARS_MAX: Final = 1_024
_PLAIN: Final = " !\"#$&'()*+,/:;<=>?@[\\]^`{|}"
"""What stays as it is beside letters, digits and _.-~: all that can be printed but %."""

_HEAD: Final[list[Header]] = [
    (b":status", b"200"),
    (b"content-type", b"application/grpc"),
    (b"grpc-accept-encoding", b"identity,gzip"),
]
HEAD: Final = encode_headers(_HEAD)
"""Before the messages of an answer."""
NOT_GRPC: Final = encode_headers([(b":status", b"415")])
"""All of an answer to what is no call of gRPC."""


def prefixed(message: bytes) -> bytes:
    """Return a message as it is sent."""
    return _PREFIX.pack(0, len(message)) + message


def read_prefix(data: bytearray) -> tuple[int, int]:
    """Return whether the message there is compressed, 0 or 1, and its length in bytes."""
    flag, size = _PREFIX.unpack_from(data)
    return flag, size


def trailers(status: GrpcStatus, text: str = "") -> bytes:
    """Return the block behind the messages."""
    return encode_headers(_status(status, text))


def status_alone(status: GrpcStatus, text: str) -> bytes:
    """Return the block that is all of an answer."""
    return encode_headers([*_HEAD, *_status(status, text)])


def _status(status: GrpcStatus, text: str) -> list[Header]:
    told = [(b"grpc-status", b"%d" % status)]
    if text:
        told.append((b"grpc-message", quote(text[:_TEXT_CHARS_MAX], safe=_PLAIN).encode()))
    return told


OK: Final = trailers(GrpcStatus.OK)
