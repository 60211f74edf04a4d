"""A checked reader of requests, which the hand-written parsers use off their short paths.

Every read is checked against the bytes left; so are counts before a caller loops, and the sum of
all counts of one request has a cap.

Source: Kafka's protocol guide (types), KIP-482; the rules of decode.py without its closures.
"""

import struct
from typing import Any

from penstock.protocol.errors import MalformedRequest
from penstock.protocol.header import skip_tags
from penstock.protocol.varint import read_uvarint

_NAME_BYTES_MAX = 0x7FFF
_INT16 = struct.Struct(">h")
_INT32 = struct.Struct(">i")
_INT64 = struct.Struct(">q")
_INT32_PAIR = struct.Struct(">ii")


class Walker:
    """A position in a frame; methods read one item and advance, or raise MalformedRequest."""

    __slots__ = ("_elements_left", "_is_flexible", "at", "frame")

    def __init__(self, frame: memoryview, at: int, is_flexible: bool, elements_max: int) -> None:
        self.frame = frame
        self.at = at
        self._is_flexible = is_flexible
        self._elements_left = elements_max

    def int16(self) -> int:
        return self._unpack(_INT16)

    def int32(self) -> int:
        return self._unpack(_INT32)

    def int64(self) -> int:
        return self._unpack(_INT64)

    def unpack(self, layout: struct.Struct) -> tuple[Any, ...]:
        """Read fields of fixed sizes at once."""
        try:
            values = layout.unpack_from(self.frame, self.at)
        except struct.error:
            raise MalformedRequest("the frame ends inside a field") from None
        self.at += layout.size
        return values

    def _unpack(self, layout: struct.Struct) -> int:
        (value,) = self.unpack(layout)
        return int(value)

    def take(self, size: int) -> bytes:
        """Return the next `size` bytes."""
        end = self.at + size
        if end > len(self.frame):
            raise MalformedRequest("the frame ends inside a field")
        raw = bytes(self.frame[self.at : end])
        self.at = end
        return raw

    def _length(self, legacy: struct.Struct) -> int:
        if not self._is_flexible:
            length = self._unpack(legacy)
        else:
            length, self.at = read_uvarint(self.frame, self.at)
            length -= 1
        if length < -1 or length > len(self.frame) - self.at:
            raise MalformedRequest("a length is negative or beyond the frame")
        return length

    def count(self, min_bytes: int = 1) -> int:
        """Return the count of an array that may not be null, of elements of >= min_bytes."""
        count = self._length(_INT32)
        if count < 0 or count * min_bytes > len(self.frame) - self.at:
            raise MalformedRequest("an array is null or has more elements than there is room for")
        self._elements_left -= count
        if self._elements_left < 0:
            raise MalformedRequest("too many array elements in one message")
        return count

    def name(self) -> bytes:
        """Return a string that may not be null, undecoded."""
        length = self._length(_INT16)
        if not 0 <= length <= _NAME_BYTES_MAX:
            raise MalformedRequest("a string is null or too long")
        return self.take(length)

    def nullable_string(self) -> str | None:
        length = self._length(_INT16)
        if length < 0:
            return None
        if length > _NAME_BYTES_MAX:
            raise MalformedRequest("a string is too long")
        return self._text(length)

    def string(self) -> str:
        """Return a string that may not be null."""
        text = self.nullable_string()
        if text is None:
            raise MalformedRequest("a string that may not be null is null")
        return text

    def _text(self, length: int) -> str:
        try:
            return str(self.take(length), "utf-8")
        except UnicodeDecodeError:
            raise MalformedRequest("a string is not UTF-8") from None

    def numbered_bytes(self) -> tuple[int, int, int]:
        """Return (int32, start, end) of a number and a byte field, then skip tags."""
        frame = self.frame
        if self._is_flexible:
            (number,) = self.unpack(_INT32)
            size, start = read_uvarint(frame, self.at)
            size = max(size - 1, 0)
        else:
            number, size = self.unpack(_INT32_PAIR)
            start = self.at
            if size < -1:
                raise MalformedRequest("a length is negative")
            size = max(size, 0)
        end = start + size
        if end > len(frame):
            raise MalformedRequest("a byte field is longer than the frame")
        self.at = skip_tags(frame, end) if self._is_flexible else end
        return number, start, end

    def tags(self) -> None:
        """Skip tagged fields if the version has them."""
        if self._is_flexible:
            self.at = skip_tags(self.frame, self.at)

    def finish(self) -> None:
        """Raise MalformedRequest unless the frame ends here."""
        if self.at != len(self.frame):
            raise MalformedRequest(f"{len(self.frame) - self.at} bytes follow the message")
