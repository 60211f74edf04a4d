"""Reads an extent file: its directory, the summary of an extent, a block, the batches of a block.

    tail ─► directory ─► entry ─► summary (block index, notes) ─► block ─► batches

Whoever has an entry from elsewhere, as from a manifest, begins there, and reads no tail.

All numbers are checked before they are used to read or to allocate: a file may come from a store
that does not belong to this cluster alone. What does not agree is CorruptExtentFile.

Source: layout.py.
"""

from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import NamedTuple

from crc32c import crc32c

from penstock.extents.errors import CorruptExtentFile, NewerExtentFile
from penstock.extents.layout import (
    BLOCK_COLUMNS,
    BLOCK_ENTRY_BYTES,
    BLOCKS_MAX,
    CRC,
    ENTRY,
    ENTRY_BYTES,
    FILE_BYTES_MIN,
    HEADER,
    HEADER_BYTES,
    MAGIC,
    TAIL,
    TAIL_BYTES,
    TAIL_MAGIC,
    VERSION,
    BlockIndex,
    Entry,
    Notes,
    decode_notes,
    unpack_columns,
)
from penstock.record.batch import (
    BATCH_HEADER_BYTES,
    CHECKED_AT,
    BatchHeader,
    read_header,
)
from penstock.record.batch import MAGIC as BATCH_MAGIC

Read = Callable[[int, int], memoryview]
"""(place in the file, bytes) -> bytes; fewer at its end."""


class FileHeader(NamedTuple):
    """Where a file comes from."""

    cluster_id: bytes
    replica_set_id: int


class Directory(NamedTuple):
    """The directory of a file and its place; entries in the order of partitions and offsets."""

    at: int
    entries: list[Entry]


class Summary(NamedTuple):
    """The block index and the notes of one extent."""

    blocks: BlockIndex
    notes: Notes


def read_file_header(path: str, read: Read) -> FileHeader:
    """Return the header of a file. Raises CorruptExtentFile, NewerExtentFile."""
    data = _exactly(path, read, 0, HEADER_BYTES)
    if crc32c(data[: HEADER.size]) != CRC.unpack_from(data, HEADER.size)[0]:
        raise CorruptExtentFile(path, 0, "the header's checksum does not agree")
    magic, version, flags, cluster_id, replica_set_id = HEADER.unpack_from(data)
    if magic != MAGIC:
        raise CorruptExtentFile(path, 0, f"magic {magic!r}")
    if version != VERSION or flags:
        raise NewerExtentFile(path, f"version {version}, flags {flags:#x}")
    return FileHeader(cluster_id, replica_set_id)


def read_directory(path: str, size_bytes: int, read: Read) -> Directory:
    """Return the directory of a file of `size_bytes`. Raises CorruptExtentFile."""
    if size_bytes < FILE_BYTES_MIN:
        raise CorruptExtentFile(path, 0, f"a file of {size_bytes} bytes")
    tail_at = size_bytes - TAIL_BYTES
    tail = _exactly(path, read, tail_at, TAIL_BYTES)
    crc, magic = TAIL_MAGIC.unpack_from(tail, TAIL.size)
    if magic != MAGIC or crc != crc32c(tail[: TAIL.size]):
        raise CorruptExtentFile(path, tail_at, "no tail: the file is cut short, or another kind")
    at, length, count, file_bytes, directory_crc = TAIL.unpack_from(tail)
    is_placed = at >= HEADER_BYTES and at + length == tail_at
    if file_bytes != size_bytes or not is_placed or count * ENTRY_BYTES != length:
        raise CorruptExtentFile(path, tail_at, f"{count} extents, directory at {at}")
    data = _exactly(path, read, at, length)
    if crc32c(data) != directory_crc:
        raise CorruptExtentFile(path, at, "the directory's checksum does not agree")
    entries = [Entry(*fields) for fields in ENTRY.iter_unpack(data)]
    for before, entry in pairwise(entries):
        if not _follows(before, entry):
            raise CorruptExtentFile(path, at, f"{entry.topic_partition} stands out of order")
    for entry in entries:
        check_entry(path, entry, at)
    return Directory(at, entries)


def _follows(before: Entry, entry: Entry) -> bool:
    """Whether an entry is of a later partition, or goes on with a range that was rewritten."""
    if before.topic_partition != entry.topic_partition:
        return before.topic_partition < entry.topic_partition
    is_rewritten = entry.generation > 0 and before.generation == entry.generation
    return is_rewritten and before.end_offset == entry.first_offset


def check_entry(path: str, entry: Entry, limit: int) -> None:
    """Raise CorruptExtentFile unless the parts of an extent lie below byte `limit`."""
    extent_end = entry.extent_at + entry.extent_bytes
    summary_end = entry.summary_at + entry.summary_bytes
    is_placed = entry.extent_at >= HEADER_BYTES and extent_end <= entry.summary_at
    has_blocks = 0 < entry.block_count <= min(BLOCKS_MAX, entry.batch_count)
    has_bytes = entry.extent_bytes >= BATCH_HEADER_BYTES * entry.batch_count
    is_range = 0 <= entry.first_offset < entry.end_offset
    if not (is_placed and summary_end <= limit and has_blocks and has_bytes and is_range):
        raise CorruptExtentFile(path, entry.extent_at, f"the entry {entry} contradicts itself")


def read_summary(path: str, entry: Entry, read: Read) -> Summary:
    """Return block index and notes of an extent. Raises CorruptExtentFile."""
    data = _exactly(path, read, entry.summary_at, entry.summary_bytes)
    if crc32c(data) != entry.summary_crc:
        raise CorruptExtentFile(path, entry.summary_at, "the summary's checksum does not agree")
    split = BLOCK_ENTRY_BYTES * entry.block_count
    columns = unpack_columns(BLOCK_COLUMNS, entry.block_count, data[:split])
    blocks = BlockIndex(*columns)
    _check_blocks(path, entry, blocks)
    try:
        return Summary(blocks, decode_notes(data[split:]))
    except ValueError as error:
        raise CorruptExtentFile(path, entry.summary_at + split, str(error)) from error


def _check_blocks(path: str, entry: Entry, blocks: BlockIndex) -> None:
    """Raise CorruptExtentFile unless the blocks are the extent, in order and without a gap."""
    ends = [place + size for place, size in zip(blocks.places, blocks.stored_bytes, strict=True)]
    starts = [*blocks.places[1:], entry.extent_at + entry.extent_bytes]
    offsets = [*blocks.first_offsets, entry.end_offset]
    is_whole = blocks.places[0] == entry.extent_at and ends == starts
    is_ordered = all(before < after for before, after in pairwise(offsets))
    has_newest = max(blocks.max_timestamps) == entry.max_timestamp
    has_bytes = sum(blocks.batch_bytes) == entry.batch_bytes
    first = blocks.first_offsets[0]
    begins = first >= entry.first_offset if entry.generation else first == entry.first_offset
    if not (is_whole and is_ordered and has_newest and has_bytes and begins):
        raise CorruptExtentFile(path, entry.summary_at, f"the blocks are not those of {entry}")


def read_block(path: str, blocks: BlockIndex, block: int, read: Read) -> memoryview:
    """Return the batches of one block. Raises CorruptExtentFile."""
    at = blocks.places[block]
    data = _exactly(path, read, at, blocks.stored_bytes[block])
    if crc32c(data) != blocks.checksums[block]:
        raise CorruptExtentFile(path, at, f"the checksum of block {block} does not agree")
    return data


def batches_of(path: str, at: int, block: memoryview) -> Iterator[tuple[BatchHeader, memoryview]]:
    """Yield the batches of a block that lies at byte `at` of its file, each with a right CRC.

    What the records say is not looked at: it was when the batch was produced. Raises
    CorruptExtentFile.
    """
    start, end, next_offset = 0, len(block), 0
    while start < end:
        if end - start < BATCH_HEADER_BYTES:
            raise CorruptExtentFile(path, at + start, f"{end - start} bytes behind the last batch")
        header = read_header(block, start)
        stop = start + header.size_bytes
        is_batch = header.magic == BATCH_MAGIC and start + BATCH_HEADER_BYTES <= stop <= end
        if not is_batch or header.base_offset < next_offset or header.last_offset_delta < 0:
            raise CorruptExtentFile(path, at + start, f"no batch follows: {header}")
        if crc32c(block[start + CHECKED_AT : stop]) != header.crc:
            raise CorruptExtentFile(path, at + start, "the CRC of the batch does not agree")
        yield header, block[start:stop]
        start, next_offset = stop, header.last_offset + 1


def _exactly(path: str, read: Read, at: int, size: int) -> memoryview:
    data = read(at, size)
    if len(data) != size:
        raise CorruptExtentFile(path, at, f"{len(data)} of {size} bytes are there")
    return data
