"""Errors of the http2 room: what a client has done that ends its connection, or one stream of it.

    Http2Error
      ConnectionFault(code, reason)    the connection ends with a GOAWAY
        TooMuch(reason)                its client asks for more than it may
      StreamFault(code, reason)        the stream ends with a RST_STREAM

Source: RFC 9113, section 5.4.
"""

from penstock.base.errors import PlatformError
from penstock.http2.codes import ErrorCode


class Http2Error(PlatformError):
    """Root of the errors of this room."""

    def __init__(self, code: ErrorCode, reason: str) -> None:
        """`reason` is one short phrase, for the peer and for logs."""
        super().__init__(reason)
        self.code = code
        self.reason = reason


class ConnectionFault(Http2Error):
    """Nothing more can be read of this connection."""


class TooMuch(ConnectionFault):
    """A bound against floods."""

    def __init__(self, reason: str) -> None:
        super().__init__(ErrorCode.ENHANCE_YOUR_CALM, reason)


class StreamFault(Http2Error):
    """One request is broken, the others go on."""
