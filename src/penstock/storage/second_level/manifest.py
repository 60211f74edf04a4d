"""The manifest of a second level: the extent files that belong to it, oldest first.

    second/manifest                replaced as a whole whenever files come or go
    second/<number>.extents        an extent file; numbers rise and are never used again
    *.tmp                          a file that was being written; removed at start

    header   48   magic "PSEM", version u16, 2 zero, next number u64, file count u32, cut count u32,
                  held from i64, missing below i64, 4 zero, crc32c u32 of the 44 before
    files    24   for each: number u64, bytes u64, crc32c u32 of its directory, place u32
    cuts     36   for each: topic id 16, partition i32, end offset i64, next number u64 at the time
    trailer   4   crc32c of all before

A cut is what an unclean election leaves: files of lower numbers hold nothing of the partition from
its end offset on. Cuts are few; one goes when no such file is left.

A file that the manifest does not name does not exist: it was being taken over, or is being removed.

Two positions of the commit log tell what a log has over all its stores. All that the files hold was
at or above *held from* there. Below *missing below* a log may lack what its set keeps, since it was
copied from its master's newest segment on; a manifest without files may be there for that alone.

The place is 0, or 1 + the number of the file in whose place one was made; it stands where that one
stood. Then the version is 2, which earlier releases refuse: they would take it for the newest file.

Source: docs/formats/extent-file.md; the manifest of LevelDB, here of a few files and whole.
"""

from collections import deque
from collections.abc import Iterator
from struct import Struct
from typing import NamedTuple

from crc32c import crc32c

from penstock.base.ids import Position, TopicId, TopicPartition
from penstock.storage.errors import CorruptFile, NewerFormat

MAGIC = b"PSEM"
VERSION = 2
PLAIN_VERSION = 1
"""Without files in the place of others: what earlier releases read."""
HEADER = Struct(">4sH2xQIIqq4x")
FILE = Struct(">QQII")
CUT = Struct(">16siqQ")
CRC = Struct(">I")
HEADER_BYTES = HEADER.size + CRC.size

assert (HEADER_BYTES, FILE.size, CUT.size) == (48, 24, 36)


class FileEntry(NamedTuple):
    """One extent file."""

    number: int
    size_bytes: int
    directory_crc: int
    """CRC32C of its directory, by which another file of that name is told."""
    place: int = 0
    """1 + the number of the file in whose place it stands; 0: it stands in its own."""

    @property
    def order(self) -> int:
        """Where it stands among the files, as the number of a file: newer ones have larger ones."""
        return self.place - 1 if self.place else self.number


class Cut(NamedTuple):
    """Files with numbers below `next_number` end at `end_offset` (exclusive) for a partition."""

    topic_id: TopicId
    partition: int
    end_offset: int
    next_number: int

    @property
    def topic_partition(self) -> TopicPartition:
        """The partition that is cut."""
        return TopicPartition(self.topic_id, self.partition)


class Reach(NamedTuple):
    """How far back a log reaches over all its stores, in positions of the commit log."""

    kept_from: Position
    """Below it (exclusive) the log keeps nothing."""
    whole_from: Position
    """From there on (inclusive) it has what its set keeps: 0, whatever retention has deleted and a
    housekeeper has moved, unless it was copied from its master's newest segment on."""


class Manifest(NamedTuple):
    """The files, oldest first, the number of the next one, and cuts in the order they were made."""

    next_number: int = 0
    files: tuple[FileEntry, ...] = ()
    cuts: tuple[Cut, ...] = ()
    held_from: Position = Position(0)
    """Positions of the commit log below it hold nothing that the files have (exclusive)."""
    missing_below: Position = Position(0)
    """What the set keeps may be missing in this log below that position (exclusive)."""

    def added(self, file: FileEntry, oldest_position: Position) -> "Manifest":
        """Return the manifest with the next file; what that has the commit log has at this moment.

        `oldest_position` is the lowest that the commit log still has.
        """
        held_from = self.held_from if self.files else oldest_position
        files = (*self.files, file)
        return self._replace(next_number=file.number + 1, files=files, held_from=held_from)

    def reach(self, oldest_position: Position) -> Reach:
        """Return how far back the log reaches whose oldest segment begins at `oldest_position`."""
        oldest = min(oldest_position, self.held_from) if self.files else oldest_position
        return Reach(oldest, self.missing_below)

    def steps(self) -> Iterator[FileEntry | Cut]:
        """Yield files and cuts in the order in which they were made."""
        cuts = deque(self.cuts)
        for file in self.files:
            while cuts and cuts[0].next_number <= file.order:
                yield cuts.popleft()
            yield file
        yield from cuts

    def without(self, numbers: frozenset[int]) -> "Manifest":
        """Return the manifest without some files, and without cuts that concern no file then."""
        files = tuple(file for file in self.files if file.number not in numbers)
        oldest = files[0].order if files else self.next_number
        return self._replace(
            files=files, cuts=tuple(cut for cut in self.cuts if oldest < cut.next_number)
        )

    def replaced(self, number: int, file: FileEntry) -> "Manifest":
        """Return the manifest with `file`, the newest one, in the place of another."""
        files = tuple(
            file._replace(place=1 + one.order) if one.number == number else one
            for one in self.files
        )
        return self._replace(next_number=file.number + 1, files=files)


def manifest_path(directory: str) -> str:
    """Return the path of the manifest of the log in `directory`."""
    return f"{directory}/second/manifest"


def extent_path(directory: str, number: int) -> str:
    """Return the path of an extent file."""
    return f"{directory}/second/{number:020d}.extents"


def encode_manifest(manifest: Manifest) -> bytes:
    """Return the manifest file."""
    counts = len(manifest.files), len(manifest.cuts)
    version = VERSION if any(file.place for file in manifest.files) else PLAIN_VERSION
    places = manifest.held_from, manifest.missing_below
    head = HEADER.pack(MAGIC, version, manifest.next_number, *counts, *places)
    files = b"".join(FILE.pack(*entry) for entry in manifest.files)
    cuts = b"".join(CUT.pack(*cut) for cut in manifest.cuts)
    data = head + CRC.pack(crc32c(head)) + files + cuts
    return data + CRC.pack(crc32c(data))


def decode_manifest(path: str, data: memoryview) -> Manifest:
    """Return the manifest in `data`. Raises CorruptFile, NewerFormat."""
    if len(data) < HEADER_BYTES + CRC.size:
        raise CorruptFile(path, f"{len(data)} bytes are too few")
    if crc32c(data[: HEADER.size]) != CRC.unpack_from(data, HEADER.size)[0]:
        raise CorruptFile(path, "header checksum does not agree")
    magic, version, next_number, count, cut_count, *positions = HEADER.unpack_from(data)
    if magic != MAGIC:
        raise CorruptFile(path, f"magic {magic!r}")
    if version not in {PLAIN_VERSION, VERSION}:
        raise NewerFormat(path, f"manifest version {version}")
    cuts_at = HEADER_BYTES + FILE.size * count
    end = cuts_at + CUT.size * cut_count
    if len(data) != end + CRC.size or crc32c(data[:end]) != CRC.unpack_from(data, end)[0]:
        raise CorruptFile(path, f"{count} files, or the checksum, do not agree")
    files = tuple(FileEntry(*fields) for fields in FILE.iter_unpack(data[HEADER_BYTES:cuts_at]))
    cuts = tuple(Cut(*fields) for fields in CUT.iter_unpack(data[cuts_at:end]))
    numbers = {entry.number for entry in files}
    places = [entry.order for entry in files]
    is_ordered = places == sorted(set(places)) and len(numbers) == count
    if not is_ordered or max(numbers, default=-1) >= next_number:
        raise CorruptFile(path, f"files {sorted(numbers)}, next number {next_number}")
    if min(positions) < 0:
        raise CorruptFile(path, f"positions {positions}")
    return Manifest(next_number, files, cuts, *positions)
