"""The sealed index: one immutable file for each closed segment.

    header      64 bytes, big-endian: magic "PSIX", version u16, 2 zero, base i64, data end i64,
                directory count u32, batch count u32, segment end i64 (0 in files of earlier
                releases), 20 zero, crc32c u32 of the 60 before
    directory   72 bytes for each partition with batches in the segment, big-endian, sorted by key:
                topic id 16, partition i32, count u32, block at u64, first offset i64,
                end offset i64, largest timestamp i64, batch bytes i64,
                crc32c u32 of the block, crc32c u32 of the 68 before
    blocks      for each partition: bases i64[], positions i64[], timestamps i64[], sizes i32[],
                padded to 8; little-endian, the native order of supported machines, so that a block
                is searched in place

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

from penstock.base.ids import TopicId, TopicPartition
from penstock.storage.errors import CorruptFile
from penstock.storage.index.partition_log import Columns

HEADER = Struct(">4sH2xqqIIq20x")
ENTRY = Struct(">16siIQqqqqI")
CRC = Struct(">I")
MAGIC = b"PSIX"
VERSION = 1
HEADER_BYTES = HEADER.size + CRC.size
ENTRY_BYTES = ENTRY.size + CRC.size

assert HEADER_BYTES == 64
assert ENTRY_BYTES == 72

Reader = Callable[[int, int], memoryview]
"""(position, length) -> bytes of the file; fewer at its end."""


class IndexHeader(NamedTuple):
    """The header of a sealed index: bounds and counts of its segment."""

    base: int
    data_end: int
    partition_count: int
    batch_count: int
    segment_end: int
    """End of the segment's file; 0 if it is not known."""


class IndexEntry(NamedTuple):
    """One partition in one closed segment. `end_offset` is exclusive."""

    topic_id: TopicId
    partition: int
    batch_count: int
    block_at: int
    first_offset: int
    end_offset: int
    max_timestamp: int
    batch_bytes: int
    block_crc: int

    @property
    def topic_partition(self) -> TopicPartition:
        """The partition that the entry describes."""
        return TopicPartition(self.topic_id, self.partition)

    @property
    def block_bytes(self) -> int:
        """Length of the entry's block."""
        return block_bytes(self.batch_count)


class Sealed(NamedTuple):
    """Columns of a partition in a closing segment, and the offset after their last batch."""

    columns: Columns
    end_offset: int


def block_bytes(count: int) -> int:
    """Return the length of a block of `count` batches."""
    return (28 * count + 7) & ~7


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
    base: int, data_end: int, parts: Mapping[TopicPartition, Sealed], *, segment_end: int
) -> bytes:
    """Return the whole index file of the segment [base, segment_end), its data up to data_end."""
    blocks: list[bytes] = []
    entries: list[bytes] = []
    block_at = HEADER_BYTES + ENTRY_BYTES * len(parts)
    batch_count = 0
    for (topic_id, partition), (columns, end_offset) in sorted(parts.items()):
        block = encode_columns(columns)
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
        entries.append(entry + CRC.pack(crc32c(entry)))
        blocks.append(block)
        block_at += len(block)
        batch_count += count
    counts = len(parts), batch_count
    header = HEADER.pack(MAGIC, VERSION, base, data_end, *counts, segment_end)
    return b"".join([header, CRC.pack(crc32c(header)), *entries, *blocks])


def read_index_header(path: str, base: int, read: Reader) -> IndexHeader:
    """Return the header of the index file of segment `base`. Raises CorruptFile."""
    data = read(0, HEADER_BYTES)
    if len(data) < HEADER_BYTES or crc32c(data[: HEADER.size]) != CRC.unpack(data[-4:])[0]:
        raise CorruptFile(path, "header checksum does not agree")
    magic, version, found_base, data_end, *rest = HEADER.unpack_from(data)
    if magic != MAGIC or version != VERSION or found_base != base:
        raise CorruptFile(path, f"magic {magic!r}, version {version}, base {found_base}")
    return IndexHeader(found_base, data_end, *rest)


def _entry(path: str, data: memoryview) -> IndexEntry:
    if len(data) < ENTRY_BYTES or crc32c(data[: ENTRY.size]) != CRC.unpack(data[-4:])[0]:
        raise CorruptFile(path, "entry checksum does not agree")
    return IndexEntry(*ENTRY.unpack_from(data))


def find_entry(
    path: str, header: IndexHeader, wanted: TopicPartition, read: Reader
) -> IndexEntry | None:
    """Return the entry of a partition by binary search. Raises CorruptFile."""
    low, high = 0, header.partition_count
    while low < high:
        middle = (low + high) // 2
        entry = _entry(path, read(HEADER_BYTES + middle * ENTRY_BYTES, ENTRY_BYTES))
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
    data = read(HEADER_BYTES, header.partition_count * ENTRY_BYTES)
    starts: Iterable[int] = range(0, header.partition_count * ENTRY_BYTES, ENTRY_BYTES)
    return [_entry(path, data[at : at + ENTRY_BYTES]) for at in starts]


def read_block(path: str, entry: IndexEntry, read: Reader) -> Columns:
    """Return the columns of an entry. Raises CorruptFile."""
    data = read(entry.block_at, entry.block_bytes)
    if len(data) != entry.block_bytes or crc32c(data) != entry.block_crc:
        raise CorruptFile(path, "block checksum does not agree")
    return decode_columns(data, entry.batch_count)
