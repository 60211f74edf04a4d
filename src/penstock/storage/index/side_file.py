"""The side file: the active segment's index on disk, so that a start does not read the segment.

    block   header 48 bytes, big-endian: magic "PSSF", version u16, 2 zero, topic id 16,
            partition i32, count u32, end offset i64, crc32c u32 of the columns,
            crc32c u32 of the 44 before; then the columns as in a sealed index

Append-only. Each snapshot appends, in one write, the entries that each partition has gained since
the last one, so an append of a batch costs nothing. The snapshot has the number of valid bytes.

Source: docs/adr/0002-storage.md. If a side file is damaged the segment is read instead.
"""

from collections.abc import Iterable, Iterator
from struct import Struct

from crc32c import crc32c

from penstock.base.ids import TopicPartition
from penstock.storage.errors import CorruptFile
from penstock.storage.index.partition_log import Columns
from penstock.storage.index.sealed_index import Sealed, block_bytes, decode_columns, encode_columns

HEADER = Struct(">4sH2x16siIqI")
CRC = Struct(">I")
MAGIC = b"PSSF"
VERSION = 1
HEADER_BYTES = HEADER.size + CRC.size

assert HEADER_BYTES == 48


def side_path(directory: str, base: int, side_number: int) -> str:
    """Return the path of a side file of the segment that begins at `base`."""
    return f"{directory}/index/{base:020d}-{side_number:08d}.side"


def encode_side(parts: Iterable[tuple[TopicPartition, Sealed]]) -> bytes:
    """Return the blocks of the given columns, one for each partition."""
    pieces: list[bytes] = []
    for (topic_id, partition), (columns, end_offset) in parts:
        block = encode_columns(columns)
        count = len(columns.bases)
        header = HEADER.pack(MAGIC, VERSION, topic_id, partition, count, end_offset, crc32c(block))
        pieces += (header, CRC.pack(crc32c(header)), block)
    return b"".join(pieces)


def decode_side(path: str, data: memoryview) -> Iterator[tuple[TopicPartition, Columns, int]]:
    """Yield (partition, columns, end offset) of each block. Raises CorruptFile."""
    at = 0
    while at < len(data):
        head = data[at : at + HEADER_BYTES]
        if len(head) < HEADER_BYTES or crc32c(head[: HEADER.size]) != CRC.unpack(head[-4:])[0]:
            raise CorruptFile(path, "block header checksum does not agree")
        magic, version, topic_id, partition, count, end_offset, crc = HEADER.unpack_from(head)
        if magic != MAGIC or version != VERSION:
            raise CorruptFile(path, f"magic {magic!r}, version {version}")
        at += HEADER_BYTES
        block = data[at : at + block_bytes(count)]
        if len(block) != block_bytes(count) or crc32c(block) != crc:
            raise CorruptFile(path, "columns checksum does not agree")
        yield TopicPartition(topic_id, partition), decode_columns(block, count), end_offset
        at += len(block)
