"""The bytes of a share's records: updates as runs, snapshots as packed columns.

    key    u8 version (1), u8 kind, compact string group, 16 bytes topic id, i32 partition, then
           kind 0  update    u32 slot: sequence number mod SLOTS
           kind 1  chunk     u64 number
           kind 2  head      nothing
    value  u8 version (1), then
           update  varint sequence number, u8 kind of update, its fields
           chunk   u32 first and end place, u8 is ordered, varint bytes, the columns by zlib
           head    base, end, sequence numbers, epoch, hand-outs, members

Varints are unsigned and have up to ten bytes. Runs are a varint count, then for each the varint
distance from the end of the one before, and its varint length, which is not 0. A null value is a
tombstone. docs/formats/share-state.md has the tables.

Keys repeat so that a log that keeps the last record of each key stays whole: a slot is used again
only after a newer snapshot, and chunks are numbered by offset.

Source: Kafka ShareSnapshotKey.json and ShareUpdateKey.json (KIP-932), for the idea of both kinds.
"""

from array import array
from collections.abc import Callable, Mapping
from sys import byteorder
from typing import Any

from penstock.base.ids import CoordinatorEpoch
from penstock.coordinator import wire
from penstock.coordinator.errors import MalformedRecord
from penstock.shares import reading
from penstock.shares.cells import CELLS, DEAD, DONE
from penstock.shares.members import MEMBERS_MAX
from penstock.shares.reading import OFFSET_MAX, RUNS_MAX, VERSION, UnknownVersion
from penstock.shares.runs import Runs
from penstock.shares.state import (
    Acquired,
    Began,
    Freed,
    Given,
    Moved,
    Renewed,
    Scanned,
    Settled,
    ShareKey,
    Update,
)
from penstock.shares.updates.compiled import with_runs
from penstock.shares.updates.plain import put_runs

UPDATE, CHUNK, HEAD = range(3)
SLOTS = 1 << 20
"""Updates between two snapshots at most."""
HASHES_MAX = 4_096
"""Hashes of one record."""
_TOPIC_ID_BYTES = 16
_NO_NAME = 1
"""An empty compact string, as a varint."""


# Keys


def key_prefix(key: ShareKey, kind: int) -> bytes:
    """Return the part of a key that all records of a share of one kind have."""
    name = wire.compact_string(key.group)
    place = key.partition.to_bytes(4, "big", signed=True)
    return bytes((VERSION, kind)) + name + key.topic_id + place


def update_key(key: ShareKey, seq: int) -> bytes:
    return key_prefix(key, UPDATE) + (seq % SLOTS).to_bytes(4, "big")


def chunk_key(key: ShareKey, number: int) -> bytes:
    return key_prefix(key, CHUNK) + number.to_bytes(8, "big")


def head_key(key: ShareKey) -> bytes:
    return key_prefix(key, HEAD)


def decode_key(raw: bytes) -> tuple[int, ShareKey, int]:
    """Return kind, share, and the slot or the number of the chunk. Raises MalformedRecord."""
    reader = wire.Reader(raw)
    reading.version(reader)
    kind = reader.take(1)[0]
    if kind > HEAD:
        raise UnknownVersion(f"kind {kind}")
    group = reader.string(compact=True)
    topic_id = reader.take(_TOPIC_ID_BYTES)
    partition = reader.int32()
    rest = int.from_bytes(reader.take((4, 8, 0)[kind]), "big")
    reading.end(reader)
    if kind == CHUNK and rest > OFFSET_MAX // CELLS:
        raise MalformedRecord(f"chunk {rest}")
    return kind, ShareKey(group, topic_id, partition), rest


# Updates


def encode_update(seq: int, update: Update) -> bytes:
    """Return the value of an update, which has RUNS_MAX runs at most."""
    kind, put = _PUT[type(update)]
    if isinstance(update, Settled):
        _check(update.runs)
        return with_runs(seq, kind, (update.state,), update.runs)
    if isinstance(update, Acquired) and not update.name:
        _check(update.runs)
        numbers = (update.nonce, update.member, _NO_NAME, update.due)
        return with_runs(seq, kind, numbers, update.runs)
    out = bytearray((VERSION,))
    out += wire.varint(seq)
    out.append(kind)
    put(out, update)
    return bytes(out)


def decode_update(value: bytes) -> tuple[int, Update]:
    """Return sequence number and update. Raises MalformedRecord, UnknownVersion."""
    reader = wire.Reader(value)
    reading.version(reader)
    seq = reading.long_varint(reader)
    kind = reader.take(1)[0]
    if kind >= len(_TAKE):
        raise UnknownVersion(f"update {kind}")
    update = _TAKE[kind](reader)
    reading.end(reader)
    return seq, update


def _put_began(out: bytearray, update: Began) -> None:
    out += wire.varint(update.epoch) + wire.varint(update.nonce)


def _take_began(reader: wire.Reader) -> Began:
    return Began(
        CoordinatorEpoch(reading.number(reader, 0x7FFF_FFFF, "epoch")), reading.nonce(reader)
    )


def _put_moved(out: bytearray, update: Moved) -> None:
    out += wire.varint(update.offset)
    out += bytes((update.is_anew, update.is_ordered))
    out += wire.varint(update.nonce)


def _take_moved(reader: wire.Reader) -> Moved:
    return Moved(
        reading.offset(reader), reading.flag(reader), reading.flag(reader), reading.nonce(reader)
    )


def _put_scanned(out: bytearray, update: Scanned) -> None:
    assert 0 < len(update.hashes) <= HASHES_MAX, len(update.hashes)
    out += wire.varint(update.first) + wire.varint(len(update.hashes))
    out += little(update.hashes)


def _take_scanned(reader: wire.Reader) -> Scanned:
    first = reading.offset(reader)
    count = reading.number(reader, HASHES_MAX, "hashes")
    hashes = from_little("I", reader.take(4 * count))
    if not hashes or first + count > OFFSET_MAX:
        raise MalformedRecord(f"{count} hashes from {first}")
    return Scanned(first, hashes)


def _put_acquired(out: bytearray, update: Acquired) -> None:
    out += wire.varint(update.nonce) + wire.varint(update.member)
    out += wire.compact_string(update.name) + wire.varint(update.due)
    _put_runs(out, update.runs)


def _take_acquired(reader: wire.Reader) -> Acquired:
    nonce, member = reading.nonce(reader), reading.number(reader, MEMBERS_MAX, "member")
    if not member:
        raise MalformedRecord("records held by nobody")
    name = reader.string(compact=True)
    return Acquired(nonce, member, name, reading.tick(reader), reading.runs(reader))


def _put_settled(out: bytearray, update: Settled) -> None:
    out.append(update.state)
    _put_runs(out, update.runs)


def _take_settled(reader: wire.Reader) -> Settled:
    state = reader.take(1)[0]
    if state not in {DONE, DEAD}:
        raise UnknownVersion(f"settled as {state}")
    return Settled(state, reading.runs(reader))


def _put_freed(out: bytearray, update: Freed) -> None:
    out += wire.varint(update.due)
    _put_runs(out, update.runs)


def _take_freed(reader: wire.Reader) -> Freed:
    return Freed(reading.tick(reader), reading.runs(reader))


def _put_given(out: bytearray, update: Given) -> None:
    _put_runs(out, update.runs)


def _take_given(reader: wire.Reader) -> Given:
    return Given(reading.runs(reader))


def _put_renewed(out: bytearray, update: Renewed) -> None:
    out += wire.varint(update.nonce) + wire.varint(update.due)
    _put_runs(out, update.runs)


def _take_renewed(reader: wire.Reader) -> Renewed:
    return Renewed(reading.nonce(reader), reading.tick(reader), reading.runs(reader))


def _put_runs(out: bytearray, runs: Runs) -> None:
    _check(runs)
    put_runs(out, runs)


def _check(runs: Runs) -> None:
    assert 0 < len(runs) <= RUNS_MAX, len(runs)


def little(column: "array[int]") -> bytes:
    """Return the bytes of a column, least significant first."""
    if byteorder == "big":
        column = column[:]
        column.byteswap()
    return column.tobytes()


def from_little(code: str, raw: bytes) -> "array[int]":
    column: array[int] = array(code, raw)
    if byteorder == "big":
        column.byteswap()
    return column


_PUT: Mapping[type[Any], tuple[int, Callable[[bytearray, Any], None]]] = {
    Began: (0, _put_began),
    Moved: (1, _put_moved),
    Scanned: (2, _put_scanned),
    Acquired: (3, _put_acquired),
    Settled: (4, _put_settled),
    Freed: (5, _put_freed),
    Given: (6, _put_given),
    Renewed: (7, _put_renewed),
}
_TAKE: tuple[Callable[[wire.Reader], Update], ...] = (
    _take_began,
    _take_moved,
    _take_scanned,
    _take_acquired,
    _take_settled,
    _take_freed,
    _take_given,
    _take_renewed,
)
