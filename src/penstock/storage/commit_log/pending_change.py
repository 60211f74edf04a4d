"""A change of a whole log that is atomic over crashes: truncate, rebuild, reset, install.

    <directory>/pending-change     is made durable first; while it exists, a start completes the
                                   change before it reads any other file

    truncate   remove everything from `position` on; the newest snapshot stays valid
    rebuild    the same, below every snapshot: the log is read again from its first segment, and
               the payload has what the segments no longer hold
    reset      remove everything but one empty segment
    install    replace the log's files by those of the staging directory

    file    header 48 bytes, big-endian: magic "PSCH", version u16, kind u16, position i64,
            segment base i64, segment end i64, payload bytes u32, crc32c u32 of the payload,
            crc32c u32 of the 40 before, 4 zero; then the payload

Every step is idempotent: it looks at the files, not at how far an earlier attempt came.

Source: a redo log with one record. Two published bugs of RocketMQ show what it prevents: a stale
tail that came back after a restart, and one that was read again behind newer frames
(docs/replication-bugs.md). All functions wait for the disk.
"""

from enum import IntEnum
from struct import Struct
from typing import NamedTuple

from crc32c import crc32c

from penstock.base.ids import Position
from penstock.base.ports import Disk
from penstock.storage.commit_log.durable_mark import remove_mark
from penstock.storage.commit_log.segments import segment_path
from penstock.storage.errors import CorruptLog

HEADER = Struct(">4sHHqqqII")
CRC = Struct(">I4x")
MAGIC = b"PSCH"
VERSION = 1
HEADER_BYTES = HEADER.size + CRC.size
STAGING = "install"
PARTS = ("log", "index", "snapshot", "second")

assert HEADER_BYTES == 48


class ChangeKind(IntEnum):
    """The kinds of change; see the module."""

    TRUNCATE = 1
    REBUILD = 2
    RESET = 3
    INSTALL = 4


class PendingChange(NamedTuple):
    """One change. The log's last segment afterwards is [segment_base, segment_end)."""

    kind: ChangeKind
    position: Position
    """Where the log ends afterwards."""
    segment_base: Position
    segment_end: Position
    payload: bytes = b""
    """Rebuild: a snapshot with the state to add. Install: the names of the staged files."""

    @staticmethod
    def path(directory: str) -> str:
        """Return where a pending change of the log is written."""
        return f"{directory}/pending-change"

    def encode(self) -> bytes:
        """Return the file's bytes."""
        head = HEADER.pack(
            MAGIC,
            VERSION,
            self.kind,
            self.position,
            self.segment_base,
            self.segment_end,
            len(self.payload),
            crc32c(self.payload),
        )
        return b"".join((head, CRC.pack(crc32c(head)), self.payload))


def settle_directories(disk: Disk, directory: str) -> None:
    """Create the directories of a log, and sync their entries. Raises OSError.

    A killed process may have removed or renamed files without syncing the directory. After a power
    loss a change that was complete would be there again, and cut off what was written since.
    """
    for path in (*(f"{directory}/{part}" for part in PARTS), directory):
        disk.make_directory(path)
        for left in disk.list(path):
            if left.endswith(".tmp"):
                disk.remove(f"{path}/{left}")
        disk.sync_directory(path)


def write_change(disk: Disk, directory: str, change: PendingChange) -> None:
    """Write the change durably: from then on it is completed, now or at the next start."""
    disk.replace(change.path(directory), change.encode())


def read_change(disk: Disk, directory: str) -> PendingChange | None:
    """Return the change that is under way, if there is one.

    Raises:
        CorruptLog: the file is damaged, so the interrupted change is not known.
    """
    path = PendingChange.path(directory)
    try:
        file = disk.open(path)
    except FileNotFoundError:
        return None
    try:
        data = file.read(0, file.size())
    finally:
        file.close()
    if len(data) >= HEADER_BYTES:
        magic, version, kind, position, base, end, size, body_crc = HEADER.unpack_from(data)
        (crc,) = CRC.unpack_from(data, HEADER.size)
        payload = bytes(data[HEADER_BYTES:])
        is_whole = crc == crc32c(data[: HEADER.size]) and size == len(payload)
        if is_whole and magic == MAGIC and version == VERSION and body_crc == crc32c(payload):
            return PendingChange(ChangeKind(kind), position, base, end, payload)
    raise CorruptLog(directory, 0, f"{path} is damaged: a change of the log was interrupted")


def remove_change(disk: Disk, directory: str) -> None:
    """Remove the file of a change that is complete."""
    disk.remove(PendingChange.path(directory))
    disk.sync_directory(directory)


def complete_change(disk: Disk, directory: str, change: PendingChange) -> None:
    """Do the remaining steps of a change, durably. Can be repeated. Raises OSError."""
    remove_mark(disk, directory)
    if change.kind is ChangeKind.INSTALL:
        _move_in(disk, directory, change.payload.decode().split("\n"))
    elif change.kind is ChangeKind.RESET:
        _remove_all_but(disk, directory, frozenset())
        _fit_last(disk, directory, change)
    else:
        _remove_behind(disk, directory, change)
        _fit_last(disk, directory, change)


def _remove_behind(disk: Disk, directory: str, change: PendingChange) -> None:
    """Remove the segments behind the cut, and the snapshots that refer to removed bytes.

    The segments do not become spares: their frames name positions that the log will reach again.
    Existing spares are removed too, since their segments may have lain behind the cut.
    """
    for name in disk.list(f"{directory}/log"):
        is_behind = name.endswith(".log") and int(name[:20]) > change.segment_base
        if is_behind or name.endswith(".spare"):
            disk.remove(f"{directory}/log/{name}")
    for name in disk.list(f"{directory}/snapshot"):
        is_kept = change.kind is ChangeKind.TRUNCATE and int(name[:20]) <= change.position
        if name.endswith(".snap") and not is_kept:
            disk.remove(f"{directory}/snapshot/{name}")
    for part in PARTS:
        disk.sync_directory(f"{directory}/{part}")


def _fit_last(disk: Disk, directory: str, change: PendingChange) -> None:
    """Cut the last segment at the position, then extend it with empty blocks to its size."""
    file = disk.open(segment_path(directory, change.segment_base), create=True)
    try:
        file.truncate(change.position - change.segment_base)
        file.sync()
        file.allocate(change.segment_end - change.segment_base)
        file.sync()
    finally:
        file.close()
    disk.sync_directory(f"{directory}/log")


def _remove_all_but(disk: Disk, directory: str, kept: frozenset[str]) -> None:
    for part in PARTS:
        for name in disk.list(f"{directory}/{part}"):
            if f"{part}/{name}" not in kept:
                disk.remove(f"{directory}/{part}/{name}")
        disk.sync_directory(f"{directory}/{part}")


def _move_in(disk: Disk, directory: str, names: list[str]) -> None:
    """Move the staged files in, over old ones; then remove all other files of the log.

    A file that is no longer staged was moved by an earlier attempt.
    """
    staging = f"{directory}/{STAGING}"
    for part in PARTS:
        disk.make_directory(f"{directory}/{part}")
        staged = frozenset(disk.list(f"{staging}/{part}"))
        for name in names:
            in_part = name.removeprefix(f"{part}/")
            if in_part != name and in_part in staged:
                disk.rename(f"{staging}/{name}", f"{directory}/{name}")
    _remove_all_but(disk, directory, frozenset(names))
    disk.remove(f"{staging}/manifest")
