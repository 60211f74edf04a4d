"""The manifest of a base: what a slave copies if it can not stream from its own end.

    snapshot at S, with the state of every partition   +   the segments that hold [start, S)

    header    48 bytes, big-endian: magic "PSBI", version u16, 2 zero, position i64, bytes of the
              second level's manifest i64, segment count u32, epoch count u32, snapshot bytes u32,
              crc32c u32 of what follows, crc32c u32 of the 40 before, 4 zero
    segments  base i64, end i64, end of the copied bytes i64
    epochs    leader epoch i32, start position i64
    second    the manifest of the second level, in version 2, which a log with extent files has
    snapshot  the bytes of the snapshot file

The master sends the manifest and keeps the files while they are copied; the slave copies raw bytes.
What is copied is one sequence of places: a segment's bytes are at their positions in the log, and
the extent files follow one after the other at `position`, where the log's bytes end.

Source: Raft 7 (InstallSnapshot) for the idea; here most of the state is the log itself.
"""

import struct
from collections.abc import Iterator
from struct import Struct
from typing import NamedTuple

from crc32c import crc32c

from penstock.base.ids import LeaderEpoch, Position
from penstock.frames.run import SEGMENT_BYTES_MAX
from penstock.storage.commit_log.snapshot import EPOCH
from penstock.storage.errors import BadInstall, CorruptFile, NewerFormat
from penstock.storage.second_level.manifest import (
    FileEntry,
    Manifest,
    decode_manifest,
    encode_manifest,
)

HEADER = Struct(">4sH2xqqIIII")
SEGMENT = Struct(">qqq")
CRC = Struct(">I4x")
MAGIC = b"PSBI"
VERSION = 2
PLAIN_VERSION = 1
"""Without extent files: what earlier releases read."""

assert HEADER.size + CRC.size == 48


class BaseSegment(NamedTuple):
    """One segment of a manifest: positions [base, end); bytes [base, data_end) are copied."""

    base: Position
    end: Position
    data_end: Position


class BasePiece(NamedTuple):
    """One file to copy: its bytes are at places [start, end)."""

    start: int
    end: int
    file: BaseSegment | FileEntry


class BaseManifest(NamedTuple):
    """The segments to copy, and the state at `position`, which the last segment holds."""

    position: Position
    """Position of the snapshot; streaming continues from here."""
    segments: list[BaseSegment]
    epochs: list[tuple[LeaderEpoch, Position]]
    snapshot: bytes
    second: Manifest = Manifest()
    """The second level, whose extent files are copied behind the segments."""

    @property
    def files(self) -> tuple[FileEntry, ...]:
        """The extent files, oldest first."""
        return self.second.files

    @property
    def end_place(self) -> int:
        """The place behind everything that is copied."""
        return self.position + sum(file.size_bytes for file in self.files)

    def pieces(self) -> Iterator[BasePiece]:
        """Yield the files to copy in the order of their places."""
        for segment in self.segments:
            yield BasePiece(segment.base, segment.data_end, segment)
        place = self.position
        for file in self.files:
            yield BasePiece(place, place + file.size_bytes, file)
            place = Position(place + file.size_bytes)

    @property
    def start_position(self) -> Position:
        """First position that is copied."""
        return self.segments[0].base

    @property
    def total_bytes(self) -> int:
        """Number of bytes to copy."""
        return sum(piece.end - piece.start for piece in self.pieces())

    def encode(self) -> bytes:
        """Return the manifest as bytes, for the wire and the staging directory."""
        parts = [SEGMENT.pack(*segment) for segment in self.segments]
        parts += [EPOCH.pack(*epoch) for epoch in self.epochs]
        second = encode_manifest(self.second) if self.files else b""
        parts += [second, self.snapshot]
        version = VERSION if self.files else PLAIN_VERSION
        counts = (len(self.segments), len(self.epochs), len(self.snapshot))
        body = b"".join(parts)
        head = HEADER.pack(MAGIC, version, self.position, len(second), *counts, crc32c(body))
        return b"".join((head, CRC.pack(crc32c(head)), body))

    @classmethod
    def decode(cls, data: bytes | memoryview) -> "BaseManifest":
        """Return the manifest in `data`. Raises BadInstall."""
        view = memoryview(data)
        try:
            fields = HEADER.unpack_from(view)
            magic, version, position, second, segments, epochs, snapshot_bytes, body_crc = fields
            (crc,) = CRC.unpack_from(view, HEADER.size)
        except struct.error as error:
            raise BadInstall("the base manifest is too short") from error
        body = view[HEADER.size + CRC.size :]
        is_known = version == VERSION or (version == PLAIN_VERSION and not second)
        if crc != crc32c(view[: HEADER.size]) or magic != MAGIC or not is_known or second < 0:
            raise BadInstall("the base manifest has a bad header")
        epochs_at = segments * SEGMENT.size
        second_at = epochs_at + epochs * EPOCH.size
        snapshot_at = second_at + second
        if len(body) != snapshot_at + snapshot_bytes or crc32c(body) != body_crc or not segments:
            raise BadInstall("the base manifest's checksum does not agree")
        manifest = cls(
            position=position,
            segments=[BaseSegment(*f) for f in SEGMENT.iter_unpack(body[:epochs_at])],
            epochs=[(e, start) for e, start in EPOCH.iter_unpack(body[epochs_at:second_at])],
            snapshot=bytes(body[snapshot_at:]),
            second=_second_level(body[second_at:snapshot_at]),
        )
        manifest.check()
        return manifest

    def check(self) -> None:
        """Raise BadInstall if the segments are not those of a log that ends at `position`."""
        reached = 0
        for base, end, data_end in self.segments:
            is_placed = reached <= base <= data_end <= end
            if not is_placed or not 0 < end - base <= SEGMENT_BYTES_MAX:
                raise BadInstall("the base manifest's segments are not in order")
            reached = end
        last = self.segments[-1]
        if self.position != last.data_end:
            raise BadInstall("the base manifest's last segment does not end at its position")


def _second_level(data: memoryview) -> Manifest:
    """Return the manifest of the second level, an empty one where there is none."""
    if not data:
        return Manifest()
    try:
        return decode_manifest("second level of the base", data)
    except (CorruptFile, NewerFormat) as error:
        raise BadInstall(str(error)) from error
