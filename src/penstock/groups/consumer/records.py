"""The records of a consumer group in `__consumer_offsets`, byte for byte as in Kafka.

    key   int16 kind, string group, then         value (int16 version 0, compact fields, tags)
          3                                      group epoch; hash of the subscribed topics
          5   string member                      what the member has said of itself
          6                                      epoch of the target assignment
          7   string member                      what the member is to have
          8   string member                      what it has, and its epoch
          16  string regular expression          the topics whose names match it

A value that says more than this version knows is used as far as it is known; the loader keeps it
whole. Full tables: docs/formats/group-records.md.

Source: Kafka, ConsumerGroup*Key.json and *Value.json of group-coordinator; KIP-848, KIP-1101.
Kind 4, the partition counts of topics, is of releases before that and not written.
"""

import struct
from collections.abc import Callable, Mapping
from enum import IntEnum
from typing import NamedTuple

from penstock.coordinator import wire
from penstock.coordinator.errors import MalformedRecord
from penstock.groups.messages import OfferedProtocol

Partitions = Mapping[bytes, frozenset[int]]
"""Partitions by topic id; a topic without partitions is left out. Never changed in place."""
NOTHING: Partitions = {}

_VERSION = b"\x00\x00"
_NO_TAGS = b"\x00"
_HASH_TAG = 0
_CLASSIC_TAG = 0
_PRESENT = 1
"""First byte of a structure that may be null."""
_INT32, _INT64 = struct.Struct(">i"), struct.Struct(">q")
_TOPIC_ID_BYTES = 16
_PROTOCOL_BYTES_MIN = 3


class Kind(IntEnum):
    """The kinds of records of a consumer group; the first field of their keys."""

    GROUP = 3
    MEMBER = 5
    TARGET_EPOCH = 6
    TARGET = 7
    CURRENT = 8
    REGEX = 16


OF_A_GROUP = frozenset({Kind.GROUP, Kind.TARGET_EPOCH})
_KINDS = frozenset(kind.value for kind in Kind)
_KIND_OF = {struct.pack(">h", kind): kind for kind in Kind}


class RecordName(NamedTuple):
    """What a key names; `about` is a member id, a regular expression, or empty."""

    kind: Kind
    group_id: str
    about: str = ""


class MemberState(IntEnum):
    """Where a member is between what it has and what it is to have.

    STABLE: it has all that its epoch gives it. UNREVOKED: it was told to give partitions up, and
    has not yet. UNRELEASED: others have yet to give up what it is to get.
    """

    STABLE = 0
    UNREVOKED = 1
    UNRELEASED = 2


_STATES = frozenset(state.value for state in MemberState)


class GroupEpoch(NamedTuple):
    """Grows whenever the assignment has to be computed anew; -1 before the first."""

    epoch: int
    topics_hash: int = 0


class ClassicFacts(NamedTuple):
    """What a member that uses the classic protocol says besides (ClassicMemberMetadata)."""

    session_timeout_ms: int
    protocols: tuple[OfferedProtocol, ...]
    """The assignors that it offers, at least one, with its metadata for each."""


class MemberFacts(NamedTuple):
    """What a member has said of itself; `topics` are in order and without repetition.

    `classic` is None for a member of KIP-848.
    """

    instance_id: str | None
    rack_id: str | None
    client_id: str
    client_host: str
    topics: tuple[str, ...]
    regex: str | None
    rebalance_timeout_ms: int
    assignor: str | None
    classic: ClassicFacts | None = None


class TargetEpoch(NamedTuple):
    """The group epoch that the target assignment was computed for."""

    epoch: int


class Target(NamedTuple):
    """What a member is to have."""

    partitions: Partitions


class Current(NamedTuple):
    """What a member has: partitions that it may read, and those it was told to give up.

    `previous_epoch` is the epoch before the last change of `epoch`, whose answer may be lost.
    """

    epoch: int
    previous_epoch: int
    state: MemberState
    assigned: Partitions
    revoking: Partitions


class Resolved(NamedTuple):
    """The topics that matched a regular expression at a time (wall clock, ms), in order."""

    topics: tuple[str, ...]
    version: int
    timestamp_ms: int


Said = GroupEpoch | MemberFacts | TargetEpoch | Target | Current | Resolved


def encode_name(name: RecordName) -> bytes:
    """Return the key of a record."""
    about = b"" if name.kind in OF_A_GROUP else wire.string(name.about)
    return struct.pack(">h", name.kind) + wire.string(name.group_id) + about


def decode_name(key: bytes) -> RecordName | None:
    """Return what a key names; None if it is of another kind. Raises MalformedRecord."""
    reader = wire.Reader(key)
    number = reader.int16()
    if number not in _KINDS:
        return None
    kind, group_id = Kind(number), reader.string()
    name = RecordName(kind, group_id, "" if kind in OF_A_GROUP else reader.string())
    return name if reader.is_at_end else None


def about_at(group_id: str) -> int:
    """Return where the text of `about` begins in the keys of a group."""
    return len(encode_name(RecordName(Kind.MEMBER, group_id)))


def named_by(key: bytes, at: int) -> tuple[Kind, str]:
    """Return kind and `about` of a key that was decoded, or encoded, here before.

    `at` is that of its group. It takes a fifth of the time of `decode_name`: thousands of records
    are confirmed together.
    """
    kind = _KIND_OF[key[:2]]
    return kind, "" if kind in OF_A_GROUP else key[at:].decode()


def encode_said(said: Said) -> bytes:
    """Return the value of a record."""
    return _VERSION + _ENCODERS[type(said)](said)


def decode_said(kind: Kind, value: bytes) -> Said:
    """Return what a value says, without tags that are not known. Raises MalformedRecord."""
    reader = wire.Reader(value)
    version = reader.int16()
    if version != 0:
        raise MalformedRecord(f"{kind.name} value version {version}")
    return _DECODERS[kind](reader)


def _encode_group(said: GroupEpoch) -> bytes:
    if not said.topics_hash:
        return _INT32.pack(said.epoch) + _NO_TAGS
    tagged = bytes((1, _HASH_TAG, _INT64.size)) + _INT64.pack(said.topics_hash)
    return _INT32.pack(said.epoch) + tagged


def _decode_group(reader: wire.Reader) -> GroupEpoch:
    epoch = reader.int32()
    raw = reader.tags().get(_HASH_TAG)
    return GroupEpoch(epoch, 0 if raw is None else wire.Reader(raw).int64())


def _encode_member(said: MemberFacts) -> bytes:
    return b"".join(
        (
            wire.compact_nullable_string(said.instance_id),
            wire.compact_nullable_string(said.rack_id),
            wire.compact_string(said.client_id),
            wire.compact_string(said.client_host),
            _compact_strings(said.topics),
            wire.compact_nullable_string(said.regex),
            _INT32.pack(said.rebalance_timeout_ms),
            wire.compact_nullable_string(said.assignor),
            _NO_TAGS if said.classic is None else _classic_tag(said.classic),
        )
    )


def _decode_member(reader: wire.Reader) -> MemberFacts:
    said = MemberFacts(
        instance_id=reader.nullable_string(compact=True),
        rack_id=reader.nullable_string(compact=True),
        client_id=reader.string(compact=True),
        client_host=reader.string(compact=True),
        topics=_read_strings(reader),
        regex=reader.nullable_string(compact=True),
        rebalance_timeout_ms=reader.int32(),
        assignor=reader.nullable_string(compact=True),
    )
    raw = reader.tags().get(_CLASSIC_TAG)
    return said if raw is None else said._replace(classic=_read_classic(raw))


def _classic_tag(said: ClassicFacts) -> bytes:
    protocols = b"".join(
        wire.compact_string(name) + wire.varint(len(metadata) + 1) + metadata + _NO_TAGS
        for name, metadata in said.protocols
    )
    count = wire.varint(len(said.protocols) + 1)
    value = bytes((_PRESENT,)) + _INT32.pack(said.session_timeout_ms) + count + protocols + _NO_TAGS
    return bytes((1, _CLASSIC_TAG)) + wire.varint(len(value)) + value


def _read_classic(raw: bytes) -> ClassicFacts:
    reader = wire.Reader(raw)
    if reader.take(1)[0] != _PRESENT:
        raise MalformedRecord("null where the classic protocols of a member must be")
    session_timeout_ms = reader.int32()
    protocols = []
    for _ in range(reader.compact_count(_PROTOCOL_BYTES_MIN)):
        offered = OfferedProtocol(reader.string(compact=True), reader.bytes_(compact=True))
        protocols.append(offered)
        reader.tags()
    reader.tags()
    if not protocols:
        raise MalformedRecord("a member of the classic protocol without protocols")
    return ClassicFacts(session_timeout_ms, tuple(protocols))


def _encode_target_epoch(said: TargetEpoch) -> bytes:
    return _INT32.pack(said.epoch) + _NO_TAGS


def _decode_target_epoch(reader: wire.Reader) -> TargetEpoch:
    said = TargetEpoch(reader.int32())
    reader.tags()
    return said


def _encode_target(said: Target) -> bytes:
    return _compact_partitions(said.partitions) + _NO_TAGS


def _decode_target(reader: wire.Reader) -> Target:
    said = Target(_read_partitions(reader))
    reader.tags()
    return said


def _encode_current(said: Current) -> bytes:
    head = struct.pack(">iib", said.epoch, said.previous_epoch, said.state)
    partitions = _compact_partitions(said.assigned) + _compact_partitions(said.revoking)
    return head + partitions + _NO_TAGS


def _decode_current(reader: wire.Reader) -> Current:
    epoch, previous_epoch = reader.int32(), reader.int32()
    state = reader.take(1)[0]
    if state not in _STATES:
        raise MalformedRecord(f"member state {state}")
    assigned, revoking = _read_partitions(reader), _read_partitions(reader)
    reader.tags()
    return Current(epoch, previous_epoch, MemberState(state), assigned, revoking)


def _encode_resolved(said: Resolved) -> bytes:
    times = _INT64.pack(said.version) + _INT64.pack(said.timestamp_ms)
    return _compact_strings(said.topics) + times + _NO_TAGS


def _decode_resolved(reader: wire.Reader) -> Resolved:
    said = Resolved(_read_strings(reader), reader.int64(), reader.int64())
    reader.tags()
    return said


_ENCODERS: dict[type, Callable[..., bytes]] = {
    GroupEpoch: _encode_group,
    MemberFacts: _encode_member,
    TargetEpoch: _encode_target_epoch,
    Target: _encode_target,
    Current: _encode_current,
    Resolved: _encode_resolved,
}
_DECODERS: dict[Kind, Callable[[wire.Reader], Said]] = {
    Kind.GROUP: _decode_group,
    Kind.MEMBER: _decode_member,
    Kind.TARGET_EPOCH: _decode_target_epoch,
    Kind.TARGET: _decode_target,
    Kind.CURRENT: _decode_current,
    Kind.REGEX: _decode_resolved,
}


def _compact_strings(texts: tuple[str, ...]) -> bytes:
    return wire.varint(len(texts) + 1) + b"".join(map(wire.compact_string, texts))


def _read_strings(reader: wire.Reader) -> tuple[str, ...]:
    return tuple(reader.string(compact=True) for _ in range(reader.compact_count(1)))


def _compact_partitions(partitions: Partitions) -> bytes:
    parts = [wire.varint(len(partitions) + 1)]
    for topic_id, numbers in sorted(partitions.items()):
        parts += (topic_id, wire.varint(len(numbers) + 1))
        parts += (struct.pack(f">{len(numbers)}i", *sorted(numbers)), _NO_TAGS)
    return b"".join(parts)


def _read_partitions(reader: wire.Reader) -> Partitions:
    found: dict[bytes, frozenset[int]] = {}
    for _ in range(reader.compact_count(_TOPIC_ID_BYTES)):
        topic_id = reader.take(_TOPIC_ID_BYTES)
        count = reader.compact_count(_INT32.size)
        found[topic_id] = frozenset(struct.unpack(f">{count}i", reader.take(count * _INT32.size)))
        reader.tags()
    return found
