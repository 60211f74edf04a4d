"""Fetch (key 1), versions 4 to 18, by hand; records are sent as the memoryviews that were given.

    request  [replica_id i32, to v14] | max_wait_ms i32 | min_bytes i32 | max_bytes i32
             | isolation i8 | session_id i32, session_epoch i32 (v7) | topics | forgotten (v7)
             | rack (v11) | tag 0: cluster id (v12) | tag 1: replica (v15)
             partition: index | leader epoch (v9) | offset | last fetched epoch (v12)
             | log start (v5) | max_bytes
    answer   throttle_ms i32 | error i16, session_id i32 (v7) | topics | tag 0: endpoints (v16)
             partition: index | error | high watermark | last stable offset | log start (v5)
             | aborted transactions | preferred replica (v11) | records
             | tags (v12) 0: diverging epoch, 1: current leader

From v12 on lengths are compact, from v13 on topics are given by id. The answer is a list of
buffers, with one buffer for everything between two partitions' records, so that records are never
copied.

Source: Kafka FetchRequest.json, FetchResponse.json; KIP-227 (sessions), KIP-320 (epochs), KIP-392
(racks), KIP-516 (ids), KIP-951 (leader hints). Fields of Kafka's followers (replica directory, high
watermark) are skipped: our replicas do not fetch through this protocol.
tests/protocol/test_fetch.py compares it with kio.
"""

import struct
import sys
from array import array
from collections.abc import Sequence
from itertools import chain, groupby
from operator import itemgetter
from typing import NamedTuple

from penstock.base.ids import NO_LEADER_EPOCH, LeaderEpoch, SessionEpoch
from penstock.base.ports import Buffer
from penstock.protocol.decode import ELEMENTS_MAX
from penstock.protocol.errors import MalformedRequest
from penstock.protocol.header import TAGS_MAX
from penstock.protocol.primitives import (
    LeaderEndpoint,
    array_count,
    compact_bytes,
    endpoints_tag,
    legacy_name,
    tagged_pair,
)
from penstock.protocol.varint import read_uvarint, uvarint
from penstock.protocol.walk import Walker

FLEXIBLE_VERSION = 12
TOPIC_ID_VERSION = 13
_NO_REPLICA_FIELD_VERSION = 15
_TOPIC_ID_BYTES = 16
_ABORTED_BYTES = 16


class FetchPartition(NamedTuple):
    """What a consumer asks for from one partition; -1 for an unknown epoch.

    `topic` is the name as in the frame, from version 13 on the topic id.
    """

    topic: bytes
    partition: int
    leader_epoch: LeaderEpoch
    fetch_offset: int
    last_fetched_epoch: LeaderEpoch
    log_start_offset: int
    max_bytes: int


class FetchRequest(NamedTuple):
    """A parsed request; partitions and forgotten (topic, partition) in the order of the frame."""

    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    isolation_level: int
    session_id: int
    session_epoch: SessionEpoch
    partitions: list[FetchPartition]
    forgotten: list[tuple[bytes, int]]
    rack_id: str
    replica_id: int
    cluster_id: str | None


class FetchAnswer(NamedTuple):
    """The answer for one partition; offsets of -1 are unknown.

    `buffers` are whole batches one after another. `aborted` is (producer id, first offset) for
    read_committed, None otherwise. `diverging` is (epoch, end offset), `current_leader` is
    (broker id, epoch).
    """

    topic: bytes
    partition: int
    error_code: int = 0
    high_watermark: int = -1
    last_stable_offset: int = -1
    log_start_offset: int = -1
    buffers: Sequence[Buffer] = ()
    aborted: Sequence[tuple[int, int]] | None = None
    preferred_read_replica: int = -1
    diverging: tuple[int, int] | None = None
    current_leader: tuple[int, int] | None = None


_FIXED = struct.Struct(">iiib")
_SESSION = struct.Struct(">ii")
_NO_SESSION = (0, -1)
_PARTITION_V4 = struct.Struct(">iqi")
_PARTITION_V5 = struct.Struct(">iqqi")
_PARTITION_V9 = struct.Struct(">iiqqi")
_PARTITION_V12 = struct.Struct(">iiqiqi")

make_tuple = tuple.__new__
"""Makes a NamedTuple faster than a call of its class: there is one per partition of a fetch."""


def parse_fetch_request(frame: memoryview, at: int, version: int) -> FetchRequest:
    """Parse the body at `at`, up to the end of the frame. Raises MalformedRequest."""
    walker = Walker(frame, at, version >= FLEXIBLE_VERSION, ELEMENTS_MAX)
    replica_id = walker.int32() if version < _NO_REPLICA_FIELD_VERSION else -1
    max_wait_ms, min_bytes, max_bytes, isolation_level = walker.unpack(_FIXED)
    session_id, session_epoch = walker.unpack(_SESSION) if version >= 7 else _NO_SESSION
    partitions = _read_partitions(walker, version)
    forgotten = _read_forgotten(walker, version) if version >= 7 else []
    rack_id = walker.string() if version >= 11 else ""
    cluster_id = None
    if version >= FLEXIBLE_VERSION:
        cluster_id, tagged_replica_id = _read_tags(walker)
        replica_id = tagged_replica_id if version >= _NO_REPLICA_FIELD_VERSION else replica_id
    walker.finish()
    return FetchRequest(
        max_wait_ms,
        min_bytes,
        max_bytes,
        isolation_level,
        session_id,
        SessionEpoch(session_epoch),
        partitions,
        forgotten,
        rack_id,
        replica_id,
        cluster_id,
    )


def _topic(walker: Walker, version: int) -> bytes:
    return walker.take(_TOPIC_ID_BYTES) if version >= TOPIC_ID_VERSION else walker.name()


def _read_partitions(walker: Walker, version: int) -> list[FetchPartition]:
    partitions: list[FetchPartition] = []
    for _ in range(walker.count()):
        topic = _topic(walker, version)
        for _ in range(walker.count(_PARTITION_V4.size)):
            partitions.append(_read_partition(walker, version, topic))  # noqa: PERF401
        walker.tags()
    return partitions


def _read_partition(walker: Walker, version: int, topic: bytes) -> FetchPartition:
    if version >= FLEXIBLE_VERSION:
        fields = walker.unpack(_PARTITION_V12)
        walker.tags()
        return make_tuple(FetchPartition, (topic, *fields))
    if version >= 9:
        partition, epoch, offset, start, size = walker.unpack(_PARTITION_V9)
        return FetchPartition(topic, partition, epoch, offset, NO_LEADER_EPOCH, start, size)
    if version >= 5:
        partition, offset, start, size = walker.unpack(_PARTITION_V5)
        return FetchPartition(
            topic, partition, NO_LEADER_EPOCH, offset, NO_LEADER_EPOCH, start, size
        )
    partition, offset, size = walker.unpack(_PARTITION_V4)
    return FetchPartition(topic, partition, NO_LEADER_EPOCH, offset, NO_LEADER_EPOCH, -1, size)


def _read_forgotten(walker: Walker, version: int) -> list[tuple[bytes, int]]:
    forgotten: list[tuple[bytes, int]] = []
    for _ in range(walker.count()):
        topic = _topic(walker, version)
        forgotten += [(topic, walker.int32()) for _ in range(walker.count(4))]
        walker.tags()
    return forgotten


def _read_tags(walker: Walker) -> tuple[str | None, int]:
    """Return (cluster id, replica id) of the tagged fields; others are skipped."""
    frame = walker.frame
    cluster_id: str | None = None
    replica_id = -1
    count, walker.at = read_uvarint(frame, walker.at)
    if count > TAGS_MAX:
        raise MalformedRequest(f"more than {TAGS_MAX} tagged fields")
    for _ in range(count):
        tag, walker.at = read_uvarint(frame, walker.at)
        size, start = read_uvarint(frame, walker.at)
        walker.at = start
        end = start + size
        if tag == 0:
            cluster_id = walker.nullable_string()
        elif tag == 1:
            replica_id = walker.int32()
            walker.int64()
            walker.tags()
        else:
            walker.take(size)
        if walker.at != end:
            raise MalformedRequest(f"tagged field {tag} does not fill its length")
    return cluster_id, replica_id


_ANSWER_V4 = struct.Struct(">ihqq")
_ANSWER_V5 = struct.Struct(">ihqqq")
_FLEXIBLE_EMPTY = struct.Struct(">ihqqqBiBB")
"""No aborted transactions, a preferred replica, no records and no tags."""


def encode_fetch_response(
    version: int,
    answers: Sequence[FetchAnswer],
    *,
    session_id: int = 0,
    error_code: int = 0,
    throttle_ms: int = 0,
    endpoints: Sequence[LeaderEndpoint] = (),
) -> list[Buffer]:
    """Encode the body of the answer; consecutive answers of one topic become one entry."""
    topics = [(topic, list(group)) for topic, group in groupby(answers, itemgetter(0))]
    encoding = FetchEncoding(
        version, len(topics), session_id=session_id, error_code=error_code, throttle_ms=throttle_ms
    )
    for topic, parts in topics:
        encoding.begin_topic(topic, len(parts))
        for answer in parts:
            encoding.add(answer)
        encoding.end_topic()
    return encoding.finish(endpoints)


class FetchEncoding:
    """The body of an answer that is encoded partition by partition."""

    __slots__ = ("_buffers", "_head", "_is_flexible", "_version")

    def __init__(
        self,
        version: int,
        topic_count: int,
        *,
        session_id: int,
        error_code: int = 0,
        throttle_ms: int = 0,
    ) -> None:
        self._version = version
        self._is_flexible = version >= FLEXIBLE_VERSION
        self._buffers: list[Buffer] = []
        self._head = bytearray(throttle_ms.to_bytes(4, "big", signed=True))
        if version >= 7:
            self._head += struct.pack(">hi", error_code, session_id)
        self._head += array_count(topic_count, self._is_flexible)

    def begin_topic(self, topic: bytes, partition_count: int) -> None:
        """Begin a topic, whose partitions follow by `add`."""
        if self._version >= TOPIC_ID_VERSION:
            self._head += topic
        else:
            self._head += compact_bytes(topic) if self._is_flexible else legacy_name(topic)
        self._head += array_count(partition_count, self._is_flexible)

    def add(self, answer: FetchAnswer) -> None:
        """Append a partition of the current topic."""
        self._head = _put_partition(self._buffers, self._head, self._version, answer)

    def end_topic(self) -> None:
        """End the current topic; all its partitions were added."""
        self._head += b"\0" if self._is_flexible else b""

    def finish(self, endpoints: Sequence[LeaderEndpoint]) -> list[Buffer]:
        """Return the body."""
        if self._is_flexible:
            self._head += endpoints_tag(endpoints) if self._version >= 16 else b"\0"
        self._buffers.append(self._head)
        return self._buffers


def _put_partition(
    buffers: list[Buffer], head: bytearray, version: int, answer: FetchAnswer
) -> bytearray:
    """Append a partition; return the buffer to go on with, a new one after records."""
    is_flexible = version >= FLEXIBLE_VERSION
    _, partition, error, *offsets, records, aborted, preferred, diverging, leader = answer
    if is_flexible and not records and aborted is None and diverging is None and leader is None:
        head += _FLEXIBLE_EMPTY.pack(partition, error, *offsets, 0, preferred, 1, 0)
        return head
    head += _ANSWER_V5.pack(*answer[1:6]) if version >= 5 else _ANSWER_V4.pack(*answer[1:5])
    _put_aborted(head, is_flexible, answer.aborted)
    if version >= 11:
        head += answer.preferred_read_replica.to_bytes(4, "big", signed=True)
    size = sum(map(len, answer.buffers))
    head += uvarint(size + 1) if is_flexible else size.to_bytes(4, "big")
    if size:
        buffers.append(head)
        buffers.extend(answer.buffers)
        head = bytearray()
    if is_flexible:
        head += _partition_tags(answer)
    return head


def _put_aborted(
    head: bytearray, is_flexible: bool, aborted: Sequence[tuple[int, int]] | None
) -> None:
    """Write pairs of a producer id and an offset; there may be very many."""
    if aborted is None:
        head += b"\0" if is_flexible else b"\xff\xff\xff\xff"
        return
    head += array_count(len(aborted), is_flexible)
    if not aborted:
        return
    pairs = array("q", chain.from_iterable(aborted))
    if sys.byteorder == "little":
        pairs.byteswap()
    packed = pairs.tobytes()
    if is_flexible:
        tagged = bytearray((_ABORTED_BYTES + 1) * len(aborted))
        for at in range(_ABORTED_BYTES):
            tagged[at :: _ABORTED_BYTES + 1] = packed[at::_ABORTED_BYTES]
        packed = bytes(tagged)
    head += packed


def _partition_tags(answer: FetchAnswer) -> bytes:
    if answer.diverging is None and answer.current_leader is None:
        return b"\0"
    count = 0
    section = b""
    if answer.diverging is not None and answer.diverging != (-1, -1):
        count += 1
        section += tagged_pair(0, ">iqB", answer.diverging)
    if answer.current_leader is not None and answer.current_leader != (-1, -1):
        count += 1
        section += tagged_pair(1, ">iiB", answer.current_leader)
    return uvarint(count) + section
