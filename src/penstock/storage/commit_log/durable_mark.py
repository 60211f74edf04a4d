"""The note of how far a log was synced: it tells bit rot at the end from a torn write.

    <directory>/durable    24 bytes: magic "PSDM", version u16, 2 zero, position i64, crc32c of the
                           16 bytes before, 4 zero; written over in place after every sync

A frame's claim proves that bytes before it were durable; for the newest bytes there is no later
frame. The note is written after each sync and is not synced itself: after a power loss its position
may be too low, and never too high. A log that ends below it has lost durable bytes.

It is removed, durably, before a log is cut on purpose, and written again by the next sync.

Source: ours, ADR 0020; "protocol-aware recovery" (FAST 2018) for telling the two cases apart.
It may wait for the disk. Disk errors are ignored: the position is then only lower than it could be.
"""

from collections.abc import Callable
from contextlib import suppress
from struct import Struct

from crc32c import crc32c

from penstock.base.ids import Position
from penstock.base.ports import Disk, DiskFile

MARK = Struct(">4sH2xq")
CRC = Struct(">I4x")
MAGIC = b"PSDM"
VERSION = 1
MARK_BYTES = MARK.size + CRC.size

assert MARK_BYTES == 24


class DurableMark:
    """Writes the note of one log; one call at a time."""

    __slots__ = ("_disk", "_file", "_is_closed", "_path")

    def __init__(self, disk: Disk, directory: str) -> None:
        self._disk = disk
        self._path = mark_path(directory)
        self._file: DiskFile | None = None
        self._is_closed = False

    def write(self, position: Position) -> None:
        """Note that everything below `position` has been synced."""
        body = MARK.pack(MAGIC, VERSION, position)
        with suppress(OSError):
            if self._file is None and not self._is_closed:
                self._file = self._disk.open(self._path, create=True)
            if self._file is not None:
                self._file.write(0, [body + CRC.pack(crc32c(body))])

    def close(self) -> None:
        """Write nothing more."""
        file, self._file, self._is_closed = self._file, None, True
        if file is not None:
            file.close()


def mark_path(directory: str) -> str:
    """Return where the note of a log lies."""
    return f"{directory}/durable"


def read_mark(disk: Disk, directory: str, on_damaged: Callable[[str], None]) -> Position:
    """Return up to where the log was synced at least; 0 where nothing says so.

    A damaged note counts as none, and is reported to `on_damaged`.
    """
    path = mark_path(directory)
    try:
        file = disk.open(path)
    except FileNotFoundError:
        return Position(0)
    try:
        data = file.read(0, file.size())
    finally:
        file.close()
    if not data:
        return Position(0)  # created, but the machine stopped before it was written
    if len(data) == MARK_BYTES:
        magic, version, position = MARK.unpack_from(data)
        (crc,) = CRC.unpack_from(data, MARK.size)
        if magic == MAGIC and version == VERSION and crc == crc32c(data[: MARK.size]):
            return Position(position)
    on_damaged(f"{path} is damaged: it counts as none")
    return Position(0)


def remove_mark(disk: Disk, directory: str) -> None:
    """Remove the note before the log is cut on purpose; durable on return. Raises OSError."""
    disk.remove(mark_path(directory))
    disk.sync_directory(directory)
