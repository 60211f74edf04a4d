"""Unsigned variable-length integers: seven bits a byte, lowest first, high bit means more.

Source: KIP-482 and Kafka's ByteUtils.readUnsignedVarint: at most five bytes, and never above
2^31 - 1 here, as every use in the protocol is a length, a count or a tag.
"""

from penstock.base.ports import Buffer
from penstock.protocol.errors import MalformedRequest

VARINT_MAX = (1 << 31) - 1
_VARINT_BYTES_MAX = 5


def read_uvarint(buffer: Buffer, at: int) -> tuple[int, int]:
    """Return (value, position after it). Raises MalformedRequest."""
    try:
        byte = buffer[at]
        if byte < 0x80:
            return byte, at + 1
        value = byte & 0x7F
        for shift in range(7, 7 * _VARINT_BYTES_MAX, 7):
            at += 1
            byte = buffer[at]
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                if value > VARINT_MAX:
                    break
                return value, at + 1
    except IndexError:
        raise MalformedRequest("the frame ends inside a varint") from None
    raise MalformedRequest("a varint is too large")


def uvarint(value: int) -> bytes:
    """Encode 0 <= value <= VARINT_MAX."""
    assert 0 <= value <= VARINT_MAX, value
    if value < 0x80:
        return _ONE_BYTE[value]
    encoded = bytearray()
    while value >= 0x80:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


_ONE_BYTE = tuple(bytes((value,)) for value in range(0x80))
