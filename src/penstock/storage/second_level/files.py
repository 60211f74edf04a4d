"""The files of a second level on the disk: its manifest, and the directories of extent files.

Source: docs/adr/0103. All of it waits for the disk.
"""

from collections.abc import Sequence
from typing import NamedTuple

from crc32c import crc32c

from penstock.base.ports import Disk
from penstock.extents.check import check_extent_file
from penstock.extents.errors import CorruptExtentFile
from penstock.extents.layout import ENTRY, ENTRY_BYTES, Entry
from penstock.extents.reader import read_directory, read_file_header
from penstock.storage.errors import CorruptFile
from penstock.storage.second_level.manifest import (
    FileEntry,
    Manifest,
    decode_manifest,
    encode_manifest,
    extent_path,
    manifest_path,
)
from penstock.storage.second_level.reading import ExtentPlace


class ExtentDirectory(NamedTuple):
    """The directory of one file, as its bytes; the entries were checked."""

    file: FileEntry
    data: bytes

    @property
    def extent_count(self) -> int:
        """Number of extents."""
        return len(self.data) // ENTRY_BYTES


def read_manifest(place: ExtentPlace) -> Manifest:
    """Return the manifest, an empty one where there is none.

    Waits; raises CorruptFile, also where it is gone and files are there that it has named; OSError.
    """
    path = manifest_path(place.directory)
    try:
        file = place.disk.open(path)
    except FileNotFoundError:
        # The first file may have its name before there is a manifest, and no other one.
        names = [name for name in place.disk.list(f"{place.directory}/second") if is_extents(name)]
        if any(int(name[:20]) for name in names):
            raise CorruptFile(path, f"it is missing, and {names[0]} is there") from None
        return Manifest()
    try:
        return decode_manifest(path, file.read(0, file.size()))
    finally:
        file.close()


def is_extents(name: str) -> bool:
    """Whether a name is that of an extent file."""
    return name.endswith(".extents")


def write_manifest(place: ExtentPlace, manifest: Manifest) -> None:
    """Make a manifest durable. Waits; raises OSError."""
    place.disk.replace(manifest_path(place.directory), encode_manifest(manifest))


def load_directory(
    place: ExtentPlace, number: int, unfinished: str | None = None
) -> ExtentDirectory:
    """Read header and directory of a file, which may have no name of its own yet.

    Waits; raises ExtentError, OSError.
    """
    path = unfinished or extent_path(place.directory, number)
    file = place.disk.open(path)
    try:
        size = file.size()
        read_file_header(path, file.read)
        directory = read_directory(path, size, file.read)
    finally:
        file.close()
    data = encode_directory(directory.entries)
    return ExtentDirectory(FileEntry(number, size, crc32c(data)), data)


def encode_directory(entries: Sequence[Entry]) -> bytes:
    """Return a directory as its bytes."""
    return b"".join(ENTRY.pack(*entry) for entry in entries)


def checked_directory(disk: Disk, path: str, wanted: FileEntry) -> list[Entry]:
    """Check every byte of a file; return its directory. Waits; raises ExtentError, OSError."""
    file = disk.open(path)
    try:
        size = file.size()
        entries = check_extent_file(path, size, file.read).entries
    finally:
        file.close()
    found = entry_of(wanted, size, entries)
    if found != wanted:
        raise CorruptExtentFile(path, 0, f"the manifest names {wanted}, this is {found}")
    return entries


def entry_of(wanted: FileEntry, size_bytes: int, entries: Sequence[Entry]) -> FileEntry:
    """Return what a manifest says of a file of this size and directory, at the place of another."""
    directory_crc = crc32c(encode_directory(entries))
    return wanted._replace(size_bytes=size_bytes, directory_crc=directory_crc)
