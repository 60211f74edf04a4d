"""How far a log was synced, noted beside it: tells rot at its end from a write cut short.

    <directory>/durable    24 bytes: magic "PSDM", version u16, 2 zero, position i64, crc32c of the
                           16 bytes before, 4 zero; written over in place after every sync

A frame's claim proves what lies before it; nothing lies behind the last one. The note is written
when a sync has ended, and has none of its own: after power loss it may say too little, and what it
says was always true. A log that ends below it has lost durable bytes.

It is removed, durably, before a log is cut on purpose, and written again by the next sync.

Source: ours, ADR 0020; "protocol-aware recovery" (FAST 2018) for telling the two cases apart.
It may wait for the disk; an error of the disk is passed over: the note says less then.
"""

from collections.abc import Callable
from contextlib import suppress
from struct import Struct

from crc32c import crc32c

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

    def write(self, position: int) -> None:
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


def read_mark(disk: Disk, directory: str, on_damaged: Callable[[str], None]) -> int:
    """Return up to where the log was synced at least; 0 where nothing says so.

    A damaged note counts as none, and `on_damaged` hears of it.
    """
    path = mark_path(directory)
    try:
        file = disk.open(path)
    except FileNotFoundError:
        return 0
    try:
        data = file.read(0, file.size())
    finally:
        file.close()
    if not data:
        return 0  # made, and not written before the machine stopped
    if len(data) == MARK_BYTES:
        magic, version, position = MARK.unpack_from(data)
        (crc,) = CRC.unpack_from(data, MARK.size)
        if magic == MAGIC and version == VERSION and crc == crc32c(data[: MARK.size]):
            return int(position)
    on_damaged(f"{path} is damaged: it counts as none")
    return 0


def remove_mark(disk: Disk, directory: str) -> None:
    """The log is about to be cut on purpose. Durable on return. Raises OSError."""
    disk.remove(mark_path(directory))
    disk.sync_directory(directory)
