"""The records of a share group in `__consumer_offsets`, byte for byte as in Kafka.

    key   int16 kind, string group, then         value (int16 version 0, compact fields, tags)
          10  string member                      what the member has said of itself
          11                                     group epoch; hash of the subscribed topics
          12                                     epoch of the target assignment
          13  string member                      what the member is to have
          14  string member                      what it has, and its epoch
          15                                     the partitions that may have a share of the group

A value that says more than this version knows is used as far as it is known; the loader keeps it
whole. Full tables: docs/formats/group-records.md.

Source: Kafka 4.3, ShareGroup*Value.json of group-coordinator; KIP-932. In kind 15 Kafka has three
lists: shares that are being made, those that are there, topics whose shares are being deleted. Here
a share is made by its first fetch, and the second list is written alone; what is read of the first
counts as being there.
"""

import struct
from collections.abc import Callable, Mapping
from typing import NamedTuple

from penstock.assignors.partitions import (
    NO_TAGS,
    TOPIC_ID_BYTES,
    Partitions,
    compact_numbers,
    compact_partitions,
    compact_strings,
    read_numbers,
    read_partitions,
    read_strings,
)
from penstock.base.ids import MemberEpoch
from penstock.coordinator import wire
from penstock.coordinator.errors import MalformedRecord
from penstock.groups.assigned.names import Kind
from penstock.groups.assigned.targets import (
    GroupEpoch,
    Target,
    TargetEpoch,
    decode_target,
    decode_target_epoch,
    encode_target,
    encode_target_epoch,
)

STABLE = 0
"""The state that Kafka's records of a member's assignment have; members of share groups have no
other."""
_VERSION = b"\x00\x00"
_EMPTY_ARRAY = b"\x01"
_EPOCH = struct.Struct(">iq")
_CURRENT = struct.Struct(">iib")


class ShareEpoch(GroupEpoch):
    """The group epoch; in records of share groups the hash is no tagged field."""

    __slots__ = ()


class ShareFacts(NamedTuple):
    """What a member has said of itself; `topics` are in order and without repetition."""

    rack_id: str | None
    client_id: str
    client_host: str
    topics: tuple[str, ...]


class ShareCurrent(NamedTuple):
    """What a member has. The answer with `epoch` may be lost: then it is in `previous_epoch`."""

    epoch: MemberEpoch
    previous_epoch: MemberEpoch
    assigned: Partitions


class SharedTopic(NamedTuple):
    """The partitions of a topic that may have a share."""

    name: str
    numbers: frozenset[int]


class Shared(NamedTuple):
    """By topic id, what may have a share: everything that was ever assigned, and not deleted."""

    topics: Mapping[bytes, SharedTopic]

    @property
    def partitions(self) -> Partitions:
        """The numbers of the partitions, without the names of the topics."""
        return {topic_id: one.numbers for topic_id, one in self.topics.items()}


ShareSaid = ShareFacts | ShareEpoch | TargetEpoch | Target | ShareCurrent | Shared


def encode_said(said: ShareSaid) -> bytes:
    """Return the value of a record."""
    return _VERSION + _ENCODERS[type(said)](said)


def decode_said(kind: Kind, value: bytes) -> ShareSaid:
    """Return what a value says, without tags that are not known. Raises MalformedRecord."""
    reader = wire.Reader(value)
    version = reader.int16()
    if version != 0:
        raise MalformedRecord(f"{kind.name} value version {version}")
    return _DECODERS[kind](reader)


def _encode_facts(said: ShareFacts) -> bytes:
    return b"".join(
        (
            wire.compact_nullable_string(said.rack_id),
            wire.compact_string(said.client_id),
            wire.compact_string(said.client_host),
            compact_strings(said.topics),
            NO_TAGS,
        )
    )


def _decode_facts(reader: wire.Reader) -> ShareFacts:
    said = ShareFacts(
        rack_id=reader.nullable_string(compact=True),
        client_id=reader.string(compact=True),
        client_host=reader.string(compact=True),
        topics=read_strings(reader),
    )
    reader.tags()
    return said


def _encode_epoch(said: ShareEpoch) -> bytes:
    return _EPOCH.pack(said.epoch, said.topics_hash) + NO_TAGS


def _decode_epoch(reader: wire.Reader) -> ShareEpoch:
    said = ShareEpoch(MemberEpoch(reader.int32()), reader.int64())
    reader.tags()
    return said


def _encode_current(said: ShareCurrent) -> bytes:
    head = _CURRENT.pack(said.epoch, said.previous_epoch, STABLE)
    return head + compact_partitions(said.assigned) + NO_TAGS


def _decode_current(reader: wire.Reader) -> ShareCurrent:
    epoch, previous_epoch = MemberEpoch(reader.int32()), MemberEpoch(reader.int32())
    reader.take(1)  # another state is kept by the loader, and means nothing to us
    said = ShareCurrent(epoch, previous_epoch, read_partitions(reader))
    reader.tags()
    return said


def _encode_shared(said: Shared) -> bytes:
    parts = [_EMPTY_ARRAY, wire.varint(len(said.topics) + 1)]
    for topic_id, topic in sorted(said.topics.items()):
        name, numbers = wire.compact_string(topic.name), compact_numbers(topic.numbers)
        parts += (topic_id, name, numbers, NO_TAGS)
    return b"".join((*parts, _EMPTY_ARRAY, NO_TAGS))


def _decode_shared(reader: wire.Reader) -> Shared:
    found: dict[bytes, SharedTopic] = {}
    for _ in ("being made", "there"):
        for _ in range(reader.compact_count(TOPIC_ID_BYTES)):
            topic_id, topic = _decode_shared_topic(reader)
            known = found.get(topic_id)
            if known is not None:
                topic = topic._replace(numbers=topic.numbers | known.numbers)
            found[topic_id] = topic
    for _ in range(reader.compact_count(TOPIC_ID_BYTES)):  # being deleted
        reader.take(TOPIC_ID_BYTES)
        reader.string(compact=True)
        reader.tags()
    reader.tags()
    return Shared(found)


def _decode_shared_topic(reader: wire.Reader) -> tuple[bytes, SharedTopic]:
    topic_id, name = reader.take(TOPIC_ID_BYTES), reader.string(compact=True)
    topic = SharedTopic(name, read_numbers(reader))
    reader.tags()
    return topic_id, topic


_ENCODERS: dict[type, Callable[..., bytes]] = {
    ShareFacts: _encode_facts,
    ShareEpoch: _encode_epoch,
    TargetEpoch: encode_target_epoch,
    Target: encode_target,
    ShareCurrent: _encode_current,
    Shared: _encode_shared,
}
_DECODERS: dict[Kind, Callable[[wire.Reader], ShareSaid]] = {
    Kind.SHARE_MEMBER: _decode_facts,
    Kind.SHARE_GROUP: _decode_epoch,
    Kind.SHARE_TARGET_EPOCH: decode_target_epoch,
    Kind.SHARE_TARGET: decode_target,
    Kind.SHARE_CURRENT: _decode_current,
    Kind.SHARED: _decode_shared,
}
