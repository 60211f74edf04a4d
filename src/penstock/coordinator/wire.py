"""Reading and writing the primitive types of Kafka's record schemas, within bounds.

Strings are an int16 length (in flexible versions an unsigned varint of length + 1) and UTF-8; bytes
are an int32 length and raw bytes. Every length is checked against the bytes left before a read.

Source: Kafka protocol guide, "Protocol Primitive Types"; KIP-482 for the flexible forms.
"""

import struct

from penstock.coordinator.errors import MalformedRecord

_INT16, _INT32, _INT64 = struct.Struct(">h"), struct.Struct(">i"), struct.Struct(">q")
VARINT_BYTES_MAX = 5


class Reader:
    """Reads values from one buffer, in order. Raises MalformedRecord."""

    __slots__ = ("_at", "_data")

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    @property
    def is_at_end(self) -> bool:
        """Whether everything was read."""
        return self._at == len(self._data)

    def take(self, length: int) -> bytes:
        """Return the next `length` bytes."""
        end = self._at + length
        if length < 0 or end > len(self._data):
            raise MalformedRecord(f"{length} bytes wanted at {self._at} of {len(self._data)}")
        taken = self._data[self._at : end]
        self._at = end
        return taken

    def int16(self) -> int:
        return int(_INT16.unpack(self.take(2))[0])

    def int32(self) -> int:
        return int(_INT32.unpack(self.take(4))[0])

    def int64(self) -> int:
        return int(_INT64.unpack(self.take(8))[0])

    def varint(self) -> int:
        """Return an unsigned varint of at most five bytes."""
        value = 0
        for shift in range(0, 7 * VARINT_BYTES_MAX, 7):
            byte = self.take(1)[0]
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
        raise MalformedRecord("varint longer than five bytes")

    def nullable_string(self, *, compact: bool = False) -> str | None:
        length = self.varint() - 1 if compact else self.int16()
        return None if length < 0 else _text(self.take(length))

    def string(self, *, compact: bool = False) -> str:
        value = self.nullable_string(compact=compact)
        if value is None:
            raise MalformedRecord("null where a string must be")
        return value

    def compact_count(self, item_bytes_min: int) -> int:
        """Return the length of a compact array, whose items take at least so many bytes each."""
        count = self.varint() - 1
        if not 0 <= count * item_bytes_min <= len(self._data) - self._at:
            raise MalformedRecord(f"{count} items at {self._at} of {len(self._data)}")
        return count

    def bytes_(self, *, compact: bool = False) -> bytes:
        return self.take(self.varint() - 1 if compact else self.int32())

    def tags(self) -> dict[int, bytes]:
        """Return the tagged fields, each as its raw bytes."""
        fields: dict[int, bytes] = {}
        for _ in range(self.varint()):
            tag = self.varint()
            fields[tag] = self.take(self.varint())
        return fields


def _text(raw: bytes) -> str:
    try:
        return raw.decode()
    except UnicodeDecodeError as error:
        raise MalformedRecord("a string is not UTF-8") from error


def string(value: str) -> bytes:
    """Return the non-compact form of a string."""
    raw = value.encode()
    return _INT16.pack(len(raw)) + raw


def nullable_string(value: str | None) -> bytes:
    return b"\xff\xff" if value is None else string(value)


def bytes_(value: bytes) -> bytes:
    return _INT32.pack(len(value)) + value


def varint(value: int) -> bytes:
    """Return the unsigned varint of a number."""
    assert value >= 0, value
    if value < 0x80:
        return bytes((value,))
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def compact_string(value: str) -> bytes:
    raw = value.encode()
    return varint(len(raw) + 1) + raw


def compact_nullable_string(value: str | None) -> bytes:
    return b"\x00" if value is None else compact_string(value)
