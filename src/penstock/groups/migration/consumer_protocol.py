"""What consumers of the classic protocol tell each other through the coordinator.

    subscription   int16 version, topics, bytes user data, 1+: owned partitions, 2+: int32
                   generation, 3+: string rack
    assignment     int16 version, partitions by topic, bytes user data

A higher version is read as the highest known: fields are only ever added behind the others. Where
user data is null or empty there is none.

Source: Kafka, ConsumerProtocolSubscription.json and ConsumerProtocolAssignment.json; KIP-429 (owned
partitions), KIP-792 (generation), KIP-881 (rack).
"""

import struct
from collections.abc import Mapping
from typing import NamedTuple

from penstock.coordinator import wire
from penstock.coordinator.errors import MalformedRecord

NO_GENERATION = -1
VERSION_MAX = 3
_OWNED_SINCE, _GENERATION_SINCE, _RACK_SINCE = 1, 2, 3

Named = Mapping[str, frozenset[int]]
"""Partitions by the name of their topic."""


class Subscription(NamedTuple):
    """What a consumer asks for; `topics` are in order and without repetition."""

    version: int
    topics: tuple[str, ...]
    owned: Named
    """What it reads while it asks: nothing if it gives all up before (eager assignors)."""
    generation: int
    """The generation that `owned` is of, if it says so."""
    rack_id: str | None


class Assignment(NamedTuple):
    """What a consumer is given."""

    partitions: Named
    has_user_data: bool
    """Whether a custom assignor of the leader adds something that only it understands."""


def read_subscription(data: bytes) -> Subscription:
    """Return a subscription. Raises MalformedRecord."""
    reader = wire.Reader(data)
    version = _version(reader)
    topics = tuple(sorted({reader.string() for _ in range(_count(reader))}))
    _user_data(reader)
    owned = _partitions(reader) if version >= _OWNED_SINCE else {}
    generation = reader.int32() if version >= _GENERATION_SINCE else NO_GENERATION
    rack_id = reader.nullable_string() if version >= _RACK_SINCE else None
    return Subscription(version, topics, owned, generation, rack_id or None)


def read_assignment(data: bytes) -> Assignment:
    """Return an assignment; an empty one where a member has none yet. Raises MalformedRecord."""
    if not data:
        return Assignment({}, has_user_data=False)
    reader = wire.Reader(data)
    _version(reader)
    partitions = _partitions(reader)
    return Assignment(partitions, bool(_user_data(reader)))


def version_of(metadata: bytes) -> int:
    """Return the version of a subscription, in which its member reads its assignment."""
    try:
        return _version(wire.Reader(metadata))
    except MalformedRecord:
        return 0


def encode_assignment(version: int, partitions: Named) -> bytes:
    """Return the bytes of an assignment, with its topics and partitions in order."""
    parts = [struct.pack(">hi", version, len(partitions))]
    for topic, numbers in sorted(partitions.items()):
        listed = sorted(numbers)
        parts += (wire.string(topic), struct.pack(f">{len(listed) + 1}i", len(listed), *listed))
    return b"".join((*parts, b"\xff\xff\xff\xff"))


def _version(reader: wire.Reader) -> int:
    version = reader.int16()
    if version < 0:
        raise MalformedRecord(f"version {version} of the consumer protocol")
    return min(version, VERSION_MAX)


def _count(reader: wire.Reader) -> int:
    count = reader.int32()
    if count < 0:
        raise MalformedRecord(f"{count} items in the consumer protocol")
    return count


def _user_data(reader: wire.Reader) -> bytes:
    length = reader.int32()
    return b"" if length < 0 else reader.take(length)


def _partitions(reader: wire.Reader) -> Named:
    found: dict[str, frozenset[int]] = {}
    for _ in range(_count(reader)):
        topic, count = reader.string(), _count(reader)
        numbers = frozenset(struct.unpack(f">{count}i", reader.take(4 * count)))
        found[topic] = found.get(topic, frozenset()) | numbers
    return {topic: numbers for topic, numbers in found.items() if numbers}
