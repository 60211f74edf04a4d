"""Bytes of a Raft log file: a header, then one frame for every write.

    header  magic u32 │ version u16 │ zero u16 │ own id u32 │ base index u64 │ base term u64 │
            directory id 24 bytes │ crc u32
    frame   crc u32 │ length u32 │ term u64 │ vote i32 │ commit index u64 │ first index u64 │
            entry count u32 │ entries
    entry   length u32 │ kind u8 │ term u64 │ payload

All numbers are big-endian, all checksums CRC32C; a frame's covers everything after it.

The directory id is drawn when the file is first made and kept when it is rewritten: it names these
entries and votes, and another file for the same member has another one. A file of version 1 has no
such field; its directory id is "", and the first start rewrites the file.

A frame is what one write made durable: the hard state (term, vote, commit index) at that time, and
entries. Entries replace those at their indexes and all that follow: the frame that brings a new
leader's entries overrules the old suffix, and the file itself is never cut for it. The prefix is
dropped when the file is rewritten; `base` names the last entry dropped.

The next frame is written only after the last one is durable. Hence a broken frame with no whole
frame after it is a torn write that was never acknowledged: the tail is cut there. A broken frame
with a whole one after it is damage to acknowledged data: the file is refused.

Source: docs/formats/raft-log.md; Raft paper 5.3 (what must be durable), etcd's write-ahead log
(overruled entries are followed by the new ones and not cut). No I/O here.
"""

import struct
from collections.abc import Sequence
from typing import NamedTuple

from crc32c import crc32c

from penstock.base.ids import PeerId
from penstock.base.ports import Buffer
from penstock.controller.errors import CorruptMetadata, UnsupportedMetadata
from penstock.raft.entry import Entry, EntryKind
from penstock.raft.ids import NO_DIRECTORY, DirectoryId, RaftIndex, Term
from penstock.raft.ready import HardState

MAGIC = 0x50_53_52_4C  # "PSRL"
FILE_VERSION = 2

_HEADER = struct.Struct(">IHHIQQ")
_DIRECTORY_BYTES = 24
_CRC = struct.Struct(">I")
HEADER_BYTES = _HEADER.size + _DIRECTORY_BYTES + _CRC.size
_HEADER_BYTES_BY_VERSION = {1: _HEADER.size + _CRC.size, FILE_VERSION: HEADER_BYTES}
_FRAME = struct.Struct(">IIQiQQI")
_LENGTH_END = 8
_ENTRY = struct.Struct(">IBQ")
FRAME_BYTES_MIN = _FRAME.size


class FileHead(NamedTuple):
    """The header: which member the file belongs to, and the last entry dropped from it."""

    own_id: PeerId
    base_index: RaftIndex
    base_term: Term
    directory_id: DirectoryId = NO_DIRECTORY
    """ASCII; "" for a file of version 1."""
    version: int = FILE_VERSION

    @property
    def bytes_count(self) -> int:
        """Bytes of the header in the file."""
        return _HEADER_BYTES_BY_VERSION[self.version]


class Frame(NamedTuple):
    """A whole frame; without entries only the hard state was written."""

    position: int
    end_position: int
    state: HardState
    first_index: RaftIndex
    entries: list[Entry]


class LogFile(NamedTuple):
    """Contents of a file; `end_position` is where its last whole frame ends, exclusive."""

    head: FileHead
    state: HardState
    entries: list[Entry]
    """In order and without gaps, from base index + 1 on."""
    end_position: int

    @property
    def is_new(self) -> bool:
        """Whether the file holds the header only."""
        return self.end_position == self.head.bytes_count and self.head.base_index == 0


def encode_head(head: FileHead) -> bytes:
    """Return the bytes of the header."""
    directory_id = head.directory_id.encode("ascii")
    assert len(directory_id) <= _DIRECTORY_BYTES, directory_id
    packed = _HEADER.pack(MAGIC, FILE_VERSION, 0, head.own_id, head.base_index, head.base_term)
    packed += directory_id.ljust(_DIRECTORY_BYTES, b"\0")
    return packed + _CRC.pack(crc32c(packed))


def encode_frame(state: HardState, entries: Sequence[Entry]) -> bytes:
    """Return one frame with the hard state and these entries, which have consecutive indexes."""
    parts: list[Buffer] = []
    for entry in entries:
        parts.append(_ENTRY.pack(len(entry.payload), entry.kind, entry.term))
        parts.append(entry.payload)
    body = b"".join(parts)
    length = _FRAME.size - _LENGTH_END + len(body)
    first = entries[0].index if entries else 0
    head = _FRAME.pack(
        0, length, state.term, state.voted_for, state.commit_index, first, len(entries)
    )
    covered = head[_CRC.size :] + body
    return _CRC.pack(crc32c(covered)) + covered


def read_file(data: Buffer) -> LogFile:
    """Read a whole file. A torn write after the last whole frame is ignored.

    Raises:
        CorruptMetadata: the header is damaged, or a frame with a whole one after it is.
        UnsupportedMetadata: a newer release wrote it.
    """
    view = memoryview(data)
    head = read_head(view)
    state = HardState()
    entries: list[Entry] = []
    at = head.bytes_count
    while (frame := read_frame(view, at)) is not None:
        state = frame.state
        if frame.entries:
            _put(entries, head.base_index, frame)
        at = frame.end_position
    _check_tail(view, at)
    return LogFile(head, state, entries, at)


def _put(entries: list[Entry], base_index: RaftIndex, frame: Frame) -> None:
    """Replace the entries at the frame's indexes, and all that follow, by the frame's."""
    kept = frame.first_index - base_index - 1
    if not 0 <= kept <= len(entries):
        raise CorruptMetadata(
            f"entry {frame.first_index} at position {frame.position} does not follow entry"
            f" {base_index + len(entries)}"
        )
    del entries[kept:]
    entries.extend(frame.entries)


def read_head(view: memoryview) -> FileHead:
    """Return the header. Raises CorruptMetadata, UnsupportedMetadata."""
    if len(view) < _HEADER.size + _CRC.size:
        raise CorruptMetadata(f"{len(view)} bytes are no Raft log")
    own_id: PeerId
    base_index: RaftIndex
    base_term: Term
    magic, version, _, own_id, base_index, base_term = _HEADER.unpack_from(view)
    if magic != MAGIC:
        raise CorruptMetadata("it does not begin like a Raft log")
    if version not in _HEADER_BYTES_BY_VERSION:
        raise UnsupportedMetadata(
            f"Raft log of version {version}; this release reads up to {FILE_VERSION}: start the"
            " release that wrote it"
        )
    crc_at = _HEADER_BYTES_BY_VERSION[version] - _CRC.size
    whole = view[: crc_at + _CRC.size]
    if len(whole) < crc_at + _CRC.size or _CRC.unpack_from(whole, crc_at)[0] != crc32c(
        whole[:crc_at]
    ):
        raise CorruptMetadata("the header is damaged")
    try:
        directory_id = bytes(view[_HEADER.size : crc_at]).rstrip(b"\0").decode("ascii")
    except UnicodeDecodeError as error:
        raise CorruptMetadata("the header's directory id is not valid") from error
    return FileHead(own_id, base_index, base_term, DirectoryId(directory_id), version)


def read_frame(view: memoryview, at: int) -> Frame | None:
    """Return the frame at `at`, or None unless it is whole and its checksum matches."""
    if len(view) - at < _FRAME.size:
        return None
    term: Term
    vote: PeerId
    commit_index: RaftIndex
    first_index: RaftIndex
    crc, length, term, vote, commit_index, first_index, count = _FRAME.unpack_from(view, at)
    end = at + _LENGTH_END + length
    if length < _FRAME.size - _LENGTH_END or end > len(view):
        return None
    if crc32c(view[at + _CRC.size : end]) != crc:
        return None
    entries = _read_entries(view[at + _FRAME.size : end], first_index)
    if entries is None or len(entries) != count:
        raise CorruptMetadata(f"the frame at {at} has a matching checksum and is not valid")
    state = HardState(term=term, voted_for=vote, commit_index=commit_index)
    return Frame(at, end, state, first_index, entries)


def _read_entries(body: memoryview, first_index: RaftIndex) -> list[Entry] | None:
    """Return the entries of a frame, or None if they do not fill it exactly."""
    entries: list[Entry] = []
    at = 0
    term: Term
    while at + _ENTRY.size <= len(body):
        length, kind, term = _ENTRY.unpack_from(body, at)
        at += _ENTRY.size
        if kind not in _KINDS:
            raise UnsupportedMetadata(f"Raft entry of kind {kind}: start the release that wrote it")
        payload = bytes(body[at : at + length])
        index = RaftIndex(first_index + len(entries))
        entries.append(_entry(index, term, kind, payload))
        at += length
    return entries if at == len(body) else None


_KINDS = frozenset(int(kind) for kind in EntryKind)


def _entry(index: RaftIndex, term: Term, kind: int, payload: bytes) -> Entry:
    return Entry(index=index, term=term, kind=EntryKind(kind), payload=payload)


def _check_tail(view: memoryview, broken_at: int) -> None:
    """Raise CorruptMetadata if there is a whole frame anywhere after the broken one.

    Preallocated space ends the file with zeros; no frame begins with zeros.
    """
    written_end = broken_at + len(bytes(view[broken_at:]).rstrip(b"\0"))
    for at in range(broken_at + 1, min(len(view) - _FRAME.size + 1, written_end)):
        _, length, term, _, _, first_index, _ = _FRAME.unpack_from(view, at)
        if length > len(view) - at or term > _PLAUSIBLE or first_index > _PLAUSIBLE:
            continue
        if read_frame(view, at) is not None:
            raise CorruptMetadata(
                f"damaged at position {broken_at}, with whole entries behind it at {at}"
            )


_PLAUSIBLE = 1 << 48
"""Higher terms and indexes cannot be real; the check skips the checksum of most positions."""
