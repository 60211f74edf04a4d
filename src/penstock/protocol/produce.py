"""Produce (key 0), versions 3 to 13, by hand: the hottest request there is.

    request  transactional_id | acks i16 | timeout_ms i32
             topics [ name, or id of 16 bytes from v13 | partitions [ index i32 | records ] ]
    answer   topics [ name or id | partitions [ index i32 | error i16 | base_offset i64
             | log_append_time_ms i64 | log_start_offset i64 (v5) | record errors, message (v8)
             | tag 0: current leader (v10) ] ] | throttle_ms i32 | tag 0: leader endpoints (v10)

From v9 on lengths are compact and structures end with tagged fields. Records are not copied: a
partition is two positions in the frame. A request with one topic and one partition, the usual case
for an idle or a well-spread producer, takes a short path of two unpacks each way; all others take
the general path (walk.py).

Source: Kafka ProduceRequest.json, ProduceResponse.json; KIP-467 (record errors), KIP-951 (leader
hints), KIP-516 (topic ids). Versions 0 to 2 are gone (KIP-896). The record room handles the batches
themselves. tests/protocol/test_produce.py compares all of this with kio.
"""

import struct
from collections.abc import Sequence
from functools import lru_cache
from itertools import groupby
from operator import itemgetter
from typing import NamedTuple

from penstock.protocol.decode import ELEMENTS_MAX
from penstock.protocol.errors import MalformedRequest
from penstock.protocol.primitives import (
    LeaderEndpoint,
    array_count,
    compact_bytes,
    endpoints_tag,
    legacy_name,
    nullable_string,
    tagged_pair,
)
from penstock.protocol.walk import Walker

FLEXIBLE_VERSION = 9
TOPIC_ID_VERSION = 13
_TOPIC_ID_BYTES = 16
BATCHES_MAX = 14_000
"""Batches and topics in one request: as many as fit into the largest request of the Java client, 1
MiB. Parsing so many takes about 10 ms, and so does encoding their answers."""


class PartitionData(NamedTuple):
    """Records for one partition: bytes [records_at, records_end) of the frame; null is empty.

    `topic` is the name as in the frame, from version 13 on the topic id.
    """

    topic: bytes
    partition: int
    records_at: int
    records_end: int


class ProduceRequest(NamedTuple):
    """A parsed request; partitions in the order of the frame."""

    transactional_id: str | None
    acks: int
    timeout_ms: int
    partitions: list[PartitionData]


class PartitionAnswer(NamedTuple):
    """The outcome for one partition's records; -1 stands for unknown offsets and times.

    `record_errors` are (index in the batch, message), `current_leader` is (broker id, epoch).
    """

    topic: bytes
    partition: int
    error_code: int = 0
    base_offset: int = -1
    log_append_time_ms: int = -1
    log_start_offset: int = -1
    error_message: str | None = None
    record_errors: Sequence[tuple[int, str | None]] = ()
    current_leader: tuple[int, int] | None = None


_make = tuple.__new__


def appended(
    part: PartitionData, base_offset: int, log_append_time_ms: int, log_start_offset: int
) -> PartitionAnswer:
    """Return the answer for records that were appended; called once for every request."""
    topic, partition, _, _ = part
    answer = topic, partition, 0, base_offset, log_append_time_ms, log_start_offset, None, (), None
    return _make(PartitionAnswer, answer)


# transactional_id null, one topic, a name of at most 126 bytes; each struct ends at the name
_LEGACY_START = struct.Struct(">hhiih")
_FLEXIBLE_START = struct.Struct(">BhiBB")
_ID_START = struct.Struct(">BhiB16sBi")
_LEGACY_PARTITION = struct.Struct(">iii")
_FLEXIBLE_PARTITION = struct.Struct(">Bi")


def parse_produce_request(frame: memoryview, at: int, version: int) -> ProduceRequest:
    """Parse the body at `at`, up to the end of the frame. Raises MalformedRequest."""
    request = parse_usual_request(frame, at, version)
    return request if request is not None else _parse_any(frame, at, version)


def parse_usual_request(frame: memoryview, at: int, version: int) -> ProduceRequest | None:
    """Parse a body with one partition and no transaction; None for any other or a damaged one."""
    try:
        if version < FLEXIBLE_VERSION:
            return _parse_one_legacy(frame, at)
        if version < TOPIC_ID_VERSION:
            return _parse_one_flexible(frame, at)
        return _parse_one_with_id(frame, at)
    except (struct.error, IndexError):
        return None  # the frame is too short; the general path reports what is wrong


def _parse_one_legacy(frame: memoryview, at: int) -> ProduceRequest | None:
    no_txn, acks, timeout_ms, topics, name_bytes = _LEGACY_START.unpack_from(frame, at)
    if no_txn != -1 or topics != 1 or name_bytes < 0:
        return None
    at += 14
    name_end = at + name_bytes
    count, partition, size = _LEGACY_PARTITION.unpack_from(frame, name_end)
    start = name_end + 12
    if count != 1 or size < 0 or start + size != len(frame):
        return None
    part = _make(PartitionData, (bytes(frame[at:name_end]), partition, start, start + size))
    return _make(ProduceRequest, (None, acks, timeout_ms, [part]))


def _parse_one_flexible(frame: memoryview, at: int) -> ProduceRequest | None:
    no_txn, acks, timeout_ms, topics, name_bytes = _FLEXIBLE_START.unpack_from(frame, at)
    if no_txn != 0 or topics != 2 or not 0 < name_bytes < 0x80:
        return None
    at += 9
    name_end = at + name_bytes - 1
    count, partition = _FLEXIBLE_PARTITION.unpack_from(frame, name_end)
    start, end = _last_records(frame, name_end + 5)
    if count != 2 or end < 0:
        return None
    part = _make(PartitionData, (bytes(frame[at:name_end]), partition, start, end))
    return _make(ProduceRequest, (None, acks, timeout_ms, [part]))


def _parse_one_with_id(frame: memoryview, at: int) -> ProduceRequest | None:
    no_txn, acks, timeout_ms, topics, topic, count, partition = _ID_START.unpack_from(frame, at)
    start, end = _last_records(frame, at + _ID_START.size)
    if no_txn != 0 or topics != 2 or count != 2 or end < 0:
        return None
    part = _make(PartitionData, (topic, partition, start, end))
    return _make(ProduceRequest, (None, acks, timeout_ms, [part]))


def _last_records(frame: memoryview, at: int) -> tuple[int, int]:
    """Return [start, end) of records if only three empty tag sections follow, else (0, -1)."""
    size = frame[at]
    at += 1
    if size >= 0x80:
        byte = frame[at]
        size += (byte << 7) - 0x80
        at += 1
        if byte >= 0x80:
            byte = frame[at]
            size += (byte << 14) - 0x4000
            at += 1
            if byte >= 0x80:
                return 0, -1
    end = at + size - 1
    if size == 0 or end + 3 != len(frame) or frame[end] or frame[end + 1] or frame[end + 2]:
        return 0, -1
    return at, end


def _parse_any(frame: memoryview, at: int, version: int) -> ProduceRequest:
    walker = Walker(frame, at, version >= FLEXIBLE_VERSION, ELEMENTS_MAX)
    transactional_id = walker.nullable_string()
    acks = walker.int16()
    timeout_ms = walker.int32()
    partitions: list[PartitionData] = []
    topics = walker.count()
    _check_count(topics)
    for _ in range(topics):
        topic = walker.take(_TOPIC_ID_BYTES) if version >= TOPIC_ID_VERSION else walker.name()
        count = walker.count()
        _check_count(topics + len(partitions) + count)
        partitions += [
            _make(PartitionData, (topic, *walker.numbered_bytes())) for _ in range(count)
        ]
        walker.tags()
    walker.tags()
    walker.finish()
    return ProduceRequest(transactional_id, acks, timeout_ms, partitions)


def _check_count(count: int) -> None:
    if count > BATCHES_MAX:
        raise MalformedRequest(f"more than {BATCHES_MAX} topics and batches in a produce request")


_FRAME = struct.Struct(">ii")
_FLEXIBLE_FRAME = struct.Struct(">iiB")
_PARTITION_V3 = struct.Struct(">ihqq")
_PARTITION_V5 = struct.Struct(">ihqqq")
_LEGACY_ONE_V3 = struct.Struct(">iihqqi")
_LEGACY_ONE_V5 = struct.Struct(">iihqqqi")
_LEGACY_ONE_V8 = struct.Struct(">iihqqqihi")
_FLEXIBLE_ONE = struct.Struct(">BihqqqBBBBiB")


def encode_appended(version: int, correlation_id: int, answer: PartitionAnswer) -> bytes:
    """Return the whole answer, size field and header included, to one partition without error."""
    return frame_answer(version, correlation_id, encode_produce_response(version, (answer,)))


def frame_answer(version: int, correlation_id: int, body: bytes) -> bytes:
    """Return the answer with its size field and header before it."""
    if version >= FLEXIBLE_VERSION:
        return _FLEXIBLE_FRAME.pack(len(body) + 5, correlation_id, 0) + body
    return _FRAME.pack(len(body) + 4, correlation_id) + body


def encode_produce_response(
    version: int,
    answers: Sequence[PartitionAnswer],
    *,
    throttle_ms: int = 0,
    endpoints: Sequence[LeaderEndpoint] = (),
) -> bytes:
    """Encode the body of the answer; consecutive answers of one topic become one entry."""
    if len(answers) == 1 and not endpoints:
        encoded = _encode_one(version, answers[0], throttle_ms)
        if encoded is not None:
            return encoded
    return _encode_any(version, answers, throttle_ms, endpoints)


def _encode_one(version: int, answer: PartitionAnswer, throttle_ms: int) -> bytes | None:
    """Encode an answer without errors and hints in one pack; None if it has any."""
    topic, partition, error, base_offset, time_ms, start_offset, message, errors, leader = answer
    if message is not None or errors or leader is not None or len(topic) > _CACHED_NAME_BYTES:
        return None
    if version >= FLEXIBLE_VERSION:
        head = b"\2" + topic if version >= TOPIC_ID_VERSION else _flexible_head(topic)
        return head + _FLEXIBLE_ONE.pack(
            2, partition, error, base_offset, time_ms, start_offset, 1, 0, 0, 0, throttle_ms, 0
        )
    head = _legacy_head(topic)
    if version >= 8:
        return head + _LEGACY_ONE_V8.pack(
            1, partition, error, base_offset, time_ms, start_offset, 0, -1, throttle_ms
        )
    if version >= 5:
        return head + _LEGACY_ONE_V5.pack(
            1, partition, error, base_offset, time_ms, start_offset, throttle_ms
        )
    return head + _LEGACY_ONE_V3.pack(1, partition, error, base_offset, time_ms, throttle_ms)


_CACHED_NAME_BYTES = 249
"""The longest name of a topic. Clients may send names of 32 kB, which must not fill the caches."""


@lru_cache(maxsize=1024)
def _flexible_head(topic: bytes) -> bytes:
    """One topic of this name, up to the count of its partitions."""
    return b"\2" + compact_bytes(topic)


@lru_cache(maxsize=1024)
def _legacy_head(topic: bytes) -> bytes:
    """As `_flexible_head`, for versions without compact lengths."""
    return b"\0\0\0\1" + legacy_name(topic)


def _encode_any(
    version: int,
    answers: Sequence[PartitionAnswer],
    throttle_ms: int,
    endpoints: Sequence[LeaderEndpoint],
) -> bytes:
    is_flexible = version >= FLEXIBLE_VERSION
    topics = [(topic, list(group)) for topic, group in groupby(answers, itemgetter(0))]
    out = bytearray(array_count(len(topics), is_flexible))
    for topic, parts in topics:
        if version >= TOPIC_ID_VERSION:
            out += topic
        else:
            out += compact_bytes(topic) if is_flexible else legacy_name(topic)
        out += array_count(len(parts), is_flexible)
        for answer in parts:
            _put_partition(out, version, answer)
        out += b"\0" if is_flexible else b""
    out += throttle_ms.to_bytes(4, "big", signed=True)
    if is_flexible:
        out += endpoints_tag(endpoints) if version >= 10 else b"\0"
    return bytes(out)


def _put_partition(out: bytearray, version: int, answer: PartitionAnswer) -> None:
    if version < 5:
        out += _PARTITION_V3.pack(*answer[1:5])
        return
    out += _PARTITION_V5.pack(*answer[1:6])
    if version < 8:
        return
    is_flexible = version >= FLEXIBLE_VERSION
    out += array_count(len(answer.record_errors), is_flexible)
    for index, message in answer.record_errors:
        out += index.to_bytes(4, "big", signed=True) + nullable_string(message, is_flexible)
        out += b"\0" if is_flexible else b""
    out += nullable_string(answer.error_message, is_flexible)
    if is_flexible:
        out += _leader_tags(answer.current_leader if version >= 10 else None)


def _leader_tags(leader: tuple[int, int] | None) -> bytes:
    if leader is None or leader == (-1, -1):
        return b"\0"
    return b"\1" + tagged_pair(0, ">iiB", leader)
