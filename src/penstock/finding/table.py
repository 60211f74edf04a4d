"""A table: a piece of the index as the bytes of a file that does not change any more.

    header       fixed size, with the range of the log, times, counts, and a checksum
    buckets      number of entries and their checksum, for each bucket
    partitions   topic id, number, highest offset, a checksum each
    entries      bucket by bucket, as in a piece

A look-up reads the header with the buckets, the entries of one bucket, and a row for each partition
in which there is something: 10 KiB, however large the table. What it reads it checks.

Source: ours, docs/formats/key-index.md.
"""

from collections.abc import Iterable, Iterator
from itertools import islice
from struct import Struct
from typing import Final, NamedTuple

from crc32c import crc32c

from penstock.base.ids import TopicId, TopicPartition
from penstock.base.ports import DiskFile
from penstock.finding.errors import DamagedTable
from penstock.finding.piece import BUCKET_BITS, ENTRY, Piece, Place, bucket_of, matches

MAGIC: Final = b"PSKX"
VERSION: Final = 1
SUFFIX: Final = ".keys"
BUCKET_ENTRIES: Final = 256
"""About as many entries has a bucket: small tables have fewer buckets."""
PARTITIONS_PER_READ: Final = 512

_HEADER = Struct(">4sHHQQiIIqqI")
_CRC = Struct(">I")
_BUCKET = Struct(">II")
_PARTITION = Struct(">16siq")
HEADER_BYTES: Final = _HEADER.size + _CRC.size
PARTITION_BYTES: Final = _PARTITION.size + _CRC.size


class Table(NamedTuple):
    """What is known of a table without its entries."""

    name: str
    first: int
    end: int
    """Positions of the log that it covers, from `first` to `end` (exclusive)."""
    epoch: int
    """Of the last frame in front of `end`."""
    bucket_bits: int
    partitions: int
    entries: int
    first_ms: int
    last_ms: int
    size: int
    """Bytes of the file."""


def name_of(first: int, end: int) -> str:
    """Return the name of the file, which tells the range even if the file is damaged."""
    return f"{first:020d}-{end:020d}{SUFFIX}"


def encode(piece: Piece) -> tuple[Table, list[bytes]]:
    """Return a piece as a table, and the parts of its bytes."""
    bits = _bits_for(piece.count)
    buckets = list(_joined(piece.buckets, BUCKET_BITS - bits))
    directory = b"".join(_BUCKET.pack(len(one) // ENTRY.size, crc32c(one)) for one in buckets)
    rows = [
        _checked(_PARTITION.pack(one.topic_id, one.partition, last))
        for one, last in zip(piece.partitions, piece.last_offsets, strict=True)
    ]
    head = _HEADER.pack(
        MAGIC,
        VERSION,
        bits,
        piece.first,
        piece.end,
        piece.epoch,
        len(rows),
        piece.count,
        piece.first_ms,
        piece.last_ms,
        crc32c(directory),
    )
    data = [_checked(head), directory, *rows, *buckets]
    table = Table(
        name_of(piece.first, piece.end),
        piece.first,
        piece.end,
        piece.epoch,
        bits,
        len(rows),
        piece.count,
        piece.first_ms,
        piece.last_ms,
        sum(map(len, data)),
    )
    return table, data


def read_table(file: DiskFile, name: str) -> Table:
    """Read the header of a file. Raises DamagedTable; OSError."""
    table, _ = _read_head(file, name)
    if table.size != file.size():
        raise DamagedTable(f"{name} has {file.size()} bytes in place of {table.size}")
    return table


def find_in(file: DiskFile, table: Table, name_hash: bytes, most: int) -> list[Place]:
    """Return up to `most` places of a hash, newest first. Raises DamagedTable; OSError."""
    read, directory = _read_head(file, table.name)
    if read != table:
        raise DamagedTable(f"{table.name} is another table")
    counts = list(_BUCKET.iter_unpack(directory))
    bucket = bucket_of(name_hash) >> (BUCKET_BITS - table.bucket_bits)
    before = sum(count for count, _ in counts[:bucket])
    count, crc = counts[bucket]
    at = _partitions_at(table) + table.partitions * PARTITION_BYTES + before * ENTRY.size
    entries = bytes(file.read(at, count * ENTRY.size)) if count else b""
    if len(entries) != count * ENTRY.size or (count and crc32c(entries) != crc):
        raise DamagedTable(f"bucket {bucket} of {table.name} is not what was written")
    found = list(islice(matches(entries, name_hash), most))
    partitions = {number: _partition(file, table, number) for number, _ in found}
    return [Place(partitions[number], offset) for number, offset in found]


def read_partitions(file: DiskFile, table: Table) -> Iterator[tuple[TopicPartition, int]]:
    """Yield the partitions, each with its highest offset. Raises DamagedTable; OSError."""
    for first in range(0, table.partitions, PARTITIONS_PER_READ):
        count = min(PARTITIONS_PER_READ, table.partitions - first)
        at = _partitions_at(table) + first * PARTITION_BYTES
        data = bytes(file.read(at, count * PARTITION_BYTES))
        for number in range(count):
            row = data[number * PARTITION_BYTES : (number + 1) * PARTITION_BYTES]
            yield _read_partition(row, table)


def _partitions_at(table: Table) -> int:
    return HEADER_BYTES + (_BUCKET.size << table.bucket_bits)


def _partition(file: DiskFile, table: Table, number: int) -> TopicPartition:
    at = _partitions_at(table) + number * PARTITION_BYTES
    return _read_partition(bytes(file.read(at, PARTITION_BYTES)), table)[0]


def _read_partition(row: bytes, table: Table) -> tuple[TopicPartition, int]:
    topic_id, partition, last = _PARTITION.unpack(_opened(row, PARTITION_BYTES, table.name))
    return TopicPartition(TopicId(topic_id), partition), last


def _read_head(file: DiskFile, name: str) -> tuple[Table, bytes]:
    data = bytes(file.read(0, HEADER_BYTES + (_BUCKET.size << BUCKET_BITS)))
    fields = _HEADER.unpack(_opened(data[:HEADER_BYTES], HEADER_BYTES, name))
    magic, version, bits, first, end, epoch, partitions, entries, first_ms, last_ms, crc = fields
    if magic != MAGIC or version != VERSION or bits > BUCKET_BITS:
        raise DamagedTable(f"{name} is no table of this release")
    if name != name_of(first, end):
        raise DamagedTable(f"{name} is that of positions {first} to {end}")
    directory = data[HEADER_BYTES : HEADER_BYTES + (_BUCKET.size << bits)]
    if crc32c(directory) != crc:
        raise DamagedTable(f"the buckets of {name} are not what was written")
    size = HEADER_BYTES + len(directory) + partitions * PARTITION_BYTES + entries * ENTRY.size
    table = Table(name, first, end, epoch, bits, partitions, entries, first_ms, last_ms, size)
    return table, directory


def _checked(data: bytes) -> bytes:
    return data + _CRC.pack(crc32c(data))


def _opened(data: bytes, size: int, name: str) -> bytes:
    """Return what stands in front of a checksum. Raises DamagedTable."""
    body, crc = data[: -_CRC.size], data[-_CRC.size :]
    if len(data) != size or _CRC.pack(crc32c(body)) != crc:
        raise DamagedTable(f"{name} is not what was written")
    return body


def _bits_for(count: int) -> int:
    bits = 0
    while bits < BUCKET_BITS and count >> bits > BUCKET_ENTRIES:
        bits += 1
    return bits


def _joined(buckets: Iterable[bytearray], shift: int) -> Iterator[bytes]:
    """Yield the buckets joined, so many to one."""
    every = list(buckets)
    step = 1 << shift
    for at in range(0, len(every), step):
        yield b"".join(every[at : at + step])
