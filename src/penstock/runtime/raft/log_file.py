"""Bytes of a Raft log file: a header, then one frame for every write.

    header  magic u32 │ version u16 │ zero u16 │ own id u32 │ base index u64 │ base term u64 │
            directory id 24 bytes │ crc u32
    frame   crc u32 │ length u32 │ term u64 │ vote i32 │ commit index u64 │ first index u64 │
            entry count u32 │ entries
    entry   length u32 │ kind u8 │ term u64 │ payload

All numbers are big-endian, all checksums CRC32C; a frame's covers everything behind it.

The directory id is drawn when the file is first made and stays with what is rewritten: it is the
name of these entries and votes, and another file for the same member has another one. A file of
version 1 has no such field; its directory id is "", and the first start rewrites it.

A frame is what one write made durable: the hard state (term, vote, commit index) as it was then,
and entries. Entries replace what stood at their indexes and everything behind: a suffix that a new
leader overrules is cut by the frame that brings the new one, never by cutting the file. The prefix
goes when the file is rewritten; `base` names the last entry that went.

The next frame is written only after the last one is durable. Hence a broken frame with nothing
whole behind it is a write that a crash cut short, which nobody was told about: the tail is cut
there. A broken frame with a whole one behind it is damage to what others count on: refused.

Source: docs/formats/raft-log.md; Raft paper 5.3 (what must be durable), etcd's write-ahead log
(overruled entries are followed by the new ones and not cut). No I/O here.
"""

import struct
from collections.abc import Sequence
from typing import NamedTuple

from crc32c import crc32c

from penstock.base.ports import Buffer
from penstock.controller.errors import CorruptMetadata, UnsupportedMetadata
from penstock.raft.entry import Entry, EntryKind
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
    """Whose file it is and which entries are gone from it."""

    own_id: int
    base_index: int
    base_term: int
    directory_id: str = ""
    """ASCII; "" for a file of version 1."""
    version: int = FILE_VERSION

    @property
    def bytes_count(self) -> int:
        """Bytes of the header in the file."""
        return _HEADER_BYTES_BY_VERSION[self.version]


class Frame(NamedTuple):
    """A whole frame; no entries: only the hard state was written."""

    position: int
    end_position: int
    state: HardState
    first_index: int
    entries: list[Entry]


class LogFile(NamedTuple):
    """What a file holds; `end_position` is where its last whole frame ends."""

    head: FileHead
    state: HardState
    entries: list[Entry]
    """In order, without gap, from base index + 1 on."""
    end_position: int

    @property
    def is_new(self) -> bool:
        """Whether nothing was ever written behind the header."""
        return self.end_position == self.head.bytes_count and self.head.base_index == 0


def encode_head(head: FileHead) -> bytes:
    """Return what a file begins with."""
    directory_id = head.directory_id.encode("ascii")
    assert len(directory_id) <= _DIRECTORY_BYTES, directory_id
    packed = _HEADER.pack(MAGIC, FILE_VERSION, 0, head.own_id, head.base_index, head.base_term)
    packed += directory_id.ljust(_DIRECTORY_BYTES, b"\0")
    return packed + _CRC.pack(crc32c(packed))


def encode_frame(state: HardState, entries: Sequence[Entry]) -> bytes:
    """Return one frame with the hard state and these entries, which follow one another."""
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
    """Read a whole file; what a crash left behind the last whole frame is not in the result.

    Raises:
        CorruptMetadata: the header is damaged, or a frame in front of a whole one is.
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


def _put(entries: list[Entry], base_index: int, frame: Frame) -> None:
    """Put a frame's entries in place of what stands at their indexes and behind."""
    kept = frame.first_index - base_index - 1
    if not 0 <= kept <= len(entries):
        raise CorruptMetadata(
            f"entry {frame.first_index} at position {frame.position} does not follow entry"
            f" {base_index + len(entries)}"
        )
    del entries[kept:]
    entries.extend(frame.entries)


def read_head(view: memoryview) -> FileHead:
    """Return what a file begins with. Raises CorruptMetadata, UnsupportedMetadata."""
    if len(view) < _HEADER.size + _CRC.size:
        raise CorruptMetadata(f"{len(view)} bytes are no Raft log")
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
        raise CorruptMetadata("the header's directory id makes no sense") from error
    return FileHead(own_id, base_index, base_term, directory_id, version)


def read_frame(view: memoryview, at: int) -> Frame | None:
    """Return the frame at `at`, or None unless a whole and undamaged one stands there."""
    if len(view) - at < _FRAME.size:
        return None
    crc, length, term, vote, commit_index, first_index, count = _FRAME.unpack_from(view, at)
    end = at + _LENGTH_END + length
    if length < _FRAME.size - _LENGTH_END or end > len(view):
        return None
    if crc32c(view[at + _CRC.size : end]) != crc:
        return None
    entries = _read_entries(view[at + _FRAME.size : end], first_index)
    if entries is None or len(entries) != count:
        raise CorruptMetadata(f"the frame at {at} is checksummed and makes no sense")
    state = HardState(term=term, voted_for=vote, commit_index=commit_index)
    return Frame(at, end, state, first_index, entries)


def _read_entries(body: memoryview, first_index: int) -> list[Entry] | None:
    """Return the entries of a frame, or None where they do not fill it exactly."""
    entries: list[Entry] = []
    at = 0
    while at + _ENTRY.size <= len(body):
        length, kind, term = _ENTRY.unpack_from(body, at)
        at += _ENTRY.size
        if kind not in _KINDS:
            raise UnsupportedMetadata(f"Raft entry of kind {kind}: start the release that wrote it")
        payload = bytes(body[at : at + length])
        entries.append(_entry(first_index + len(entries), term, kind, payload))
        at += length
    return entries if at == len(body) else None


_KINDS = frozenset(int(kind) for kind in EntryKind)


def _entry(index: int, term: int, kind: int, payload: bytes) -> Entry:
    return Entry(index=index, term=term, kind=EntryKind(kind), payload=payload)


def _check_tail(view: memoryview, broken_at: int) -> None:
    """Raise CorruptMetadata if a whole frame stands anywhere behind the broken one.

    Space that is set aside ends the file with zeros; no frame begins among them.
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
"""Terms and indexes above it are other bytes; saves the checksum of most of them."""
