"""Reading batches: the runs that a broker sends, the records of one batch, and their rules.

A fetch answer has batches one after another; the last one may be cut off by the requested size, and
is left out. Records are checked as they are read: a wrong length, count or offset raises
CorruptBatch, so that no damage can lead to reads outside of the buffer.

Source: Kafka `DefaultRecordBatch.iterator`, `DefaultRecord.readFrom`, `ByteBufferLogInputStream`.
Departures: offset deltas must rise and stay within the batch (Kafka does not check on reading).
It deliberately does not filter by transaction: see committed.py.
"""

from collections.abc import Iterator
from struct import Struct
from typing import NamedTuple

from crc32c import crc32c

from penstock.record.batch import (
    BATCH_HEADER_BYTES,
    CHECKED_AT,
    LOG_OVERHEAD,
    MAGIC,
    BatchHeader,
    read_header,
)
from penstock.record.compression import READER_BOUNDS, Bounds, decompress
from penstock.record.errors import CorruptBatch, RecordError, UnreadableBatch, UnsupportedMagic
from penstock.record.varint import read_varint

try:
    from penstock.record._record import record_at as _compiled
except ImportError:  # no C compiler at installation
    COMPILED = None
else:
    COMPILED = _compiled
"""The twin of `record_at` for records that are as they should be; None of all others."""

INT64_MAX = (1 << 63) - 1
_LENGTH = Struct(">i")
_MAGIC_AT = 16


class DecodedRecord(NamedTuple):
    """One record as read; `timestamp_ms` is that of the broker under log append time."""

    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]


class RawRecord(NamedTuple):
    """Where the parts of a record are in its block: (start, end) each; None is null."""

    timestamp_delta: int
    offset_delta: int
    key: tuple[int, int] | None
    value: tuple[int, int] | None
    headers_at: int
    end: int


def iter_batches(data: memoryview) -> Iterator[tuple[BatchHeader, memoryview]]:
    """Yield header and bytes of each whole batch of a run; a cut-off last one is left out.

    The CRC is not checked: see `open_batch`. Raises CorruptBatch, UnsupportedMagic.
    """
    at, end = 0, len(data)
    while end - at > _MAGIC_AT:
        (length,) = _LENGTH.unpack_from(data, at + 8)
        if data[at + _MAGIC_AT] != MAGIC:
            raise UnsupportedMagic(data[at + _MAGIC_AT])
        stop = at + LOG_OVERHEAD + length
        if stop < at + BATCH_HEADER_BYTES:
            raise CorruptBatch(f"batch length {length} is below that of a header")
        if stop > end:
            return
        yield read_header(data, at), data[at:stop]
        at = stop


def run_end(data: memoryview, otherwise: int) -> int:
    """Return the offset after the last whole batch of a run (exclusive), `otherwise` if none."""
    for header, _ in iter_batches(data):
        otherwise = header.last_offset + 1
    return otherwise


def open_batch(header: BatchHeader, batch: memoryview, bounds: Bounds) -> memoryview:
    """Check a stored batch, and return its records block, decompressed.

    Unlike `check_batch` this accepts what compaction leaves: gaps, and batches without records.
    Raises CorruptBatch, BatchTooLarge, UnsupportedCodec.
    """
    if crc32c(batch[CHECKED_AT:]) != header.crc:
        raise CorruptBatch("CRC does not match")
    delta, count = header.last_offset_delta, header.record_count
    if delta < 0 or not 0 <= count <= delta + 1:
        raise CorruptBatch(f"record count {count} with last offset delta {delta}")
    if not 0 <= header.base_offset <= INT64_MAX - delta - 1:
        raise CorruptBatch(f"base offset {header.base_offset}")
    return decompress(header.codec, batch[BATCH_HEADER_BYTES:], bounds)


def iter_records(batch: memoryview, bounds: Bounds = READER_BOUNDS) -> Iterator[DecodedRecord]:
    """Yield the records of one stored batch, copied out of it; control batches too.

    Raises RecordError kinds, also after some records were yielded.
    """
    header = read_header(batch)
    if header.magic != MAGIC:
        raise UnsupportedMagic(header.magic)
    if header.size_bytes != len(batch):
        raise CorruptBatch(f"batch length {header.batch_length} in {len(batch)} bytes")
    block = open_batch(header, batch, bounds)
    at, previous = 0, -1
    for _ in range(header.record_count):
        usual = COMPILED and COMPILED(DecodedRecord, block, at, header, previous)
        record, previous, at = usual or record_at(block, at, header, previous)
        yield record
    if at != len(block):
        raise CorruptBatch(f"{len(block) - at} bytes follow the last record")


def record_at(
    block: memoryview, at: int, header: BatchHeader, previous: int
) -> tuple[DecodedRecord, int, int]:
    """Return the record at byte `at`, its offset delta, and its end.

    `previous` is the offset delta of the record before it, or -1. Raises CorruptBatch.
    """
    raw = read_raw(block, at)
    _check_follows(header, raw, previous)
    record = DecodedRecord(
        header.base_offset + raw.offset_delta,
        record_timestamp(header, raw.timestamp_delta),
        part(block, raw.key),
        part(block, raw.value),
        tuple(read_headers(block, raw.headers_at, raw.end)),
    )
    return record, raw.offset_delta, raw.end


def _check_follows(header: BatchHeader, raw: RawRecord, previous: int) -> None:
    if not previous < raw.offset_delta <= header.last_offset_delta:
        raise CorruptBatch(f"offset delta {raw.offset_delta} after {previous}")


def whole_batch(header: BatchHeader, batch: memoryview) -> list[DecodedRecord]:
    """Return all records of one stored batch. Raises UnreadableBatch."""
    try:
        return list(iter_records(batch))
    except RecordError as error:
        raise unreadable(header, batch, error) from error


def unreadable(header: BatchHeader, batch: memoryview, error: RecordError) -> UnreadableBatch:
    """Return the UnreadableBatch for a batch that cannot be read because of `error`."""
    return UnreadableBatch(bytes(batch), (header.base_offset, header.last_offset), str(error))


def record_timestamp(header: BatchHeader, delta: int) -> int:
    """Return the time of a record in ms, clamped to an int64."""
    if header.is_log_append_time:
        return header.max_timestamp
    return max(-INT64_MAX - 1, min(INT64_MAX, header.base_timestamp + delta))


def iter_raw(header: BatchHeader, block: memoryview) -> Iterator[RawRecord]:
    """Yield the positions of the records of a decompressed block; headers are not read.

    Raises CorruptBatch when lengths, offsets or the number of records do not hold.
    """
    at = 0
    previous = -1
    for _ in range(header.record_count):
        raw = read_raw(block, at)
        _check_follows(header, raw, previous)
        previous, at = raw.offset_delta, raw.end
        yield raw
    if at != len(block):
        raise CorruptBatch(f"{len(block) - at} bytes follow the last record")


def read_raw(block: memoryview, at: int) -> RawRecord:
    """Return the positions of the parts of the record at byte `at`. Raises CorruptBatch."""
    length, at = read_varint(block, at, len(block))
    end = at + length
    if length < 1 or end > len(block):
        raise CorruptBatch(f"record of {length} bytes in {len(block) - at} bytes")
    timestamp_delta, at = read_varint(block, at + 1, end)
    offset_delta, at = read_varint(block, at, end)
    key, at = read_part(block, at, end)
    value, at = read_part(block, at, end)
    return RawRecord(timestamp_delta, offset_delta, key, value, at, end)


def read_part(block: memoryview, at: int, end: int) -> tuple[tuple[int, int] | None, int]:
    """Read a length and step over that many bytes; -1 is null. Raises CorruptBatch."""
    length, at = read_varint(block, at, end)
    if length == -1:
        return None, at
    if length < 0 or length > end - at:
        raise CorruptBatch(f"field of {length} bytes in {end - at} bytes")
    return (at, at + length), at + length


def part(block: memoryview, span: tuple[int, int] | None) -> bytes | None:
    """Copy a part of a record out of its block."""
    return None if span is None else bytes(block[span[0] : span[1]])


def iter_header_parts(
    block: memoryview, at: int, end: int
) -> Iterator[tuple[tuple[int, int], tuple[int, int] | None]]:
    """Yield the positions of name and value of each header of a record. Raises CorruptBatch."""
    count, at = read_varint(block, at, end)
    if not 0 <= count <= (end - at) // 2:
        raise CorruptBatch(f"{count} headers in {end - at} bytes")
    for _ in range(count):
        name, at = read_part(block, at, end)
        if name is None:
            raise CorruptBatch("a header without a name")
        value, at = read_part(block, at, end)
        yield name, value
    if at != end:
        raise CorruptBatch(f"{end - at} bytes follow the headers of a record")


def read_headers(block: memoryview, at: int, end: int) -> Iterator[tuple[str, bytes | None]]:
    """Yield the headers of a record. Raises CorruptBatch.

    In a name that is not UTF-8, invalid bytes become U+FFFD, as in Kafka's Java client.
    """
    for name, value in iter_header_parts(block, at, end):
        yield str(block[name[0] : name[1]], "utf-8", "replace"), part(block, value)
