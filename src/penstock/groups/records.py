"""The records of `__consumer_offsets`, byte for byte as in Kafka.

    key   int16 version, then
          0, 1  string group, string topic, int32 partition        a committed offset
          2     string group                                       a group's metadata
    value int16 version, then the fields of that version; null is a tombstone

All versions are read. Written are key 1 with value 3 (4 if the topic id is known, which is its
tagged field 0) and key 2 with value 3. Full tables: docs/formats/group-records.md.

Source: Kafka, OffsetCommitKey/Value.json and GroupMetadataKey/Value.json of group-coordinator;
KIP-915 for tagged fields. Other key versions (newer group types) are recognized, not decoded.
"""

import struct
from collections.abc import Iterator
from typing import NamedTuple

from penstock.base.ids import NO_LEADER_EPOCH, LeaderEpoch
from penstock.coordinator import wire
from penstock.coordinator.errors import MalformedRecord
from penstock.coordinator.records import NO_TIMESTAMP, UnreadRecord

OFFSET_KEY_VERSIONS = (0, 1)
GROUP_KEY_VERSION = 2
GROUP_VALUE_VERSION = 3
TOPIC_ID_TAG = 0
TOPIC_ID_BYTES = 16
NO_OFFSET = -1
_MEMBER_BYTES_MIN = 2 + 2 + 2 + 4 + 4 + 4


class TopicKey(NamedTuple):
    """A partition by the name of its topic, as commits name it."""

    topic: str
    partition: int


class OffsetKey(NamedTuple):
    """Key of a committed offset."""

    group_id: str
    topic: str
    partition: int


class GroupKey(NamedTuple):
    """Key of a group's metadata."""

    group_id: str


class CommittedOffset(NamedTuple):
    """One committed offset: the next record to read (exclusive end of what was processed).

    `unread` is the whole record if it has more than these fields. If it could not be read at all,
    the fields are those of the record before it, or offset -1 (none).
    """

    offset: int
    leader_epoch: LeaderEpoch = NO_LEADER_EPOCH
    metadata: str = ""
    commit_timestamp_ms: int = NO_TIMESTAMP
    topic_id: bytes | None = None
    unread: UnreadRecord | None = None


class MemberRecord(NamedTuple):
    """One member within a group's metadata."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    subscription: bytes
    assignment: bytes


class GroupRecord(NamedTuple):
    """A group after its last completed rebalance; `members` is empty if it was empty."""

    protocol_type: str
    generation: int
    protocol_name: str | None
    leader_id: str | None
    state_timestamp_ms: int
    members: tuple[MemberRecord, ...]


def encode_offset_key(group_id: str, key: TopicKey) -> bytes:
    """Return the key (version 1) of a committed offset."""
    return (
        b"\x00\x01"
        + wire.string(group_id)
        + wire.string(key.topic)
        + struct.pack(">i", key.partition)
    )


def encode_group_key(group_id: str) -> bytes:
    """Return the key (version 2) of a group's metadata."""
    return b"\x00\x02" + wire.string(group_id)


def decode_key(data: bytes) -> OffsetKey | GroupKey | None:
    """Return the decoded key, or None for a kind of record that this version does not know.

    A key with bytes after its last field is of an unknown kind. Raises MalformedRecord.
    """
    reader = wire.Reader(data)
    version = reader.int16()
    name: OffsetKey | GroupKey | None = None
    if version in OFFSET_KEY_VERSIONS:
        name = OffsetKey(reader.string(), reader.string(), reader.int32())
    elif version == GROUP_KEY_VERSION:
        name = GroupKey(reader.string())
    return name if reader.is_at_end else None


def encode_offset_value(value: CommittedOffset) -> bytes:
    """Return the value of a committed offset: version 4 with a topic id, else version 3."""
    if value.topic_id is None:
        return (
            struct.pack(">hqi", 3, value.offset, value.leader_epoch)
            + wire.string(value.metadata)
            + struct.pack(">q", value.commit_timestamp_ms)
        )
    assert len(value.topic_id) == TOPIC_ID_BYTES, value.topic_id
    tags = bytes((1, TOPIC_ID_TAG, TOPIC_ID_BYTES)) + value.topic_id
    return (
        struct.pack(">hqi", 4, value.offset, value.leader_epoch)
        + wire.compact_string(value.metadata)
        + struct.pack(">q", value.commit_timestamp_ms)
        + tags
    )


def decode_offset_value(data: bytes) -> CommittedOffset:
    """Return the committed offset in a value of version 0 to 4. Raises MalformedRecord."""
    reader = wire.Reader(data)
    version = reader.int16()
    if not 0 <= version <= 4:
        raise MalformedRecord(f"offset value version {version}")
    offset = reader.int64()
    leader_epoch = LeaderEpoch(reader.int32()) if version >= 3 else NO_LEADER_EPOCH
    metadata = reader.string(compact=version >= 4)
    timestamp = reader.int64()
    topic_id = reader.tags().get(TOPIC_ID_TAG) if version >= 4 else None
    if topic_id is not None and len(topic_id) != TOPIC_ID_BYTES:
        raise MalformedRecord(f"topic id of {len(topic_id)} bytes")
    return CommittedOffset(offset, leader_epoch, metadata, timestamp, topic_id)


def says_position(value: bytes | None) -> bool:
    """Return whether a value can be decoded as a committed offset."""
    if value is None:
        return False
    try:
        decode_offset_value(value)
    except MalformedRecord:
        return False
    return True


def encode_group_value(group: GroupRecord) -> bytes:
    """Return the value (version 3) of a group's metadata."""
    head = encode_group_head(group, len(group.members))
    return head + b"".join(encode_member(member) for member in group.members)


def encode_group_head(group: GroupRecord, member_count: int) -> bytes:
    """Return the head of that value, which `member_count` members follow."""
    return b"".join(
        (
            struct.pack(">h", GROUP_VALUE_VERSION),
            wire.string(group.protocol_type),
            struct.pack(">i", group.generation),
            wire.nullable_string(group.protocol_name),
            wire.nullable_string(group.leader_id),
            struct.pack(">qi", group.state_timestamp_ms, member_count),
        )
    )


def encode_member(member: MemberRecord) -> bytes:
    """Return the part of that value for one member."""
    return b"".join(
        (
            wire.string(member.member_id),
            wire.nullable_string(member.instance_id),
            wire.string(member.client_id),
            wire.string(member.client_host),
            struct.pack(">ii", member.rebalance_timeout_ms, member.session_timeout_ms),
            wire.bytes_(member.subscription),
            wire.bytes_(member.assignment),
        )
    )


def decode_group_value(data: bytes) -> GroupRecord:
    """Return the group in a value of version 0 to 4. Raises MalformedRecord."""
    group, members = read_group_value(data)
    return group._replace(members=tuple(members))


def read_group_value(data: bytes) -> tuple[GroupRecord, Iterator[MemberRecord]]:
    """Return the group without members, and an iterator over its members: there may be thousands.

    Raises MalformedRecord, also during the iteration.
    """
    reader = wire.Reader(data)
    version = reader.int16()
    if not 0 <= version <= 4:
        raise MalformedRecord(f"group value version {version}")
    compact = version >= 4
    protocol_type = reader.string(compact=compact)
    generation = reader.int32()
    protocol_name = reader.nullable_string(compact=compact)
    leader_id = reader.nullable_string(compact=compact)
    timestamp = reader.int64() if version >= 2 else NO_TIMESTAMP
    count = reader.varint() - 1 if compact else reader.int32()
    if not 0 <= count * _MEMBER_BYTES_MIN <= 2 * len(data):
        raise MalformedRecord(f"{count} members in {len(data)} bytes")
    front = GroupRecord(protocol_type, generation, protocol_name, leader_id, timestamp, ())
    return front, (_decode_member(reader, version) for _ in range(count))


def _decode_member(reader: wire.Reader, version: int) -> MemberRecord:
    compact = version >= 4
    member_id = reader.string(compact=compact)
    instance_id = reader.nullable_string(compact=compact) if version >= 3 else None
    client_id, client_host = reader.string(compact=compact), reader.string(compact=compact)
    rebalance_timeout_ms = reader.int32() if version >= 1 else -1
    session_timeout_ms = reader.int32()
    subscription, assignment = reader.bytes_(compact=compact), reader.bytes_(compact=compact)
    if compact:
        reader.tags()
    return MemberRecord(
        member_id,
        instance_id,
        client_id,
        client_host,
        session_timeout_ms if rebalance_timeout_ms < 0 else rebalance_timeout_ms,
        session_timeout_ms,
        subscription,
        assignment,
    )
