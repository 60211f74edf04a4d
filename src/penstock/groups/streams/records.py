"""The records of a streams group in `__consumer_offsets`, byte for byte as in Kafka.

    key   int16 kind, string group, then         value (int16 version 0, compact fields, tags)
          17                                     group epoch; hash of the topics; validated topology
          19  string member                      what the member has said of itself
          20                                     epoch of the target assignment
          21  string member                      the tasks that the member is to have
          22  string member                      the tasks that it has, and its epoch
          23                                     the topology (topology.py)

A value that says more than this version knows is used as far as it is known; the loader keeps it
whole. Such are the epochs of single tasks (tag 0 of kind 22), the time of a target (tag 0 of kind
20) and the described topology (tags 2 and 3 of kind 17). Full tables:
docs/formats/group-records.md.

Source: Kafka 4.4, StreamsGroup*Key.json and *Value.json of group-coordinator; KIP-1071. Kind 18,
the partition counts of topics, is of releases before that and not written.
"""

import struct
from collections.abc import Callable
from typing import NamedTuple

from penstock.assignors.partitions import NO_TAGS
from penstock.base.ids import MemberEpoch, TopologyEpoch
from penstock.coordinator import wire
from penstock.coordinator.errors import MalformedRecord
from penstock.groups.assigned.currents import STATES, Current, MemberState
from penstock.groups.assigned.names import Kind
from penstock.groups.assigned.targets import (
    Target,
    TargetEpoch,
    decode_target_epoch,
    encode_target_epoch,
)
from penstock.groups.streams.tasks import all_roles, read_tasks
from penstock.groups.streams.topology import (
    Topology,
    decode_topology,
    encode_pairs,
    encode_topology,
    read_pairs,
)

NOT_VALIDATED = TopologyEpoch(-1)
"""No epoch of a topology."""
FIRST_STATE = 1
"""Number of STABLE in these records; the others follow."""
_VERSION = b"\x00\x00"
_VALIDATED_TAG, _CONFIGS_TAG = 0, 1
_PRESENT, _ABSENT = b"\x01", b"\xff"
_NULL_ARRAY = b"\x00"
_INT32, _INT64, _UINT16 = struct.Struct(">i"), struct.Struct(">q"), struct.Struct(">H")

Pairs = tuple[tuple[str, str], ...]


class Endpoint(NamedTuple):
    """Where an application answers questions about the state of its tasks."""

    host: str
    port: int


class StreamsEpoch(NamedTuple):
    """The group epoch, and what it is for."""

    epoch: MemberEpoch
    topics_hash: int = 0
    validated: TopologyEpoch = NOT_VALIDATED
    """The epoch of the topology whose topics were all found as they have to be."""
    configs: Pairs = ()
    """The settings that the assignment goes by."""


class MemberFacts(NamedTuple):
    """What a member has said of itself."""

    instance_id: str | None
    rack_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    topology_epoch: TopologyEpoch
    process_id: str
    endpoint: Endpoint | None
    tags: Pairs


Said = StreamsEpoch | MemberFacts | TargetEpoch | Target | Current | Topology


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


def _encode_group(said: StreamsEpoch) -> bytes:
    tags = []
    if said.validated != NOT_VALIDATED:
        tags.append((_VALIDATED_TAG, _INT32.pack(said.validated)))
    if said.configs:
        tags.append((_CONFIGS_TAG, encode_pairs(said.configs)))
    encoded = b"".join(wire.varint(tag) + wire.varint(len(raw)) + raw for tag, raw in tags)
    return struct.pack(">iq", said.epoch, said.topics_hash) + wire.varint(len(tags)) + encoded


def _decode_group(reader: wire.Reader) -> StreamsEpoch:
    epoch, topics_hash = MemberEpoch(reader.int32()), reader.int64()
    tags = reader.tags()
    validated, configs = tags.get(_VALIDATED_TAG), tags.get(_CONFIGS_TAG)
    return StreamsEpoch(
        epoch,
        topics_hash,
        NOT_VALIDATED if validated is None else TopologyEpoch(wire.Reader(validated).int32()),
        () if configs in (None, _NULL_ARRAY) else read_pairs(wire.Reader(configs)),
    )


def _encode_member(said: MemberFacts) -> bytes:
    return b"".join(
        (
            wire.compact_nullable_string(said.instance_id),
            wire.compact_nullable_string(said.rack_id),
            wire.compact_string(said.client_id),
            wire.compact_string(said.client_host),
            struct.pack(">ii", said.rebalance_timeout_ms, said.topology_epoch),
            wire.compact_string(said.process_id),
            _encode_endpoint(said.endpoint),
            encode_pairs(said.tags),
            NO_TAGS,
        )
    )


def _decode_member(reader: wire.Reader) -> MemberFacts:
    said = MemberFacts(
        instance_id=reader.nullable_string(compact=True),
        rack_id=reader.nullable_string(compact=True),
        client_id=reader.string(compact=True),
        client_host=reader.string(compact=True),
        rebalance_timeout_ms=reader.int32(),
        topology_epoch=TopologyEpoch(reader.int32()),
        process_id=reader.string(compact=True),
        endpoint=_decode_endpoint(reader),
        tags=read_pairs(reader),
    )
    reader.tags()
    return said


def _encode_endpoint(said: Endpoint | None) -> bytes:
    if said is None:
        return _ABSENT
    return _PRESENT + wire.compact_string(said.host) + _UINT16.pack(said.port) + NO_TAGS


def _decode_endpoint(reader: wire.Reader) -> Endpoint | None:
    marker = reader.take(1)
    if marker == _ABSENT:
        return None
    if marker != _PRESENT:
        raise MalformedRecord(f"endpoint marker {marker[0]}")
    host = reader.string(compact=True)
    said = Endpoint(host, _UINT16.unpack(reader.take(_UINT16.size))[0])
    reader.tags()
    return said


def _encode_target(said: Target) -> bytes:
    return all_roles(said.partitions) + NO_TAGS


def _decode_target(reader: wire.Reader) -> Target:
    said = Target(read_tasks(reader))
    reader.tags()
    return said


def _encode_current(said: Current) -> bytes:
    head = struct.pack(">iib", said.epoch, said.previous_epoch, said.state + FIRST_STATE)
    return head + all_roles(said.assigned) + all_roles(said.revoking) + NO_TAGS


def _decode_current(reader: wire.Reader) -> Current:
    epoch, previous_epoch = MemberEpoch(reader.int32()), MemberEpoch(reader.int32())
    state = reader.take(1)[0] - FIRST_STATE
    if state not in STATES:
        raise MalformedRecord(f"member state {state + FIRST_STATE}")
    assigned, revoking = read_tasks(reader), read_tasks(reader)
    reader.tags()
    return Current(epoch, previous_epoch, MemberState(state), assigned, revoking)


_ENCODERS: dict[type, Callable[..., bytes]] = {
    StreamsEpoch: _encode_group,
    MemberFacts: _encode_member,
    TargetEpoch: encode_target_epoch,
    Target: _encode_target,
    Current: _encode_current,
    Topology: encode_topology,
}
_DECODERS: dict[Kind, Callable[[wire.Reader], Said]] = {
    Kind.STREAMS_GROUP: _decode_group,
    Kind.STREAMS_MEMBER: _decode_member,
    Kind.STREAMS_TARGET_EPOCH: decode_target_epoch,
    Kind.STREAMS_TARGET: _decode_target,
    Kind.STREAMS_CURRENT: _decode_current,
    Kind.STREAMS_TOPOLOGY: decode_topology,
}
