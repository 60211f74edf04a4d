"""What the headers of a call say.

Source: gRPC over HTTP/2 (`Request-Headers`, `Timeout`, `Message-Encoding`), and the metadata that
RocketMQ's clients send with each call.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple

from penstock.grpc.errors import CallFault
from penstock.grpc.statuses import GrpcStatus
from penstock.http2.hpack import Header

_CONTENT_TYPE: Final = b"application/grpc"
_SERVICE: Final = b"/apache.rocketmq.v2.MessagingService/"
_UNIT_US: Final = {
    b"H": 3_600_000_000,
    b"M": 60_000_000,
    b"S": 1_000_000,
    b"m": 1_000,
    b"u": 1,
    b"n": 0.001,
}
_DIGITS_MAX: Final = 8
_TIMEOUT_MS_MAX: Final = 86_400_000
"""What is longer is no deadline to a timer."""
TEXT_BYTES_MAX: Final = 255
"""Of what a client tells about itself."""
IDENTITY: Final = b"identity"
GZIP: Final = b"gzip"


class CallHead(NamedTuple):
    """A call before its message."""

    method: str
    """The name of the method within the service."""
    encoding: bytes
    timeout_ms: int | None
    client_id: str
    language: str
    version: str
    """Of the client's software."""


def is_grpc(headers: list[Header]) -> bool:
    """Whether the request is meant for gRPC at all."""
    return any(n == b"content-type" and v.startswith(_CONTENT_TYPE) for n, v in headers)


def read_head(headers: list[Header]) -> CallHead:
    """Return what the headers of a call say; the first of a name counts. Raises CallFault."""
    named: dict[bytes, bytes] = {}
    for name, value in headers:
        named.setdefault(name, value)
    path = named[b":path"]
    if named[b":method"] != b"POST" or not path.startswith(_SERVICE):
        raise CallFault(GrpcStatus.UNIMPLEMENTED, "no such service here")
    encoding = named.get(b"grpc-encoding", IDENTITY)
    if encoding not in {IDENTITY, GZIP}:
        raise CallFault(GrpcStatus.UNIMPLEMENTED, "messages are taken as they are, or as gzip")
    return CallHead(
        path[len(_SERVICE) :].decode(errors="replace"),
        encoding,
        _timeout_ms(named.get(b"grpc-timeout")),
        _text(named, b"x-mq-client-id"),
        _text(named, b"x-mq-language"),
        _text(named, b"x-mq-client-version"),
    )


def _text(named: Mapping[bytes, bytes], name: bytes) -> str:
    return named.get(name, b"")[:TEXT_BYTES_MAX].decode(errors="replace")


def _timeout_ms(text: bytes | None) -> int | None:
    """Return a deadline in ms from now, rounded up; None without one. Raises CallFault."""
    if text is None:
        return None
    digits, unit = text[:-1], _UNIT_US.get(text[-1:])
    if unit is None or not digits.isdigit() or len(digits) > _DIGITS_MAX:
        raise CallFault(GrpcStatus.INTERNAL, "a grpc-timeout that is none")
    ms = -int(-int(digits) * unit // 1_000)
    return ms if ms <= _TIMEOUT_MS_MAX else None
