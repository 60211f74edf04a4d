"""Values of the metadata log's keys in etcd, and of the local copy's entries: the same bytes.

    entry      version u8 │ in parts u8 │ zero u16 │ term u64 │ proposal id 16 │ crc u32
               │ length u32 │ payload, unless it is in parts
    snapshot   version u8 │ zero 3 │ index u64 │ EntryId of that entry (term u64 │ proposal id 16)
               │ snapshot id 16 │ crc u32 │ length u64
    parts      PART_BYTES of the payload or snapshot each, the last one less

Numbers are big-endian, checksums CRC32C over the whole payload. A proposal id is random: it tells
after a lost answer whether the entry was written, and two diverging histories differ in it at the
first entry.

Source: docs/formats/metadata-in-etcd.md. `head` and `term` are decimal text, `leader` is JSON, so
that `etcdctl get --prefix` shows what matters.
"""

import struct
from typing import NamedTuple

from crc32c import crc32c

from penstock.base.ports import Buffer
from penstock.controller.errors import CorruptMetadata, UnsupportedMetadata

VERSION = 1

INLINE_BYTES_MAX = 64 << 10
"""Larger payloads are stored in parts. A page of entries is thus never larger than a few MiB."""

PART_BYTES = 512 << 10
"""A third of the largest request of etcd by default (1.5 MiB)."""

PROPOSAL_ID_BYTES = 16

_ENTRY = struct.Struct(">BBHQ16sII")
_SNAPSHOT = struct.Struct(">BxxxQQ16s16sIQ")
_ENTRY_ID = struct.Struct(">Q16s")


class EntryId(NamedTuple):
    """Identifies an entry: at one index, equal ids mean equal histories up to it."""

    term: int
    proposal_id: bytes


NO_ENTRY = EntryId(0, bytes(PROPOSAL_ID_BYTES))
"""The id before the first entry."""


class Entry(NamedTuple):
    entry_id: EntryId
    payload: bytes


class StoredEntry(NamedTuple):
    """An entry as read; `payload` is None while it has to be fetched in parts."""

    entry_id: EntryId
    payload: bytes | None
    crc: int
    length: int


class SnapshotHead(NamedTuple):
    """Describes a snapshot in etcd; its bytes are in parts below `snapshot_id`."""

    last_index: int
    """Index of the last entry it covers; `entry_id` is that entry's."""
    entry_id: EntryId
    snapshot_id: bytes
    crc: int
    length: int


def encode_entry(entry: Entry, *, in_parts: bool = False) -> bytes:
    (term, proposal_id), payload = entry
    head = _ENTRY.pack(VERSION, in_parts, 0, term, proposal_id, crc32c(payload), len(payload))
    return head if in_parts else head + payload


def decode_entry(data: Buffer) -> StoredEntry:
    """Return the entry in `data`. Raises CorruptMetadata, UnsupportedMetadata."""
    view = memoryview(data)
    if len(view) < _ENTRY.size:
        raise CorruptMetadata(f"{len(view)} bytes are no metadata entry")
    version, in_parts, _, term, proposal_id, crc, length = _ENTRY.unpack_from(view)
    _check_version(version)
    entry_id = EntryId(term, proposal_id)
    if in_parts:
        return StoredEntry(entry_id, None, crc, length)
    payload = bytes(view[_ENTRY.size :])
    return StoredEntry(entry_id, checked(payload, crc, length), crc, length)


def whole_entry(data: Buffer) -> Entry:
    """Return an entry of the local copy, which has none in parts. Raises CorruptMetadata."""
    stored = decode_entry(data)
    if stored.payload is None:
        raise CorruptMetadata("an entry of the local copy lacks its payload")
    return Entry(stored.entry_id, stored.payload)


def encode_snapshot_head(head: SnapshotHead) -> bytes:
    term, proposal_id = head.entry_id
    return _SNAPSHOT.pack(
        VERSION, head.last_index, term, proposal_id, head.snapshot_id, head.crc, head.length
    )


def decode_snapshot_head(data: Buffer) -> SnapshotHead:
    """Return the head in `data`. Raises CorruptMetadata, UnsupportedMetadata."""
    if len(data) < _SNAPSHOT.size:
        raise CorruptMetadata(f"{len(data)} bytes are no metadata snapshot")
    version, index, term, proposal_id, snapshot_id, crc, length = _SNAPSHOT.unpack_from(data)
    _check_version(version)
    return SnapshotHead(index, EntryId(term, proposal_id), snapshot_id, crc, length)


def encode_local_snapshot(entry_id: EntryId, snapshot: Buffer) -> bytes:
    """Return the snapshot of the local copy: the id of its last entry, then the state."""
    return _ENTRY_ID.pack(*entry_id) + bytes(snapshot)


def decode_local_snapshot(data: Buffer) -> tuple[EntryId, memoryview]:
    """Return the id of the last entry, and the state. Raises CorruptMetadata."""
    view = memoryview(data)
    if not view:
        return NO_ENTRY, view
    if len(view) < _ENTRY_ID.size:
        raise CorruptMetadata("the snapshot of the local copy is too short")
    return EntryId(*_ENTRY_ID.unpack_from(view)), view[_ENTRY_ID.size :]


def split_parts(data: bytes) -> list[bytes]:
    return [data[at : at + PART_BYTES] for at in range(0, len(data), PART_BYTES)]


def part_count(length: int) -> int:
    """Return the number of parts of `length` bytes."""
    return -(-length // PART_BYTES)


def checked(payload: bytes, crc: int, length: int) -> bytes:
    """Return `payload` if checksum and length match. Raises CorruptMetadata."""
    if len(payload) != length or crc32c(payload) != crc:
        raise CorruptMetadata("a payload in etcd is not what was written")
    return payload


def _check_version(version: int) -> None:
    if version != VERSION:
        raise UnsupportedMetadata(
            f"metadata in etcd has version {version}, this release reads {VERSION}: start the"
            " release that wrote it"
        )
