"""Variable-length integers: zigzag, then 7 bits per byte, low bits first.

Zigzag maps 0, -1, 1, -2 to 0, 1, 2, 3, so that small negative numbers stay short. An int64 takes
at most 10 bytes. Bits beyond 64 are dropped, as in C.

Source: Kafka `ByteUtils.readVarlong`, `writeVarlong` (the encoding is that of Protocol Buffers).
Departure: one reader for int32 and int64; a caller that needs an int32 checks the range.
"""

from penstock.record.errors import CorruptBatch

VARINT_BYTES_MAX = 10
_MASK_64 = (1 << 64) - 1


def read_varint(data: memoryview, at: int, end: int) -> tuple[int, int]:
    """Read the number at byte `at`, below byte `end`; return it and the position after it.

    Raises CorruptBatch when the number does not end below `end` or within 10 bytes.
    """
    if at < end and data[at] < 0x80:  # most of them
        return (data[at] >> 1) ^ -(data[at] & 1), at + 1
    raw = shift = 0
    for position in range(at, min(end, at + VARINT_BYTES_MAX)):
        byte = data[position]
        raw |= (byte & 0x7F) << shift
        if byte < 0x80:
            raw &= _MASK_64
            return (raw >> 1) ^ -(raw & 1), position + 1
        shift += 7
    raise CorruptBatch("a number does not end")


def write_varint(out: bytearray, value: int) -> None:
    """Append `value`, an int64."""
    raw = (value << 1) ^ (value >> 63)
    while raw > 0x7F:
        out.append(raw & 0x7F | 0x80)
        raw >>= 7
    out.append(raw)


def varint_bytes(value: int) -> int:
    """Return how many bytes `write_varint` writes for `value`."""
    raw = (value << 1) ^ (value >> 63)
    return max(1, (raw.bit_length() + 6) // 7)
