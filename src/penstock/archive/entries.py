"""Entries: what is written down of an archive, a small file for each change.

    <SHA-256 of the rest, hexadecimal> LF
    {"number": 7, "previous": "<SHA-256 of the bytes of entry 6>", "what": {"kind": ...}}

    began     a run has begun: of which topic, and how long records are to be kept
    added     chunks: ranges of offsets, all of whose records lie in the files that are named
    pruned    the first offset that is left, of each partition that lost something

A flipped byte does not agree with the first line, an entry that is gone, or another one in its
place, not with `previous` of the next. A number is given once (a put that must be the first), so
that of two writers one learns that it was not alone.

Source: docs/adr/0164, docs/formats/archive.md.
"""

import hashlib

import msgspec

from penstock.archive.errors import ArchiveLies

FORMAT = 1
NO_TIME_MS = -(2**63)
"""Of a chunk without records."""
FIRST = ""
"""As `previous` of the first entry."""


class ArchivedFile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A Parquet file. Offsets are inclusive."""

    name: str
    size_bytes: int
    sha256: str
    rows: int
    first_offset: int
    last_offset: int


class Chunk(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A range [start, end) of one partition, and the files with all records that were in it."""

    partition: int
    start: int
    end: int
    gap_start: int
    """Where the chunk before ends. Below `start`: the records between were gone when they were to
    be copied."""
    first_ms: int
    last_ms: int
    """The lowest and the highest time of its records, ms since 1970."""
    files: tuple[ArchivedFile, ...]

    @property
    def rows(self) -> int:
        return sum(file.rows for file in self.files)

    @property
    def size_bytes(self) -> int:
        return sum(file.size_bytes for file in self.files)


class Began(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="began"):
    """A run has begun; runs before it can commit nothing more."""

    format: int
    run: str
    """Random; that of the first entry is the id of the archive."""
    topic: str
    topic_id: str
    keep_ms: int
    """How old records become; 0: they are kept for ever."""


class Added(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="added"):
    """Chunks are complete."""

    run: str
    chunks: tuple[Chunk, ...]


class Pruned(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="pruned"):
    """What is below these offsets does not count any more: [partition, first offset that stays]."""

    run: str
    starts: tuple[tuple[int, int], ...]


What = Began | Added | Pruned


class Entry(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One change, in its place behind another one."""

    number: int
    previous: str
    what: What


class PartitionState(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A partition in a snapshot."""

    partition: int
    start: int
    end: int
    chunks: tuple[Chunk, ...]


class Snapshot(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the entries up to a number say together, so that not all have to be read again."""

    number: int
    entry: str
    """SHA-256 of the bytes of entry `number`."""
    archive_id: str
    topic: str
    topic_id: str
    keep_ms: int
    partitions: tuple[PartitionState, ...]


_entries = msgspec.json.Decoder(Entry)
_snapshots = msgspec.json.Decoder(Snapshot)


def seal(content: Entry | Snapshot) -> bytes:
    """Return the bytes of a file of the ledger."""
    text = msgspec.json.encode(content)
    return digest(text).encode() + b"\n" + text


def open_entry(name: str, data: bytes) -> Entry:
    """Return the entry that `seal` has sealed. Raises ArchiveLies."""
    text = _checked(name, data)
    try:
        return _entries.decode(text)
    except msgspec.MsgspecError as error:
        raise ArchiveLies(name, f"it is of a later release, or no entry ({error})") from error


def open_snapshot(name: str, data: bytes) -> Snapshot:
    """Return the snapshot that `seal` has sealed. Raises ArchiveLies."""
    advice = "delete it: the entries say the same, and the next run writes another"
    try:
        return _snapshots.decode(_checked(name, data))
    except (msgspec.MsgspecError, ArchiveLies) as error:
        raise ArchiveLies(name, f"it is damaged; {advice}") from error


def digest(data: bytes) -> str:
    """Return the SHA-256 of some bytes, hexadecimal."""
    return hashlib.sha256(data).hexdigest()


def _checked(name: str, data: bytes) -> bytes:
    claimed, _, text = data.partition(b"\n")
    if claimed != digest(text).encode():
        raise ArchiveLies(name, "its checksum does not agree with its bytes")
    return text
