"""Partitions by topic, as records of groups have them.

    partitions   compact array of (16 bytes topic id, compact array of int32, tags)

Source: Kafka, `TopicPartitions` in ConsumerGroup*Value.json and ShareGroup*Value.json.
"""

import struct
from collections.abc import Iterable, Mapping

from penstock.coordinator import wire

Partitions = Mapping[bytes, frozenset[int]]
"""Partitions by topic id; a topic without partitions is left out. Never changed in place."""
NOTHING: Partitions = {}

NO_TAGS = b"\x00"
TOPIC_ID_BYTES = 16
_INT32_BYTES = 4


def count_of(partitions: Partitions) -> int:
    """Return how many partitions there are."""
    return sum(map(len, partitions.values()))


def compact_strings(texts: Iterable[str]) -> bytes:
    """Return a compact array of compact strings."""
    encoded = [*map(wire.compact_string, texts)]
    return wire.varint(len(encoded) + 1) + b"".join(encoded)


def read_strings(reader: wire.Reader) -> tuple[str, ...]:
    """Read one. Raises MalformedRecord."""
    return tuple(reader.string(compact=True) for _ in range(reader.compact_count(1)))


def compact_numbers(numbers: Iterable[int]) -> bytes:
    """Return a compact array of the numbers in order."""
    ordered = sorted(numbers)
    return wire.varint(len(ordered) + 1) + struct.pack(f">{len(ordered)}i", *ordered)


def read_numbers(reader: wire.Reader) -> frozenset[int]:
    """Read one. Raises MalformedRecord."""
    count = reader.compact_count(_INT32_BYTES)
    return frozenset(struct.unpack(f">{count}i", reader.take(count * _INT32_BYTES)))


def compact_partitions(partitions: Partitions) -> bytes:
    """Return partitions as records have them, in the order of topic ids and numbers."""
    parts = [wire.varint(len(partitions) + 1)]
    for topic_id, numbers in sorted(partitions.items()):
        parts += (topic_id, compact_numbers(numbers), NO_TAGS)
    return b"".join(parts)


def read_partitions(reader: wire.Reader) -> Partitions:
    """Read them. Raises MalformedRecord."""
    found: dict[bytes, frozenset[int]] = {}
    for _ in range(reader.compact_count(TOPIC_ID_BYTES)):
        topic_id = reader.take(TOPIC_ID_BYTES)
        found[topic_id] = read_numbers(reader)
        reader.tags()
    return found
