"""Building batches: records in, one sealed batch out.

    record: length, attributes (1 byte, 0), timestamp delta, offset delta, key length, key,
            value length, value, header count, { key length, key, value length, value }
            every number a varint; length -1 stands for null

The base timestamp is that of the first record, max_timestamp the largest; offsets count from 0, as
a broker stamps the real base offset. `batch.py` describes the fields of the header.

Source: Kafka `DefaultRecord.writeTo`, `MemoryRecordsBuilder`, KIP-98.
It deliberately does not decide when a batch is full: see the producer in the client room.
"""

from collections.abc import Callable, Sequence
from struct import Struct
from typing import NamedTuple

from crc32c import crc32c

from penstock.record.batch import BATCH_HEADER_BYTES, CHECKED_AT, CRC_AT, LOG_OVERHEAD, MAGIC
from penstock.record.compression import compress
from penstock.record.errors import InvalidTimestamp
from penstock.record.varint import varint_bytes, write_varint

Header = tuple[str, bytes | None]

INT64_MAX = (1 << 63) - 1
RECORD_OVERHEAD_MAX = 41
"""Bytes of a record besides key, value and headers at most: six varints and the attributes."""

_ONE_BYTE_LENGTHS = 64
"""Lengths below are a varint of one byte; nearly all names of headers are so short."""
_HEADER = Struct(">qiibIhiqqqhii")
_CRC = Struct(">I")
_NO_LEADER_EPOCH = -1


class Record(NamedTuple):
    """One record to be written; time in ms since 1970. None is null, and differs from empty."""

    key: bytes | None
    value: bytes | None
    headers: tuple[Header, ...] = ()
    timestamp_ms: int = 0


_Encoder = Callable[[Sequence[Record], int], bytearray]
COMPILED_ENCODER: _Encoder | None
try:
    from penstock.record._encode import encode_records as _compiled_encode_records
except ImportError:  # no C compiler at installation
    COMPILED_ENCODER = None
else:
    COMPILED_ENCODER = _compiled_encode_records


class BatchFields(NamedTuple):
    """The fields of a header that do not follow from the records block (`BatchHeader`)."""

    codec: int
    attributes: int
    base_offset: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int


def build_batch(  # noqa: PLR0913  the fields of the format
    records: Sequence[Record],
    *,
    codec: int = 0,
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = -1,
    attributes: int = 0,
    base_offset: int = 0,
) -> bytes:
    """Return one sealed batch with `records` at offsets from `base_offset` on, in their order.

    `attributes` are bits above the codec (transactional, control). Raises UnsupportedCodec,
    InvalidTimestamp.
    """
    assert records, "a batch has at least one record"
    base_timestamp = records[0].timestamp_ms
    times = [record.timestamp_ms for record in records]
    latest = max(times)
    if latest - base_timestamp > INT64_MAX or min(times) - base_timestamp < -INT64_MAX:
        raise InvalidTimestamp("times in one batch are further apart than an int64 can hold")
    payload = (COMPILED_ENCODER or encode_records)(records, base_timestamp)
    fields = BatchFields(
        codec=codec,
        attributes=attributes,
        base_offset=base_offset,
        last_offset_delta=len(records) - 1,
        base_timestamp=base_timestamp,
        max_timestamp=latest,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
        record_count=len(records),
    )
    return assemble(fields, payload)


def assemble(
    fields: BatchFields,
    payload: bytes | bytearray | memoryview,
    level: int | None = None,
    *,
    leader_epoch: int = _NO_LEADER_EPOCH,
) -> bytes:
    """Return the sealed batch of an uncompressed records block. Raises UnsupportedCodec."""
    block = compress(fields.codec, payload, level) if fields.codec else payload
    header = bytearray(
        _HEADER.pack(
            fields.base_offset,
            BATCH_HEADER_BYTES - LOG_OVERHEAD + len(block),
            leader_epoch,
            MAGIC,
            0,
            fields.attributes | fields.codec,
            *fields[3:],
        )
    )
    crc = crc32c(block, crc32c(memoryview(header)[CHECKED_AT:]))
    _CRC.pack_into(header, CRC_AT, crc)
    return b"".join((header, block))


def encode_records(records: Sequence[Record], base_timestamp: int) -> bytearray:
    """Return the uncompressed records block of `records`, offset deltas from 0 on.

    The Python twin of `_encode.pyx`.
    """
    payload = bytearray()
    for delta, record in enumerate(records):
        append_record(payload, record, record.timestamp_ms - base_timestamp, delta)
    return payload


def append_record(payload: bytearray, record: Record, timestamp_delta: int, delta: int) -> None:
    """Append one record with its deltas to an uncompressed records block."""
    body = bytearray(1)
    write_varint(body, timestamp_delta)
    write_varint(body, delta)
    _append_bytes(body, record.key)
    _append_bytes(body, record.value)
    write_varint(body, len(record.headers))
    for name, value in record.headers:
        _append_bytes(body, name.encode())
        _append_bytes(body, value)
    write_varint(payload, len(body))
    payload += body


def record_bytes_max(record: Record) -> int:
    """Return an upper bound of the bytes that `append_record` appends for `record`."""
    size = RECORD_OVERHEAD_MAX + len(record.key or b"") + len(record.value or b"")
    for name, value in record.headers:
        encoded = len(name) if name.isascii() else len(name.encode())
        told = 1 if encoded < _ONE_BYTE_LENGTHS else varint_bytes(encoded)
        size += told + encoded + 5 + len(value or b"")
    return size


def _append_bytes(out: bytearray, data: bytes | None) -> None:
    if data is None:
        out.append(1)
        return
    write_varint(out, len(data))
    out += data
