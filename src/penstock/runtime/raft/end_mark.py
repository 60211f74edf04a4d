"""How far a member's Raft log was synced: tells rot at its end from a write that was cut short.

    raft.end    16 bytes: magic "PSRE", end position u64, crc32c u32 of the 12 before

The last frame of the log may hold a vote, and nothing behind it proves that it was durable. The
note is written in place after every sync, without one of its own: after power loss it may say too
little. Before the log is rewritten, which makes it shorter, the note is taken back durably.

Source: ours, as storage/commit_log/durable_mark.py; ADR 0020. One call at a time, each may wait for
the disk.
"""

import struct
from contextlib import suppress

from crc32c import crc32c

from penstock.base.ports import Disk

MAGIC = b"PSRE"
_MARK = struct.Struct(">4sQ")
_CRC = struct.Struct(">I")
MARK_BYTES = _MARK.size + _CRC.size


class EndMark:
    """The note of one log."""

    def __init__(self, disk: Disk, path: str) -> None:
        """Open or make the file. Raises OSError."""
        self._file = disk.open(path, create=True)

    def read(self) -> int:
        """Return up to where the log was synced at least; 0 where nothing whole says so."""
        data = self._file.read(0, MARK_BYTES)
        if len(data) < MARK_BYTES:
            return 0
        magic, position = _MARK.unpack_from(data)
        (crc,) = _CRC.unpack_from(data, _MARK.size)
        return int(position) if magic == MAGIC and crc == crc32c(data[: _MARK.size]) else 0

    def write(self, position: int) -> None:
        """Note that the log is synced up to `position`. A disk that refuses leaves less said."""
        body = _MARK.pack(MAGIC, position)
        with suppress(OSError):
            self._file.write(0, [body + _CRC.pack(crc32c(body))])

    def forget(self) -> None:
        """Say nothing any more, durably: the log is about to become shorter. Raises OSError."""
        self._file.write(0, [bytes(MARK_BYTES)])
        self._file.sync()

    def close(self) -> None:
        """Let go of the file."""
        self._file.close()
