"""Metadata answers (key 3), versions 0 to 13, by hand: the largest frequent answer there is.

    throttle_ms (v3) | brokers [ id, host, port, rack (v1) ] | cluster id (v2) | controller (v1)
    | topics [ error | name | id (v10) | internal (v1) | partitions | operations (v8) ]
    | cluster operations (v8 to v10) | error (v13)
    partition: error | index | leader | epoch (v7) | replicas | in sync | offline (v5)

All partitions of one replica set differ only in their index. A `PartitionState` holds what they
share; it is encoded once for an answer, and a partition costs one concatenation.

Source: Kafka MetadataResponse.json; KIP-430 (operations), KIP-516 (ids).
tests/protocol/test_metadata.py compares it with kio.
"""

from collections.abc import Sequence
from struct import Struct
from typing import NamedTuple

from penstock.protocol.primitives import array_count, nullable_string, string
from penstock.protocol.varint import uvarint

FLEXIBLE_VERSION = 9
NOT_ASKED_FOR = -(1 << 31)
_ZERO_ID = bytes(16)
_LEADER = Struct(">i")
_LEADER_AND_EPOCH = Struct(">ii")
_BROKER = Struct(">i")
_OPERATIONS = Struct(">i")


class BrokerMetadata(NamedTuple):
    """A broker as clients see it."""

    broker_id: int
    host: str
    port: int
    rack: str | None = None


class PartitionState(NamedTuple):
    """Who leads and holds partitions; share one object between partitions of one replica set."""

    leader_id: int
    leader_epoch: int
    replicas: Sequence[int]
    in_sync: Sequence[int]
    offline: Sequence[int] = ()
    error_code: int = 0


class TopicMetadata(NamedTuple):
    """A topic, or the error for a requested one; partitions as (index, state)."""

    name: str | None
    topic_id: bytes = _ZERO_ID
    partitions: Sequence[tuple[int, PartitionState]] = ()
    error_code: int = 0
    is_internal: bool = False
    operations: int = NOT_ASKED_FOR


class ClusterMetadata(NamedTuple):
    """The fields of an answer besides its topics."""

    brokers: Sequence[BrokerMetadata]
    cluster_id: str | None
    controller_id: int
    throttle_ms: int = 0
    error_code: int = 0
    operations: int = NOT_ASKED_FOR


class MetadataEncoding:
    """The body of an answer that is encoded topic by topic."""

    __slots__ = ("_cluster", "_count", "_out", "_states", "_version")

    def __init__(self, version: int, cluster: ClusterMetadata) -> None:
        self._version = version
        self._cluster = cluster
        self._count = 0
        self._out = bytearray()
        self._states: dict[int, tuple[bytes, bytes]] = {}

    def add(self, topic: TopicMetadata) -> None:
        """Append a topic; the caller must keep its PartitionState objects alive until `finish`."""
        parts: list[bytes] = []
        _put_topic(parts, self._version, topic, self._states)
        self._out += b"".join(parts)
        self._count += 1

    def finish(self) -> bytes:
        """Return the body."""
        version, cluster = self._version, self._cluster
        is_flexible = version >= FLEXIBLE_VERSION
        parts: list[bytes | bytearray] = [
            _head(version, cluster),
            array_count(self._count, is_flexible),
            self._out,
        ]
        if 8 <= version <= 10:
            parts.append(_OPERATIONS.pack(cluster.operations))
        if version >= 13:
            parts.append(cluster.error_code.to_bytes(2, "big", signed=True))
        if is_flexible:
            parts.append(b"\0")
        return b"".join(parts)


def _head(version: int, cluster: ClusterMetadata) -> bytes:
    is_flexible = version >= FLEXIBLE_VERSION
    out = bytearray()
    if version >= 3:
        out += cluster.throttle_ms.to_bytes(4, "big", signed=True)
    out += array_count(len(cluster.brokers), is_flexible)
    for broker_id, host, port, rack in cluster.brokers:
        out += _BROKER.pack(broker_id) + string(host, is_flexible) + _BROKER.pack(port)
        if version >= 1:
            out += nullable_string(rack, is_flexible)
        out += b"\0" if is_flexible else b""
    if version >= 2:
        out += nullable_string(cluster.cluster_id, is_flexible)
    if version >= 1:
        out += _BROKER.pack(cluster.controller_id)
    return bytes(out)


def _put_topic(
    parts: list[bytes], version: int, topic: TopicMetadata, states: dict[int, tuple[bytes, bytes]]
) -> None:
    is_flexible = version >= FLEXIBLE_VERSION
    parts.append(topic.error_code.to_bytes(2, "big", signed=True))
    if version >= 12:
        parts.append(nullable_string(topic.name, True))
    else:
        parts.append(string(topic.name or "", is_flexible))
    if version >= 10:
        parts.append(topic.topic_id)
    if version >= 1:
        parts.append(b"\1" if topic.is_internal else b"\0")
    parts.append(array_count(len(topic.partitions), is_flexible))
    for index, state in topic.partitions:
        known = states.get(id(state))
        if known is None:
            known = states[id(state)] = _encode_state(version, state)
        parts += (known[0], index.to_bytes(4, "big"), known[1])
    if version >= 8:
        parts.append(_OPERATIONS.pack(topic.operations))
    if is_flexible:
        parts.append(b"\0")


def _encode_state(version: int, state: PartitionState) -> tuple[bytes, bytes]:
    """Return the bytes before a partition's index, and those after it."""
    is_flexible = version >= FLEXIBLE_VERSION
    out = bytearray()
    if version >= 7:
        out += _LEADER_AND_EPOCH.pack(state.leader_id, state.leader_epoch)
    else:
        out += _LEADER.pack(state.leader_id)
    out += _ids(state.replicas, is_flexible) + _ids(state.in_sync, is_flexible)
    if version >= 5:
        out += _ids(state.offline, is_flexible)
    out += b"\0" if is_flexible else b""
    return state.error_code.to_bytes(2, "big", signed=True), bytes(out)


def _ids(ids: Sequence[int], is_flexible: bool) -> bytes:
    count = uvarint(len(ids) + 1) if is_flexible else len(ids).to_bytes(4, "big")
    return count + Struct(f">{len(ids)}i").pack(*ids)
