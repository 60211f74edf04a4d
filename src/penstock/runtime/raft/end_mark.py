"""Durable end of a member's Raft log: tells damage at its end from a torn write.

    raft.end    16 bytes: magic "PSRE", end position u64, crc32c u32 of the 12 before

The last frame of the log may hold a vote, and nothing after it proves that it was durable. The
mark is overwritten after every sync and is not synced itself: after a power loss it may be too low.
Before a rewrite, which shortens the log, the mark is reset to 0 durably.

Source: ours, as storage/commit_log/durable_mark.py; ADR 0020. Blocking; one call at a time.
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
    """The mark of one log."""

    def __init__(self, disk: Disk, path: str) -> None:
        """Open or make the file. Raises OSError."""
        self._file = disk.open(path, create=True)

    def read(self) -> int:
        """Return the position up to which the log is known to be synced; 0 without a valid mark."""
        data = self._file.read(0, MARK_BYTES)
        if len(data) < MARK_BYTES:
            return 0
        magic, position = _MARK.unpack_from(data)
        (crc,) = _CRC.unpack_from(data, _MARK.size)
        return int(position) if magic == MAGIC and crc == crc32c(data[: _MARK.size]) else 0

    def write(self, position: int) -> None:
        """Note that the log is synced up to `position`. A failed write leaves a lower mark."""
        body = _MARK.pack(MAGIC, position)
        with suppress(OSError):
            self._file.write(0, [body + _CRC.pack(crc32c(body))])

    def forget(self) -> None:
        """Reset the mark to 0, durably, before the log becomes shorter. Raises OSError."""
        self._file.write(0, [bytes(MARK_BYTES)])
        self._file.sync()

    def close(self) -> None:
        """Close the file."""
        self._file.close()
