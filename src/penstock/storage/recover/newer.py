"""Detecting files of a later release: such a log is not opened, and nothing is changed.

A start rebuilds damaged derived files and cuts a torn end. A file of a later release must not be
treated like that, since its contents may be nowhere else. The checksum tells the two apart:

    magic and the header's checksum match ─► is the version known?  no: NewerFormat
    they do not match                     ─► damage

So every later version must keep these fields in place (docs/formats/commit-log.md). Indexes and
side files are not checked, since they can be rebuilt from the frames. Frames: scan.py.

Source: ADR 0057. It waits for the disk.
"""

from collections.abc import Iterator
from struct import Struct
from typing import NamedTuple

from crc32c import crc32c

from penstock.base.ports import Disk
from penstock.storage.commit_log import catching_up, durable_mark, pending_change, snapshot
from penstock.storage.commit_log.catching_up import note_path
from penstock.storage.commit_log.durable_mark import mark_path
from penstock.storage.commit_log.pending_change import PendingChange
from penstock.storage.errors import NewerFormat

_HEAD = Struct(">4sH")
_CRC = Struct(">I")


class _Format(NamedTuple):
    """The header layout of one kind of file."""

    magic: bytes
    version: int
    covered: int
    """Number of bytes that the header's checksum covers, from the start of the file."""
    crc_at: int
    """Where the checksum is; negative: counted from the end of the file."""


_SNAPSHOT = _Format(snapshot.MAGIC, snapshot.VERSION, snapshot.HEADER.size, -snapshot.CRC.size)
_MARK = _Format(
    durable_mark.MAGIC, durable_mark.VERSION, durable_mark.MARK.size, durable_mark.MARK.size
)
_NOTE = _Format(
    catching_up.MAGIC, catching_up.VERSION, catching_up.NOTE.size, catching_up.NOTE.size
)
_CHANGE = _Format(
    pending_change.MAGIC,
    pending_change.VERSION,
    pending_change.HEADER.size,
    pending_change.HEADER.size,
)


def refuse_newer_files(disk: Disk, directory: str) -> None:
    """Raise NewerFormat if a file beside the segments is of a later release. Raises OSError."""
    for path, wanted in _files(disk, directory):
        found = _version(disk, path, wanted)
        if found > wanted.version:
            raise NewerFormat(path, f"version {found}")


def _files(disk: Disk, directory: str) -> Iterator[tuple[str, _Format]]:
    yield mark_path(directory), _MARK
    yield note_path(directory), _NOTE
    yield PendingChange.path(directory), _CHANGE
    for name in disk.list(f"{directory}/snapshot"):
        if name.endswith(".snap"):
            yield f"{directory}/snapshot/{name}", _SNAPSHOT


def _version(disk: Disk, path: str, wanted: _Format) -> int:
    """Return the version that a file names; 0 if it is missing or damaged."""
    try:
        file = disk.open(path)
    except FileNotFoundError:
        return 0
    try:
        head = file.read(0, wanted.covered)
        crc = file.read(wanted.crc_at % max(file.size(), 1), _CRC.size)
    finally:
        file.close()
    if len(head) < wanted.covered or len(crc) < _CRC.size:
        return 0
    magic, version = _HEAD.unpack_from(head)
    is_whole = magic == wanted.magic and _CRC.unpack(crc)[0] == crc32c(head)
    return int(version) if is_whole else 0
