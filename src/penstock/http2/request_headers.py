"""Whether the headers of a request are as HTTP/2 wants them.

Source: RFC 9113, sections 8.2 and 8.3.
"""

import re
from typing import Final

from penstock.http2.codes import ErrorCode
from penstock.http2.errors import StreamFault
from penstock.http2.hpack import Header

_NEEDED: Final = frozenset({b":method", b":scheme", b":path"})
_PSEUDO: Final = _NEEDED | {b":authority"}
_OF_CONNECTIONS: Final = frozenset(
    {b"connection", b"keep-alive", b"proxy-connection", b"transfer-encoding", b"upgrade"}
)
_BAD: Final = re.compile(rb"[\0\r\n]").search
_BAD_IN_NAME: Final = re.compile(rb"[\0\r\n A-Z]").search


def check_request(headers: list[Header]) -> None:
    """Raise StreamFault for a request that is malformed."""
    pseudo: set[bytes] = set()
    is_behind = False
    for name, value in headers:
        if name[:1] == b":":
            if is_behind or name in pseudo or name not in _PSEUDO:
                raise _malformed("a header of the protocol's own that is not in its place")
            pseudo.add(name)
        else:
            is_behind = True
            _check(name, value)
        if _BAD(value):
            raise _malformed("a header with a line end")
    if not pseudo >= _NEEDED:
        raise _malformed("a request without method, scheme or path")


def _check(name: bytes, value: bytes) -> None:
    if not name or _BAD_IN_NAME(name):
        raise _malformed("a name of a header with a letter that is not permitted")
    if name in _OF_CONNECTIONS or (name == b"te" and value != b"trailers"):
        raise _malformed("a header that belongs to HTTP/1.1")


def _malformed(reason: str) -> StreamFault:
    return StreamFault(ErrorCode.PROTOCOL_ERROR, reason)
