"""The sealed index: one immutable file for each closed segment.

    header      64 bytes, big-endian: magic "PSIX", version u16 (1 or 2), 2 zero, base i64,
                data end i64, directory count u32, batch count u32, segment end i64 (0 in files of
                earlier releases), 20 zero, crc32c u32 of the 60 before
    directory   72 bytes for each partition with batches in the segment, big-endian, sorted by key:
                topic id 16, partition i32, count u32, block at u64, first offset i64,
                end offset i64, largest timestamp i64, batch bytes i64,
                crc32c u32 of the block; in version 2 also count u32 of aborted transactions and
                the stable end i64: everything of the partition below that offset was decided when
                the segment closed; then crc32c u32 of all before
    blocks      for each partition: bases i64[], positions i64[], timestamps i64[], sizes i32[],
                padded to 8; in version 2 then producer ids i64[], first offsets i64[], last offsets
                i64[], stable offsets i64[] of aborted transactions; little-endian, the native order
                of supported machines, so that a block is searched in place

Version 2 is written for a segment with transactions only: an earlier release reads all others.

An entry has its own checksum: a lookup reads a dozen entries and one block, not the whole file.
The file is derived data and can be rebuilt from its segment at any time.

Source: RocketMQ's consume queue; ADR 0002. The number of files grows with the log, not with the
number of partitions.
"""

import sys
from array import array
from collections.abc import Callable, Iterable, Mapping
from struct import Struct
from typing import NamedTuple

from crc32c import crc32c

from penstock.base.ids import Offset, Position, TopicId, TopicPartition
from penstock.storage.errors import CorruptFile
from penstock.storage.index.aborted import (
    ENTRY_BYTES as ABORTED_BYTES,
)
from penstock.storage.index.aborted import (
    FIELDS,
    NO_ABORTED,
    Aborted,
)
from penstock.storage.index.partition_log import Columns, PartitionLog

HEADER = Struct(">4sH2xqqIIq20x")
ENTRY = Struct(">16siIQqqqqI")
TRANSACTIONS = Struct(">Iq")
CRC = Struct(">I")
MAGIC = b"PSIX"
VERSION = 2
PLAIN_VERSION = 1
HEADER_BYTES = HEADER.size + CRC.size
ENTRY_BYTES = {
    PLAIN_VERSION: ENTRY.size + CRC.size,
    VERSION: ENTRY.size + TRANSACTIONS.size + CRC.size,
}

assert HEADER_BYTES == 64
assert ENTRY_BYTES == {1: 72, 2: 84}

NOT_KEPT = Offset(-1)
Reader = Callable[[int, int], memoryview]
"""(position, length) -> bytes of the file; fewer at its end."""


class IndexHeader(NamedTuple):
    """The header of a sealed index: bounds and counts of its segment."""

    base: Position
    data_end: Position
    partition_count: int
    batch_count: int
    segment_end: Position
    """End of the segment's file; 0 if it is not known."""
    version: int = PLAIN_VERSION

    @property
    def entry_bytes(self) -> int:
        """Length of an entry of the directory."""
        return ENTRY_BYTES[self.version]


class IndexEntry(NamedTuple):
    """One partition in one closed segment. `end_offset` is exclusive."""

    topic_id: TopicId
    partition: int
    batch_count: int
    block_at: int
    first_offset: Offset
    end_offset: Offset
    max_timestamp: int
    batch_bytes: int
    block_crc: int
    aborted_count: int = 0
    stable_end: Offset = NOT_KEPT
    """Everything below it was decided when the segment closed (exclusive)."""

    @property
    def topic_partition(self) -> TopicPartition:
        """The partition that the entry describes."""
        return TopicPartition(self.topic_id, self.partition)

    @property
    def block_bytes(self) -> int:
        """Length of the entry's block."""
        return block_bytes(self.batch_count, self.aborted_count)


class Sealed(NamedTuple):
    """Columns of a partition in a closing segment, and the offset after their last batch."""

    columns: Columns
    end_offset: Offset
    aborted: Aborted = NO_ABORTED
    stable_end: Offset = NOT_KEPT
    """Everything below it is decided (exclusive); NOT_KEPT stands for the end offset."""

    @property
    def is_plain(self) -> bool:
        """Whether no transaction has to be kept of it."""
        has_open = self.stable_end not in {NOT_KEPT, self.end_offset}
        return not has_open and not len(self.aborted.last_offsets)


NOT_THERE = Sealed(Columns((), (), (), ()), Offset(0))
"""Of a partition without batches in a segment: it has decided nothing."""


def seal(partition: PartitionLog) -> Sealed:
    """Take what a partition has in the closing segment."""
    end_offset, aborted, stable_end = (
        partition.log_end_offset,
        partition.aborted,
        partition.stable_end(),
    )
    return Sealed(partition.take_columns(), end_offset, aborted, stable_end)


def block_bytes(count: int, aborted: int = 0) -> int:
    """Return the length of a block of `count` batches and so many aborted transactions."""
    return ((28 * count + 7) & ~7) + ABORTED_BYTES * aborted


def encode_block(sealed: Sealed) -> bytes:
    """Return the block of a partition: its columns, and its aborted transactions."""
    arrays = [array("q", column) for column in sealed.aborted.columns]
    if sys.byteorder == "big":
        for column in arrays:
            column.byteswap()
    return b"".join([encode_columns(sealed.columns), *(column.tobytes() for column in arrays)])


def decode_aborted(block: memoryview, count: int, aborted: int) -> Aborted:
    """Return the aborted transactions at the end of a block; views that keep it alive.

    Off the loop, for a search that will be on it: they are prepared.
    """
    if not aborted:
        return NO_ABORTED
    at = block_bytes(count)
    parts = [block[at + 8 * n * aborted : at + 8 * (n + 1) * aborted] for n in range(FIELDS)]
    if sys.byteorder == "big":
        arrays = [array("q", bytes(part)) for part in parts]
        for column in arrays:
            column.byteswap()
        found = Aborted(*arrays)
    else:
        found = Aborted(*(part.cast("q") for part in parts))
    found.prepare()
    return found


def encode_columns(columns: Columns) -> bytes:
    """Return the block of `columns`."""
    arrays = (
        array("q", columns.bases),
        array("q", columns.positions),
        array("q", columns.timestamps),
        array("i", columns.sizes),
    )
    if sys.byteorder == "big":
        for column in arrays:
            column.byteswap()
    padding = bytes(block_bytes(len(columns.bases)) - 28 * len(columns.bases))
    return b"".join([*(column.tobytes() for column in arrays), padding])


def decode_columns(block: memoryview, count: int) -> Columns:
    """Return the columns in a block of `count` batches; they are views and keep it alive."""
    ends = [8 * count, 16 * count, 24 * count, 28 * count]
    if sys.byteorder == "big":
        arrays = [array(kind) for kind in "qqqi"]
        for column, start, end in zip(arrays, [0, *ends], ends, strict=False):
            column.frombytes(block[start:end])
            column.byteswap()
        return Columns(arrays[0], arrays[1], arrays[3], arrays[2])
    return Columns(
        block[: ends[0]].cast("q"),
        block[ends[0] : ends[1]].cast("q"),
        block[ends[2] : ends[3]].cast("i"),
        block[ends[1] : ends[2]].cast("q"),
    )


def encode_index(
    base: Position,
    data_end: Position,
    parts: Mapping[TopicPartition, Sealed],
    *,
    segment_end: Position,
) -> bytes:
    """Return the whole index file of the segment [base, segment_end), its data up to data_end."""
    blocks: list[bytes] = []
    entries: list[bytes] = []
    is_plain = all(sealed.is_plain for sealed in parts.values())
    version = PLAIN_VERSION if is_plain else VERSION
    block_at = HEADER_BYTES + ENTRY_BYTES[version] * len(parts)
    batch_count = 0
    for (topic_id, partition), sealed in sorted(parts.items()):
        columns, end_offset, aborted, stable_end = sealed
        block = encode_block(sealed)
        count = len(columns.bases)
        entry = ENTRY.pack(
            topic_id,
            partition,
            count,
            block_at,
            columns.bases[0],
            end_offset,
            max(columns.timestamps),
            sum(columns.sizes),
            crc32c(block),
        )
        if not is_plain:
            stable = end_offset if stable_end == NOT_KEPT else stable_end
            entry += TRANSACTIONS.pack(len(aborted.last_offsets), stable)
        entries.append(entry + CRC.pack(crc32c(entry)))
        blocks.append(block)
        block_at += len(block)
        batch_count += count
    counts = len(parts), batch_count
    header = HEADER.pack(MAGIC, version, base, data_end, *counts, segment_end)
    return b"".join([header, CRC.pack(crc32c(header)), *entries, *blocks])


def read_index_header(path: str, base: Position, read: Reader) -> IndexHeader:
    """Return the header of the index file of segment `base`. Raises CorruptFile."""
    data = read(0, HEADER_BYTES)
    if len(data) < HEADER_BYTES or crc32c(data[: HEADER.size]) != CRC.unpack(data[-4:])[0]:
        raise CorruptFile(path, "header checksum does not agree")
    magic, version, found_base, *numbers = HEADER.unpack_from(data)
    if magic != MAGIC or version not in ENTRY_BYTES or found_base != base:
        raise CorruptFile(path, f"magic {magic!r}, version {version}, base {found_base}")
    return IndexHeader(found_base, *numbers)._replace(version=version)


def _entry(path: str, data: memoryview, size: int) -> IndexEntry:
    """Return the entry in `data`, which should have `size` bytes."""
    if len(data) != size or crc32c(data[: -CRC.size]) != CRC.unpack(data[-CRC.size :])[0]:
        raise CorruptFile(path, "entry checksum does not agree")
    entry = IndexEntry(*ENTRY.unpack_from(data))
    if size == ENTRY_BYTES[PLAIN_VERSION]:
        return entry._replace(stable_end=entry.end_offset)
    aborted_count, stable_end = TRANSACTIONS.unpack_from(data, ENTRY.size)
    return entry._replace(aborted_count=aborted_count, stable_end=stable_end)


def find_entry(
    path: str, header: IndexHeader, wanted: TopicPartition, read: Reader
) -> IndexEntry | None:
    """Return the entry of a partition by binary search. Raises CorruptFile."""
    low, high = 0, header.partition_count
    size = header.entry_bytes
    while low < high:
        middle = (low + high) // 2
        entry = _entry(path, read(HEADER_BYTES + middle * size, size), size)
        key = (entry.topic_id, entry.partition)
        if key == wanted:
            return entry
        if key < wanted:
            low = middle + 1
        else:
            high = middle
    return None


def read_directory(path: str, header: IndexHeader, read: Reader) -> list[IndexEntry]:
    """Return all entries in order of their key. Raises CorruptFile."""
    size = header.entry_bytes
    data = read(HEADER_BYTES, header.partition_count * size)
    starts: Iterable[int] = range(0, header.partition_count * size, size)
    return [_entry(path, data[at : at + size], size) for at in starts]


def read_block(path: str, entry: IndexEntry, read: Reader) -> Sealed:
    """Return what the index has of an entry's partition. Raises CorruptFile."""
    data = read(entry.block_at, entry.block_bytes)
    if len(data) != entry.block_bytes or crc32c(data) != entry.block_crc:
        raise CorruptFile(path, "block checksum does not agree")
    return Sealed(
        decode_columns(data, entry.batch_count),
        entry.end_offset,
        decode_aborted(data, entry.batch_count, entry.aborted_count),
        entry.stable_end,
    )
