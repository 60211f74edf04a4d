"""Bytes of protobuf: numbers of variable length, tags, and fields that are skipped.

Source: the encoding page of Protocol Buffers (wire types 0, 1, 2 and 5; groups are refused).
"""

from collections.abc import Iterator
from typing import Final

from penstock.protobuf.errors import MalformedMessage

VARINT: Final = 0
FIXED64: Final = 1
LENGTH: Final = 2
FIXED32: Final = 5
_FIXED: Final = {FIXED64: 8, FIXED32: 4}
_INT64_SIGN: Final = 1 << 63
_INT64_SPAN: Final = 1 << 64


def read_varint(data: bytes, at: int, end: int) -> tuple[int, int]:
    """Return an unsigned number below 2^64 and where it ends. Raises MalformedMessage."""
    value = shift = 0
    while at < end:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            if value >= _INT64_SPAN:
                break
            return value, at
        shift += 7
        if shift > 63:
            break
    raise MalformedMessage("a number that does not end")


def read_length(data: bytes, at: int, end: int) -> tuple[int, int]:
    """Return where a field of the type LENGTH begins and ends. Raises MalformedMessage."""
    size, at = read_varint(data, at, end)
    if size > end - at:
        raise MalformedMessage("a field that is cut off")
    return at, at + size


def each_field(data: bytes, at: int, end: int) -> Iterator[tuple[int, int, int]]:
    """Yield the number of each field of the type LENGTH, where it begins and where it ends.

    Of all others the number is 0: they cost time as well. For messages that are too large to be
    read at once. Raises MalformedMessage.
    """
    while at < end:
        tag, at = read_varint(data, at, end)
        if tag & 7 == LENGTH:
            start, at = read_length(data, at, end)
            yield tag >> 3, start, at
        else:
            at = skip(data, tag & 7, at, end)
            yield 0, at, at


def skip(data: bytes, wire: int, at: int, end: int) -> int:
    """Return where a field ends that nobody asks for. Raises MalformedMessage."""
    if wire == VARINT:
        return read_varint(data, at, end)[1]
    if wire == LENGTH:
        return read_length(data, at, end)[1]
    size = _FIXED.get(wire)
    if size is None or size > end - at:
        raise MalformedMessage("a field of a type that there is not, or that is cut off")
    return at + size


def signed(value: int) -> int:
    """Return an int64 or int32 that was read as an unsigned number."""
    return value - _INT64_SPAN if value & _INT64_SIGN else value


def add_varint(out: bytearray, value: int) -> None:
    """Append an int64 as protobuf has it: a negative number takes ten bytes."""
    if 0 <= value < 0x80:  # most of them
        out.append(value)
        return
    value &= _INT64_SPAN - 1
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)


def add_field(out: bytearray, number: int, data: bytes | bytearray) -> None:
    """Append a field of the type LENGTH."""
    add_varint(out, number << 3 | LENGTH)
    add_varint(out, len(data))
    out += data
