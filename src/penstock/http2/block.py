"""A header block that is on its way: HEADERS, and the CONTINUATION frames behind it.

Source: RFC 9113, section 6.10.
"""

from penstock.base.ports import Buffer
from penstock.http2.errors import TooMuch
from penstock.http2.limits import Http2Limits


class OpenBlock:
    """See the module."""

    __slots__ = ("_count", "_limits", "began_ms", "data", "is_end", "stream_id")

    def __init__(self, stream_id: int, began_ms: int, limits: Http2Limits, *, is_end: bool) -> None:
        """`is_end` is whether the request has nothing beside its headers."""
        self.stream_id = stream_id
        self.began_ms = began_ms
        self.is_end = is_end
        self.data = bytearray()
        self._limits = limits
        self._count = 0

    def go_on(self, data: Buffer) -> None:
        """Take what a CONTINUATION has. Raises TooMuch."""
        self._count += 1
        if self._count > self._limits.continuations_max:
            raise TooMuch("a header block in too many frames")
        self.add(data)

    def add(self, data: Buffer) -> None:
        """Take a part of the block. Raises TooMuch."""
        self.data += data
        if len(self.data) > self._limits.block_bytes_max:
            raise TooMuch(f"a header block of more than {self._limits.block_bytes_max} bytes")
