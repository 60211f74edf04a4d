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

Source: Kafka, ConsumerGroup*Value.json of group-coordinator; KIP-848, KIP-1101.
"""

import struct
from collections.abc import Callable
from typing import NamedTuple

from penstock.assignors.partitions import (
    NO_TAGS,
    compact_partitions,
    compact_strings,
    read_partitions,
    read_strings,
)
from penstock.base.ids import MemberEpoch
from penstock.coordinator import wire
from penstock.coordinator.errors import MalformedRecord
from penstock.groups.assigned.currents import STATES, Current, MemberState
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
from penstock.groups.messages import OfferedProtocol

_VERSION = b"\x00\x00"
_HASH_TAG = 0
_CLASSIC_TAG = 0
_PRESENT = 1
"""First byte of a structure that may be null."""
_INT32, _INT64 = struct.Struct(">i"), struct.Struct(">q")
_PROTOCOL_BYTES_MIN = 3


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


class Resolved(NamedTuple):
    """The topics that matched a regular expression at a time (wall clock, ms), in order."""

    topics: tuple[str, ...]
    version: int
    timestamp_ms: int


Said = GroupEpoch | MemberFacts | TargetEpoch | Target | Current | Resolved


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
        return _INT32.pack(said.epoch) + NO_TAGS
    tagged = bytes((1, _HASH_TAG, _INT64.size)) + _INT64.pack(said.topics_hash)
    return _INT32.pack(said.epoch) + tagged


def _decode_group(reader: wire.Reader) -> GroupEpoch:
    epoch = MemberEpoch(reader.int32())
    raw = reader.tags().get(_HASH_TAG)
    return GroupEpoch(epoch, 0 if raw is None else wire.Reader(raw).int64())


def _encode_member(said: MemberFacts) -> bytes:
    return b"".join(
        (
            wire.compact_nullable_string(said.instance_id),
            wire.compact_nullable_string(said.rack_id),
            wire.compact_string(said.client_id),
            wire.compact_string(said.client_host),
            compact_strings(said.topics),
            wire.compact_nullable_string(said.regex),
            _INT32.pack(said.rebalance_timeout_ms),
            wire.compact_nullable_string(said.assignor),
            NO_TAGS if said.classic is None else _classic_tag(said.classic),
        )
    )


def _decode_member(reader: wire.Reader) -> MemberFacts:
    said = MemberFacts(
        instance_id=reader.nullable_string(compact=True),
        rack_id=reader.nullable_string(compact=True),
        client_id=reader.string(compact=True),
        client_host=reader.string(compact=True),
        topics=read_strings(reader),
        regex=reader.nullable_string(compact=True),
        rebalance_timeout_ms=reader.int32(),
        assignor=reader.nullable_string(compact=True),
    )
    raw = reader.tags().get(_CLASSIC_TAG)
    return said if raw is None else said._replace(classic=_read_classic(raw))


def _classic_tag(said: ClassicFacts) -> bytes:
    protocols = b"".join(
        wire.compact_string(name) + wire.varint(len(metadata) + 1) + metadata + NO_TAGS
        for name, metadata in said.protocols
    )
    count = wire.varint(len(said.protocols) + 1)
    value = bytes((_PRESENT,)) + _INT32.pack(said.session_timeout_ms) + count + protocols + NO_TAGS
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


def _encode_current(said: Current) -> bytes:
    head = struct.pack(">iib", said.epoch, said.previous_epoch, said.state)
    partitions = compact_partitions(said.assigned) + compact_partitions(said.revoking)
    return head + partitions + NO_TAGS


def _decode_current(reader: wire.Reader) -> Current:
    epoch, previous_epoch = MemberEpoch(reader.int32()), MemberEpoch(reader.int32())
    state = reader.take(1)[0]
    if state not in STATES:
        raise MalformedRecord(f"member state {state}")
    assigned, revoking = read_partitions(reader), read_partitions(reader)
    reader.tags()
    return Current(epoch, previous_epoch, MemberState(state), assigned, revoking)


def _encode_resolved(said: Resolved) -> bytes:
    times = _INT64.pack(said.version) + _INT64.pack(said.timestamp_ms)
    return compact_strings(said.topics) + times + NO_TAGS


def _decode_resolved(reader: wire.Reader) -> Resolved:
    said = Resolved(read_strings(reader), reader.int64(), reader.int64())
    reader.tags()
    return said


_ENCODERS: dict[type, Callable[..., bytes]] = {
    GroupEpoch: _encode_group,
    MemberFacts: _encode_member,
    TargetEpoch: encode_target_epoch,
    Target: encode_target,
    Current: _encode_current,
    Resolved: _encode_resolved,
}
_DECODERS: dict[Kind, Callable[[wire.Reader], Said]] = {
    Kind.GROUP: _decode_group,
    Kind.MEMBER: _decode_member,
    Kind.TARGET_EPOCH: decode_target_epoch,
    Kind.TARGET: decode_target,
    Kind.CURRENT: _decode_current,
    Kind.REGEX: _decode_resolved,
}
