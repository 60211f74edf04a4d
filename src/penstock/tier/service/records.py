"""The records of `__tier_state`: rows of the tier's metadata, the newest of a key counts.

    key     kind i16, then   value  version i16 (0), then
    0       -                next object id i64, time of the newest command ms i64
    1       set i32          leader epoch i32, number i64, request id i64, nonce (length i16),
                             answer i8 and its fields
    2       object id i64    set i32, leader epoch i32, state i8, deadline ms i64, bytes i64,
                             live runs i32, due ms i64
    3       topic id 16,     last event id i64, start i64, end i64
            partition i32
    4       as 3, first      set i32, leader epoch i32, object id i64, end i64, the extent's entry
            offset i64       112 (extent-file.md), epochs: count i32, each i32 and i64
    5       as 3             how often its copies were given up i64; none: never

    answers of 1: 0 none, 1 ids (first i64, count i32), 2 committed, 3 refused (reason i8)

What a command has changed is one batch, so that none of it is there without the rest. A null value
is a tombstone. The cluster is not in the records: its objects alone are in its metadata.

Source: docs/formats/tier.md, docs/adr/0121; docs/requirements.md T-2.
"""

import struct
from collections.abc import Sequence
from enum import IntEnum
from typing import NamedTuple, TypeVar

from penstock.base.ids import LeaderEpoch, TopicPartition
from penstock.coordinator.errors import MalformedRecord
from penstock.coordinator.wire import Reader
from penstock.tier.metadata import run_bytes
from penstock.tier.metadata.commands import (
    Answer,
    Committed,
    Done,
    Reason,
    Refused,
    Reserved,
    Tenure,
)
from penstock.tier.metadata.manifest import Run
from penstock.tier.metadata.objects import ObjectRow, State
from penstock.tier.metadata.state import RESERVED_MAX, Held
from penstock.tier.names import ObjectName

T = TypeVar("T")

VERSION = 0
STATES = (State.RESERVED, State.LIVE, State.DOOMED, State.ABORTED)
REASONS = (
    Reason.FENCED,
    Reason.REPEATED,
    Reason.UNKNOWN_OBJECT,
    Reason.STALE,
    Reason.DOES_NOT_FOLLOW,
    Reason.TAKEN,
    Reason.FULL,
)
"""By their numbers in records: append only, as STATES."""

assert set(STATES) == set(State)
assert set(REASONS) == set(Reason)

_KIND = struct.Struct(">h")
_COUNTERS = struct.Struct(">hqq")
_TENURE_KEY = struct.Struct(">hi")
_TENURE = struct.Struct(">hiqqh")
_ANSWER = struct.Struct(">b")
_IDS = struct.Struct(">qi")
_REASON = struct.Struct(">b")
_OBJECT_KEY = struct.Struct(">hq")
_OBJECT = struct.Struct(">hiibqqiq")
_PARTITION_KEY = struct.Struct(">h16si")
_PARTITION = struct.Struct(">hqqq")
_RUN_KEY = struct.Struct(">h16siq")
_RUN = struct.Struct(">h")
_GIVE_UPS = struct.Struct(">hq")


class UnknownVersion(MalformedRecord):
    """A value of a later release."""


class Kind(IntEnum):
    """What a record is about, by its key."""

    COUNTERS = 0
    TENURE = 1
    OBJECT = 2
    PARTITION = 3
    RUN = 4
    GIVE_UPS = 5


class OfCounters(NamedTuple):
    """The key of what is counted."""


class OfTenure(NamedTuple):
    """The key of a set's tenure."""

    replica_set_id: int


class OfObject(NamedTuple):
    """The key of an object."""

    object_id: int


class OfPartition(NamedTuple):
    """The key of a partition."""

    topic_partition: TopicPartition


class OfRun(NamedTuple):
    """The key of a run: whose it is, and where it begins."""

    topic_partition: TopicPartition
    first_offset: int


class OfGiveUps(NamedTuple):
    """The key of how often the copies of a partition were given up."""

    topic_partition: TopicPartition


Key = OfCounters | OfTenure | OfObject | OfPartition | OfRun | OfGiveUps


class Counters(NamedTuple):
    """What the metadata counts."""

    next_id: int
    now_ms: int


class Bounds(NamedTuple):
    """A partition but for its runs."""

    last_event_id: int
    start_offset: int
    end_offset: int


COUNTERS_KEY = _KIND.pack(Kind.COUNTERS)


def tenure_key(replica_set_id: int) -> bytes:
    """Return the key of a set's tenure."""
    return _TENURE_KEY.pack(Kind.TENURE, replica_set_id)


def object_key(object_id: int) -> bytes:
    """Return the key of an object."""
    return _OBJECT_KEY.pack(Kind.OBJECT, object_id)


def partition_key(one: TopicPartition) -> bytes:
    """Return the key of a partition."""
    return _PARTITION_KEY.pack(Kind.PARTITION, *one)


def run_key(one: TopicPartition, first_offset: int) -> bytes:
    """Return the key of a run."""
    return _RUN_KEY.pack(Kind.RUN, *one, first_offset)


def give_ups_key(one: TopicPartition) -> bytes:
    """Return the key of how often the copies of a partition were given up."""
    return _PARTITION_KEY.pack(Kind.GIVE_UPS, *one)


def decode_key(key: bytes) -> Key:
    """Return what a key is about. Raises MalformedRecord: this release does not know it."""
    try:
        match Kind(Reader(key).int16()):
            case Kind.COUNTERS:
                _KIND.unpack(key)
                return OfCounters()
            case Kind.TENURE:
                return OfTenure(*_TENURE_KEY.unpack(key)[1:])
            case Kind.OBJECT:
                return OfObject(*_OBJECT_KEY.unpack(key)[1:])
            case Kind.PARTITION:
                return OfPartition(TopicPartition(*_PARTITION_KEY.unpack(key)[1:]))
            case Kind.RUN:
                _, topic_id, partition, first = _RUN_KEY.unpack(key)
                return OfRun(TopicPartition(topic_id, partition), first)
            case Kind.GIVE_UPS:
                return OfGiveUps(TopicPartition(*_PARTITION_KEY.unpack(key)[1:]))
    except (ValueError, struct.error) as error:
        raise MalformedRecord(f"no key of the tier: {error}") from error


def encode_counters(counters: Counters) -> bytes:
    """Return the value of what is counted."""
    return _COUNTERS.pack(VERSION, *counters)


def encode_tenure(held: Held) -> bytes:
    """Return the value of a set's tenure."""
    _, epoch, number = held.tenure
    head = _TENURE.pack(VERSION, epoch, number, held.request_id, len(held.nonce))
    return head + held.nonce + _encoded_answer(held.answer)


def _encoded_answer(answer: Answer) -> bytes:
    match answer:
        case Reserved(ids):
            first = ids[0] if ids else 0
            assert ids == tuple(range(first, first + len(ids))), "ids with a gap between them"
            return _ANSWER.pack(1) + _IDS.pack(first, len(ids))
        case Committed():
            return _ANSWER.pack(2)
        case Refused(reason):
            return _ANSWER.pack(3) + _REASON.pack(REASONS.index(reason))
        case _:
            assert answer == Done(), answer
            return _ANSWER.pack(0)


def encode_object(row: ObjectRow) -> bytes:
    """Return the value of an object."""
    _, set_id, epoch, _ = row.name
    state = STATES.index(row.state)
    numbers = row.deadline_ms, row.object_bytes, row.live_runs, row.due_ms
    return _OBJECT.pack(VERSION, set_id, epoch, state, *numbers)


def encode_bounds(bounds: Bounds) -> bytes:
    """Return the value of a partition."""
    return _PARTITION.pack(VERSION, *bounds)


def encode_run(run: Run) -> bytes:
    """Return the value of a run."""
    return _RUN.pack(VERSION) + run_bytes.encode_run(run)


def encode_give_ups(count: int) -> bytes:
    """Return the value of how often copies were given up."""
    return _GIVE_UPS.pack(VERSION, count)


def decode_counters(value: bytes) -> Counters:
    """Return what is counted. Raises MalformedRecord, UnknownVersion, as all below."""
    reader = Reader(value)
    return _last(reader, Counters(*_head(_COUNTERS, reader)))


def decode_tenure(replica_set_id: int, value: bytes) -> Held:
    """Return a set's tenure."""
    reader = Reader(value)
    epoch, number, request_id, nonce_bytes = _head(_TENURE, reader)
    nonce = reader.take(nonce_bytes)
    held = Held(
        Tenure(replica_set_id, LeaderEpoch(epoch), number), nonce, request_id, _answer(reader)
    )
    return _last(reader, held)


def _answer(reader: Reader) -> Answer:
    (kind,) = _taken(_ANSWER, reader)
    match kind:
        case 0:
            return Done()
        case 1:
            first, count = _taken(_IDS, reader)
            if not 0 <= count <= RESERVED_MAX:
                raise MalformedRecord(f"{count} ids")
            return Reserved(tuple(range(first, first + count)))
        case 2:
            return Committed()
        case 3:
            return Refused(_one_of(REASONS, _taken(_REASON, reader)[0]))
        case _:
            raise UnknownVersion(f"answer {kind}")


def decode_object(cluster_id: bytes, object_id: int, value: bytes) -> ObjectRow:
    """Return an object's row."""
    reader = Reader(value)
    set_id, epoch, state, deadline, size, runs, due = _head(_OBJECT, reader)
    name = ObjectName(cluster_id, set_id, LeaderEpoch(epoch), object_id)
    return _last(reader, ObjectRow(name, _one_of(STATES, state), deadline, size, runs, due))


def decode_bounds(value: bytes) -> Bounds:
    """Return a partition but for its runs."""
    reader = Reader(value)
    return _last(reader, Bounds(*_head(_PARTITION, reader)))


def decode_run(cluster_id: bytes, value: bytes) -> Run:
    """Return a run."""
    _head(_RUN, Reader(value))
    try:
        return run_bytes.decode_run(cluster_id, value[_RUN.size :])
    except ValueError as error:
        raise MalformedRecord(str(error)) from error


def decode_give_ups(value: bytes) -> int:
    """Return how often copies were given up."""
    reader = Reader(value)
    (count,) = _head(_GIVE_UPS, reader)
    if count <= 0:
        raise MalformedRecord(f"copies that were given up {count} times")
    return _last(reader, count)


def _head(layout: struct.Struct, reader: Reader) -> Sequence[int]:
    """Return the fields behind a value's version."""
    version, *fields = _taken(layout, reader)
    if version != VERSION:
        raise UnknownVersion(f"value version {version}")
    return fields


def _taken(layout: struct.Struct, reader: Reader) -> Sequence[int]:
    return layout.unpack(reader.take(layout.size))


def _last(reader: Reader, decoded: T) -> T:
    if not reader.is_at_end:
        raise MalformedRecord("bytes behind the last field")
    return decoded


def _one_of(known: tuple[T, ...], number: int) -> T:
    if not 0 <= number < len(known):
        raise UnknownVersion(f"number {number}")
    return known[number]
