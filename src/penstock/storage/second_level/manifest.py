"""The manifest of a second level: the extent files that belong to it, oldest first.

    second/manifest                replaced as a whole whenever files come or go
    second/<number>.extents        an extent file; numbers rise and are never used again
    *.tmp                          a file that was being written; removed at start

    header   32   magic "PSEM", version u16, 2 zero, next number u64, file count u32, 8 zero,
                  crc32c u32 of the 28 before
    files    24   for each: number u64, bytes u64, crc32c u32 of its directory, 4 zero
    trailer   4   crc32c of header and files

A file that the manifest does not name does not exist: it was being taken over, or is being removed.

Source: docs/formats/extent-file.md; the manifest of LevelDB, here of a few files and whole.
"""

from struct import Struct
from typing import NamedTuple

from crc32c import crc32c

from penstock.storage.errors import CorruptFile, NewerFormat

MAGIC = b"PSEM"
VERSION = 1
HEADER = Struct(">4sH2xQI8x")
FILE = Struct(">QQI4x")
CRC = Struct(">I")
HEADER_BYTES = HEADER.size + CRC.size

assert (HEADER_BYTES, FILE.size) == (32, 24)


class FileEntry(NamedTuple):
    """One extent file."""

    number: int
    size_bytes: int
    directory_crc: int
    """CRC32C of its directory, by which another file of that name is told."""


class Manifest(NamedTuple):
    """The files, oldest first, and the number of the next one."""

    next_number: int = 0
    files: tuple[FileEntry, ...] = ()


def manifest_path(directory: str) -> str:
    """Return the path of the manifest of the log in `directory`."""
    return f"{directory}/second/manifest"


def extent_path(directory: str, number: int) -> str:
    """Return the path of an extent file."""
    return f"{directory}/second/{number:020d}.extents"


def encode_manifest(manifest: Manifest) -> bytes:
    """Return the manifest file."""
    head = HEADER.pack(MAGIC, VERSION, manifest.next_number, len(manifest.files))
    files = b"".join(FILE.pack(*entry) for entry in manifest.files)
    data = head + CRC.pack(crc32c(head)) + files
    return data + CRC.pack(crc32c(data))


def decode_manifest(path: str, data: memoryview) -> Manifest:
    """Return the manifest in `data`. Raises CorruptFile, NewerFormat."""
    if len(data) < HEADER_BYTES + CRC.size:
        raise CorruptFile(path, f"{len(data)} bytes are too few")
    if crc32c(data[: HEADER.size]) != CRC.unpack_from(data, HEADER.size)[0]:
        raise CorruptFile(path, "header checksum does not agree")
    magic, version, next_number, count = HEADER.unpack_from(data)
    if magic != MAGIC:
        raise CorruptFile(path, f"magic {magic!r}")
    if version != VERSION:
        raise NewerFormat(path, f"manifest version {version}")
    end = HEADER_BYTES + FILE.size * count
    if len(data) != end + CRC.size or crc32c(data[:end]) != CRC.unpack_from(data, end)[0]:
        raise CorruptFile(path, f"{count} files, or the checksum, do not agree")
    files = tuple(FileEntry(*fields) for fields in FILE.iter_unpack(data[HEADER_BYTES:end]))
    numbers = [entry.number for entry in files]
    if numbers != sorted(set(numbers)) or (numbers and numbers[-1] >= next_number):
        raise CorruptFile(path, f"files {numbers}, next number {next_number}")
    return Manifest(next_number, files)
