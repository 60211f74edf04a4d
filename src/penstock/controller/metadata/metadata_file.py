"""Bytes of the metadata log of one node: a snapshot, then the entries after it, in one file.

    header     magic u32 │ version u16 │ zero u16 │ snapshot index u64 │ snapshot length u32 │
               snapshot crc u32 │ header crc u32
    snapshot   records (record_codec), possibly none
    frame      crc u32 │ length u32 │ first index u64 │ entry count u32 │ entries
    entry      length u32 │ records (record_codec)

All numbers are big-endian, all checksums CRC32C; a frame's covers everything behind it. The file is
replaced as a whole when it is compacted, so that it always starts with a whole header and snapshot.

A frame is one group commit, and the next one is written only after the last one is durable. Hence a
broken frame with no whole frame after it is a write that a crash cut short and that was never
acknowledged: the tail is cut there. A broken frame with a whole one after it is damage to
acknowledged metadata: the file is refused, never repaired silently.

Source: docs/formats/metadata-log.md; the rule is LevelDB's and etcd's, sharpened by the framing of
whole groups. No I/O here.
"""

import struct
from collections.abc import Sequence
from typing import NamedTuple

from crc32c import crc32c

from penstock.base.ports import Buffer
from penstock.controller.errors import CorruptMetadata, UnsupportedMetadata

MAGIC = 0x50_53_4D_4C  # "PSML"
FILE_VERSION = 1

_HEADER = struct.Struct(">IHHQII")
_CRC = struct.Struct(">I")
HEADER_BYTES = _HEADER.size + _CRC.size
_FRAME = struct.Struct(">IIQI")
_LENGTH_END = 8
_ENTRY = struct.Struct(">I")
FRAME_BYTES_MIN = _FRAME.size


class Frame(NamedTuple):
    """A whole frame: its entries' indexes are first_index, first_index + 1, ..."""

    position: int
    end_position: int
    first_index: int
    entries: list[memoryview]

    @property
    def next_index(self) -> int:
        """Index of the entry that follows the frame."""
        return self.first_index + len(self.entries)


class MetadataFile(NamedTuple):
    """The content of a file; `end_position` is the end of its last whole frame (exclusive)."""

    snapshot_index: int
    snapshot: memoryview
    frames: list[Frame]
    end_position: int

    @property
    def last_index(self) -> int:
        """Index of the last entry, or of the snapshot where there is none."""
        return self.frames[-1].next_index - 1 if self.frames else self.snapshot_index


def encode_head(snapshot_index: int, snapshot: bytes) -> bytes:
    """Return header and snapshot: what a file begins with."""
    head = _HEADER.pack(MAGIC, FILE_VERSION, 0, snapshot_index, len(snapshot), crc32c(snapshot))
    return head + _CRC.pack(crc32c(head)) + snapshot


def encode_frame(first_index: int, entries: Sequence[bytes]) -> bytes:
    """Return one frame with these entries."""
    body = b"".join([part for entry in entries for part in (_ENTRY.pack(len(entry)), entry)])
    length = _FRAME.size - _LENGTH_END + len(body)
    covered = _FRAME.pack(0, length, first_index, len(entries))[_CRC.size :] + body
    return _CRC.pack(crc32c(covered)) + covered


def read_file(data: Buffer) -> MetadataFile:
    """Read a whole file; a tail after the last whole frame, left by a crash, is ignored.

    Raises:
        CorruptMetadata: the head is damaged, or a frame before a whole one.
        UnsupportedMetadata: a newer release wrote it.
    """
    view = memoryview(data)
    snapshot_index, snapshot, at = _read_head(view)
    frames: list[Frame] = []
    next_index = -1
    while (frame := _read_frame(view, at)) is not None:
        if not frames and frame.first_index > snapshot_index + 1:
            raise CorruptMetadata(f"entries {snapshot_index + 1} to {frame.first_index} are gone")
        if frames and frame.first_index != next_index:
            raise CorruptMetadata(f"entry {frame.first_index} follows {next_index - 1}")
        frames.append(frame)
        next_index, at = frame.next_index, frame.end_position
    _check_tail(view, at, max(next_index, snapshot_index))
    return MetadataFile(snapshot_index, snapshot, frames, at)


def _read_head(view: memoryview) -> tuple[int, memoryview, int]:
    if len(view) < HEADER_BYTES:
        raise CorruptMetadata(f"{len(view)} bytes are no metadata log")
    magic, version, _, index, length, snapshot_crc = _HEADER.unpack_from(view)
    if magic != MAGIC:
        raise CorruptMetadata("it does not begin like a metadata log")
    if version != FILE_VERSION:
        raise UnsupportedMetadata(
            f"metadata log of version {version}; this release reads {FILE_VERSION}: start the"
            " release that wrote it"
        )
    (header_crc,) = _CRC.unpack_from(view, _HEADER.size)
    if crc32c(view[: _HEADER.size]) != header_crc:
        raise CorruptMetadata("the header is damaged")
    snapshot = view[HEADER_BYTES : HEADER_BYTES + length]
    if len(snapshot) != length or crc32c(snapshot) != snapshot_crc:
        raise CorruptMetadata("the snapshot is damaged")
    return index, snapshot, HEADER_BYTES + length


def _read_frame(view: memoryview, at: int) -> Frame | None:
    """Return the frame at `at`, or None unless a whole and undamaged one stands there."""
    if len(view) - at < _FRAME.size:
        return None
    crc, length, first_index, count = _FRAME.unpack_from(view, at)
    end = at + _LENGTH_END + length
    if length < _FRAME.size - _LENGTH_END or end > len(view) or count == 0:
        return None
    if crc32c(view[at + _CRC.size : end]) != crc:
        return None
    entries: list[memoryview] = []
    position = at + _FRAME.size
    while position < end:
        (size,) = _ENTRY.unpack_from(view, position)
        entries.append(view[position + _ENTRY.size : position + _ENTRY.size + size])
        position += _ENTRY.size + size
    if position != end or len(entries) != count:
        raise CorruptMetadata(f"the frame at {at} is checksummed and makes no sense")
    return Frame(at, end, first_index, entries)


def _check_tail(view: memoryview, broken_at: int, index_min: int) -> None:
    """Raise CorruptMetadata if a whole frame stands anywhere behind the broken one."""
    for at in range(broken_at + 1, len(view) - _FRAME.size + 1):
        _, length, first_index, _ = _FRAME.unpack_from(view, at)
        if length > len(view) - at or not index_min < first_index < index_min + (1 << 32):
            continue
        if _read_frame(view, at) is not None:
            raise CorruptMetadata(
                f"damaged at position {broken_at}, with whole entries behind it at {at}: restore"
                " the data directory from a copy"
            )
