"""Which partition a record goes to: by its key, as in Java clients.

Source: Kafka `Utils.murmur2` and `BuiltInPartitioner.partitionForKey` (same keys, same partitions
as Java producers). Records without a key are spread by produce.py (KIP-480).
"""

import struct

_SEED = 0x9747B28C
_FACTOR = 0x5BD1E995
_ROTATE = 24
_MASK = 0xFFFFFFFF
_POSITIVE = 0x7FFFFFFF


def murmur2(data: bytes) -> int:
    """Return the 32-bit hash of a key, unsigned."""
    length = len(data)
    hashed = _SEED ^ length
    whole = length & ~3
    for (word,) in struct.iter_unpack("<I", data[:whole]):
        mixed = word * _FACTOR & _MASK
        mixed = (mixed ^ mixed >> _ROTATE) * _FACTOR & _MASK
        hashed = hashed * _FACTOR & _MASK ^ mixed
    if length & 3:
        hashed = (hashed ^ int.from_bytes(data[whole:], "little")) * _FACTOR & _MASK
    hashed = (hashed ^ hashed >> 13) * _FACTOR & _MASK
    return hashed ^ hashed >> 15


def partition_for_key(key: bytes, partition_count: int) -> int:
    """Return the partition of a key among `partition_count`."""
    return (murmur2(key) & _POSITIVE) % partition_count
