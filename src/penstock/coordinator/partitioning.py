"""Which partition of an internal topic has a key, and thus which broker coordinates it.

Source: Kafka, GroupMetadataManager.partitionFor, TransactionStateManager.partitionFor and
Utils.abs: the absolute value of Java's `String.hashCode` of the key, modulo the partition count.
External tools compute it too, so it must be exactly this function: 31 * h + unit over UTF-16 code
units, wrapping at 32 bits.
"""

import struct
from functools import lru_cache

_INT_MIN = -(2**31)
_TOGETHER = struct.Struct(">8H")
"""Units that are taken in one step: half the time of one after another, and keys may be long."""
_SHORT_CHARS = 64
"""Longer keys are not kept: whoever makes many of them would choose what that takes in memory."""
_P2, _P3, _P4, _P5, _P6, _P7, _P8 = (31**power & 0xFFFFFFFF for power in range(2, 9))


def java_string_hash(text: str) -> int:
    """Return Java's `String.hashCode` of `text`, a signed 32-bit number."""
    units = memoryview(text.encode("utf-16-be", "surrogatepass"))
    begin = len(units) % _TOGETHER.size
    value = 0
    for at in range(0, begin, 2):
        value = 31 * value + (units[at] << 8 | units[at + 1])
    for a, b, c, d, e, f, g, h in _TOGETHER.iter_unpack(units[begin:]):
        early = value * _P8 + a * _P7 + b * _P6 + c * _P5
        value = early + d * _P4 + e * _P3 + f * _P2 + 31 * g + h & 0xFFFFFFFF
    value &= 0xFFFFFFFF
    return value - 2**32 if value >= 2**31 else value


_short_hash = lru_cache(maxsize=1_024)(java_string_hash)
"""A transaction asks for the partition of its id ten times and more."""


def partition_of(key: str, partition_count: int) -> int:
    """Return the internal partition of a group or a transactional id, in [0, partition_count)."""
    assert partition_count > 0, partition_count
    value = _short_hash(key) if len(key) <= _SHORT_CHARS else java_string_hash(key)
    return 0 if value == _INT_MIN else abs(value) % partition_count
