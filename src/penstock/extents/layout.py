"""The layout of an extent file, version 1. An extent is consecutive batches of one partition.

    header      64   magic "PSTO", version u16, flags u16, cluster id 16, replica set id i32,
                     32 zero, crc32c u32 of the 60 before
    extents          blocks of the first extent, of the second, ...; a block is whole batches
    summaries        of the first extent, of the second, ...: its block index, then its notes
    directory  112   for each extent, sorted by (topic id, partition, first offset)
    tail        40   directory at u64, its bytes u32, extents u32, bytes of the file u64, crc32c u32
                     of the directory, 4 zero, crc32c u32 of the 32 before, magic

    block index, 36 bytes for each of n blocks, in columns, little-endian:
                     first offsets i64[n], places in the file u64[n], stored bytes u32[n],
                     bytes of the batches u32[n], largest timestamps i64[n], crc32c u32[n]
    notes            epochs u32, aborted u32, decided end i64; then for each leader epoch (i32,
                     first offset i64); then of aborted transactions, in the order of their markers
                     and little-endian: producer ids i64[], first offsets i64[], offsets of the
                     markers i64[], first offsets that were undecided after each i64[]

The parts follow each other without a gap, so that every byte is covered by one checksum. Nothing
but the header names the writer, so that members of a set write equal files. Integers outside of
columns are big-endian.

Source: docs/formats/extent-file.md, docs/adr/0102. Kafka keeps a segment's indexes in files of
their own (KIP-405); here one file is whole, so that one upload moves it.
"""

import sys
from array import array
from bisect import bisect_right
from collections.abc import Sequence
from struct import Struct
from typing import NamedTuple

from penstock.base.ids import EpochStart, TopicId, TopicPartition

MAGIC = b"PSTO"
VERSION = 1
HEADER = Struct(">4sHH16si32x")
ENTRY = Struct(">16siIqqqqqQQQIIIQI")
TAIL = Struct(">QIIQI4x")
TAIL_MAGIC = Struct(">I4s")
CRC = Struct(">I")
NOTES = Struct(">IIq")
EPOCH = Struct(">iq")

HEADER_BYTES = HEADER.size + CRC.size
ENTRY_BYTES = ENTRY.size
TAIL_BYTES = TAIL.size + TAIL_MAGIC.size
BLOCK_ENTRY_BYTES = 36
ABORTED_BYTES = 32
FILE_BYTES_MIN = HEADER_BYTES + TAIL_BYTES

BLOCK_BYTES = 1 << 20
"""A block is closed before it would grow beyond this; a larger batch is a block alone."""
BLOCKS_MAX = 1 << 24
"""Of one extent. Bounds what a reader allocates because of a number in a file."""

assert (HEADER_BYTES, ENTRY_BYTES, TAIL_BYTES) == (64, 112, 40)


class Entry(NamedTuple):
    """An extent in the directory of its file. Offsets are those of its partition."""

    topic_id: TopicId
    partition: int
    generation: int
    """How often the partition's batches of this range were rewritten; 0: as they were produced."""
    first_offset: int
    """Base offset of the first batch, inclusive; of a rewritten range its start, at or below it."""
    end_offset: int
    """Behind the last record, exclusive. Offsets in between may be missing after a rewrite."""
    first_timestamp: int
    """Base timestamp of the first batch, ms."""
    max_timestamp: int
    """Largest timestamp of all batches, ms."""
    newest_horizon_ms: int
    """When the last delete horizon that a later rewrite has to come back for has passed; -1: none
    is, here or in extents of the same rewrite before it; NOT_CLEANED."""
    extent_at: int
    """Where the first block begins in the file, bytes."""
    extent_bytes: int
    """Bytes of its blocks as stored."""
    summary_at: int
    """Where its block index begins; its notes follow."""
    block_count: int
    notes_bytes: int
    batch_count: int
    batch_bytes: int
    """Bytes of the batches; those of the blocks, where blocks are stored as they are."""
    summary_crc: int
    """CRC32C of block index and notes."""

    @property
    def topic_partition(self) -> TopicPartition:
        """The partition whose batches these are."""
        return TopicPartition(self.topic_id, self.partition)

    @property
    def summary_bytes(self) -> int:
        """Bytes of block index and notes."""
        return BLOCK_ENTRY_BYTES * self.block_count + self.notes_bytes


class BlockIndex(NamedTuple):
    """The blocks of one extent in columns of equal length, oldest block first."""

    first_offsets: Sequence[int]
    places: Sequence[int]
    stored_bytes: Sequence[int]
    batch_bytes: Sequence[int]
    max_timestamps: Sequence[int]
    checksums: Sequence[int]

    def block_of(self, offset: int) -> int:
        """Return the block that has `offset`, or the last one before it.

        Where the offset is missing from that block, the batch that follows it is the first of the
        next block; the first block stands for offsets below it.
        """
        return max(bisect_right(self.first_offsets, offset) - 1, 0)

    def first_at(self, timestamp_ms: int) -> int:
        """Return the first block with a timestamp that is not smaller; their count if none has."""
        for block, newest in enumerate(self.max_timestamps):
            if newest >= timestamp_ms:
                return block
        return len(self.max_timestamps)


BLOCK_COLUMNS = "qQIIqI"


class Aborted(NamedTuple):
    """Aborted transactions of an extent, one for each marker in it; offsets are inclusive."""

    producer_ids: Sequence[int] = ()
    first_offsets: Sequence[int] = ()
    marker_offsets: Sequence[int] = ()
    stable_offsets: Sequence[int] = ()
    """The first offset that was still undecided after each marker."""


NO_ABORTED = Aborted()
NO_HORIZON = -1
NOT_CLEANED = -2
"""In place of a horizon: as it was produced, in a range that was taken from another member. An
earlier release takes it for cleaned, and leaves older values of its keys until the next pass."""


class Notes(NamedTuple):
    """What a reader of an extent has to know that its batches do not say."""

    epochs: Sequence[EpochStart]
    """(leader epoch, offset of its first batch here), oldest first. Of a rewritten range those of
    the batches that were there before, so that the ends of epochs stay; the first of them has the
    start of the range."""
    aborted: Aborted = NO_ABORTED
    decided_end: int = 0
    """Every transaction below it is decided by markers below the extent's end (exclusive)."""


def pack_columns(kinds: str, columns: Sequence[Sequence[int]]) -> bytes:
    """Return columns one after the other, little-endian."""
    arrays = [array(kind, column) for kind, column in zip(kinds, columns, strict=True)]
    if sys.byteorder == "big":
        for one in arrays:
            one.byteswap()
    return b"".join(one.tobytes() for one in arrays)


def unpack_columns(kinds: str, count: int, data: memoryview) -> list[Sequence[int]]:
    """Return columns of `count` numbers each; `data` has exactly them. The columns are copies."""
    columns: list[Sequence[int]] = []
    at = 0
    for kind in kinds:
        column = array(kind)
        size = column.itemsize * count
        column.frombytes(data[at : at + size])
        if sys.byteorder == "big":
            column.byteswap()
        columns.append(column)
        at += size
    return columns


def encode_notes(notes: Notes) -> bytes:
    """Return the notes of an extent as they stand in its summary."""
    count = len(notes.aborted.producer_ids)
    head = NOTES.pack(len(notes.epochs), count, notes.decided_end)
    epochs = b"".join(EPOCH.pack(*epoch) for epoch in notes.epochs)
    return head + epochs + pack_columns("qqqq", notes.aborted)


def decode_notes(data: memoryview) -> Notes:
    """Return the notes in `data`. Raises ValueError: its length is not that of what it counts."""
    if len(data) < NOTES.size:
        raise ValueError(f"notes of {len(data)} bytes")
    epoch_count, aborted_count, decided_end = NOTES.unpack_from(data)
    split = NOTES.size + EPOCH.size * epoch_count
    if split + ABORTED_BYTES * aborted_count != len(data):
        raise ValueError(f"{epoch_count} epochs and {aborted_count} aborted in {len(data)} bytes")
    epochs = list(EPOCH.iter_unpack(data[NOTES.size : split]))
    aborted = Aborted(*unpack_columns("qqqq", aborted_count, data[split:]))
    return Notes(epochs, aborted, decided_end)
