"""Which partition of an internal topic has a key, and thus which broker coordinates it.

Source: Kafka, GroupMetadataManager.partitionFor, TransactionStateManager.partitionFor and
Utils.abs: the absolute value of Java's `String.hashCode` of the key, modulo the partition count.
External tools compute it too, so it must be exactly this function: 31 * h + unit over UTF-16 code
units, wrapping at 32 bits.
"""

_INT_MIN = -(2**31)


def java_string_hash(text: str) -> int:
    """Return Java's `String.hashCode` of `text`, a signed 32-bit number."""
    units = text.encode("utf-16-be", "surrogatepass")
    value = 0
    for at in range(0, len(units), 2):
        value = (31 * value + (units[at] << 8 | units[at + 1])) & 0xFFFFFFFF
    return value - 2**32 if value >= 2**31 else value


def partition_of(key: str, partition_count: int) -> int:
    """Return the internal partition of a group or a transactional id, in [0, partition_count)."""
    assert partition_count > 0, partition_count
    value = java_string_hash(key)
    return 0 if value == _INT_MIN else abs(value) % partition_count
