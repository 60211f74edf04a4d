"""The side file: the active segment's index on disk, so that a start does not read the segment.

    block   header 48 bytes, big-endian: magic "PSSF", version u16 (1 or 2), 2 zero, topic id 16,
            partition i32, count u32, end offset i64, crc32c u32 of what follows the header,
            crc32c u32 of the 44 before; then a block as in a sealed index. In version 2 the count
            u32 of aborted transactions and 4 zero come before it; it is written if there are some

Append-only. Each snapshot appends, in one write, the entries that each partition has gained since
the last one, so an append of a batch costs nothing. The snapshot has the number of valid bytes.

Source: docs/adr/0002-storage.md. If a side file is damaged the segment is read instead.
"""

from collections.abc import Iterable, Iterator
from struct import Struct

from crc32c import crc32c

from penstock.base.ids import Position, TopicPartition
from penstock.storage.errors import CorruptFile
from penstock.storage.index.sealed_index import (
    Sealed,
    block_bytes,
    decode_aborted,
    decode_columns,
    encode_block,
)

HEADER = Struct(">4sH2x16siIqI")
COUNT = Struct(">I4x")
CRC = Struct(">I")
MAGIC = b"PSSF"
VERSION = 2
PLAIN_VERSION = 1
HEADER_BYTES = HEADER.size + CRC.size

assert HEADER_BYTES == 48


def side_path(directory: str, base: Position, side_number: int) -> str:
    """Return the path of a side file of the segment that begins at `base`."""
    return f"{directory}/index/{base:020d}-{side_number:08d}.side"


def encode_side(parts: Iterable[tuple[TopicPartition, Sealed]]) -> bytes:
    """Return the blocks of the given columns, one for each partition."""
    pieces: list[bytes] = []
    for (topic_id, partition), sealed in parts:
        block = encode_block(sealed)
        count, end_offset = len(sealed.columns.bases), sealed.end_offset
        aborted = len(sealed.aborted.last_offsets)
        version = VERSION if aborted else PLAIN_VERSION
        if aborted:
            block = COUNT.pack(aborted) + block
        header = HEADER.pack(MAGIC, version, topic_id, partition, count, end_offset, crc32c(block))
        pieces += (header, CRC.pack(crc32c(header)), block)
    return b"".join(pieces)


def decode_side(path: str, data: memoryview) -> Iterator[tuple[TopicPartition, Sealed]]:
    """Yield the partition of each block, and what it has of it. Raises CorruptFile."""
    at = 0
    while at < len(data):
        head = data[at : at + HEADER_BYTES]
        if len(head) < HEADER_BYTES or crc32c(head[: HEADER.size]) != CRC.unpack(head[-4:])[0]:
            raise CorruptFile(path, "block header checksum does not agree")
        magic, version, topic_id, partition, count, end_offset, crc = HEADER.unpack_from(head)
        if magic != MAGIC or version not in {PLAIN_VERSION, VERSION}:
            raise CorruptFile(path, f"magic {magic!r}, version {version}")
        at += HEADER_BYTES
        aborted, before = _aborted(path, data[at:]) if version == VERSION else (0, 0)
        size = before + block_bytes(count, aborted)
        block = data[at : at + size]
        if len(block) != size or crc32c(block) != crc:
            raise CorruptFile(path, "columns checksum does not agree")
        block = block[before:]
        columns = decode_columns(block, count)
        sealed = Sealed(columns, end_offset, decode_aborted(block, count, aborted))
        yield TopicPartition(topic_id, partition), sealed
        at += size


def _aborted(path: str, data: memoryview) -> tuple[int, int]:
    """Return the count of aborted transactions, and the bytes that it takes."""
    if len(data) < COUNT.size:
        raise CorruptFile(path, "a block is too short")
    return COUNT.unpack_from(data)[0], COUNT.size
