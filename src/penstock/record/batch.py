"""The header of a record batch (magic 2): read, check, stamp. The records stay bytes.

    at  width  field
     0      8  base_offset            stamped by the broker, outside of the CRC
     8      4  batch_length           bytes that follow this field
    12      4  leader_epoch           stamped by the broker, outside of the CRC
    16      1  magic                  2
    17      4  crc                    CRC-32C over everything from byte 21 on
    21      2  attributes             bits 0-2 codec, 3 log append time, 4 transactional, 5 control,
                                      6 delete horizon
    23      4  last_offset_delta
    27      8  base_timestamp         ms; that of the first record, or the delete horizon
    35      8  max_timestamp          ms
    43      8  producer_id            -1 none
    51      2  producer_epoch
    53      4  base_sequence
    57      4  record_count
    61         records, compressed as one block when a codec is set

The idea: a batch is opaque to the broker. It is checked once, stamped in place, and from then on
moves as bytes. A record's time is base_timestamp and its delta, whatever the base stands for.
`check_batch` is on the produce path: one struct, one CRC, comparisons of ints.

Source: Kafka `DefaultRecordBatch`, KIP-98 (message format), KIP-534 (delete horizon), checks
as in `DefaultRecordBatch.ensureValid`, `LogValidator.validateBatch` and
`ProduceRequest.validateRecords`. The records themselves are checked in `walk.py`.

It deliberately does not know topics, bounds of timestamps, or who sent the bytes.
"""

from struct import Struct
from typing import NamedTuple

from crc32c import crc32c

from penstock.base.ids import LeaderEpoch, ProducerEpoch, ProducerId
from penstock.record.errors import (
    CorruptBatch,
    InvalidRecord,
    InvalidTimestamp,
    UnsupportedCodec,
    UnsupportedMagic,
)

LOG_OVERHEAD = 12
"""Bytes of base_offset and batch_length, which `batch_length` does not count."""

BATCH_HEADER_BYTES = 61
MAGIC = 2

CODEC_MASK = 0x07
LOG_APPEND_TIME = 0x08
TRANSACTIONAL = 0x10
ATTRIBUTES_AT = 22
"""Where the byte of the attributes is that has all of these bits."""
CONTROL = 0x20
DELETE_HORIZON = 0x40
TRANSACTIONAL_OR_CONTROL = TRANSACTIONAL | CONTROL
LAST_CODEC = 4

NO_SEQUENCE = -1
SEQUENCE_MODULUS = 1 << 31
"""Sequences of a producer go from 0 to 2^31 - 1 and then start again at 0."""

RECORD_BYTES_MIN = 7
"""The shortest record: length, attributes, two deltas, two lengths, header count, a byte each."""

CRC_AT = 17
CHECKED_AT = 21
_MAGIC_AT = 16
_LEADER_EPOCH_AT = 12
_MAX_TIMESTAMP_AT = 35
_PRODUCER_AT = 43

_HEADER = Struct(">qiibIhiqqqhii")
_PRODUCER = Struct(">qhi")
_INT64 = Struct(">q")
_INT32 = Struct(">i")
_UINT32 = Struct(">I")
_INT16 = Struct(">h")

assert _HEADER.size == BATCH_HEADER_BYTES


class BatchHeader(NamedTuple):
    """The 13 fields in the order of the wire. `base_offset` is inclusive; times are ms."""

    base_offset: int
    batch_length: int
    leader_epoch: LeaderEpoch
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: ProducerId
    producer_epoch: ProducerEpoch
    base_sequence: int
    record_count: int

    @property
    def codec(self) -> int:
        """0 none, 1 gzip, 2 snappy, 3 lz4, 4 zstd."""
        return self.attributes & CODEC_MASK

    @property
    def is_log_append_time(self) -> bool:
        return self.attributes & LOG_APPEND_TIME != 0

    @property
    def is_transactional(self) -> bool:
        return self.attributes & TRANSACTIONAL != 0

    @property
    def is_control(self) -> bool:
        return self.attributes & CONTROL != 0

    @property
    def delete_horizon_ms(self) -> int | None:
        """From when on cleaning drops the batch's tombstones, or its marker; None: not set yet."""
        return self.base_timestamp if self.attributes & DELETE_HORIZON else None

    @property
    def size_bytes(self) -> int:
        """The whole batch, from base_offset to the end of its records."""
        return LOG_OVERHEAD + self.batch_length

    @property
    def last_offset(self) -> int:
        """Offset of the last record, inclusive."""
        return self.base_offset + self.last_offset_delta

    @property
    def last_sequence(self) -> int:
        """Sequence of the last record, wrapped at 2^31; -1 without an idempotent producer."""
        if self.base_sequence < 0:
            return NO_SEQUENCE
        return (self.base_sequence + self.last_offset_delta) % SEQUENCE_MODULUS


_unpack = _HEADER.unpack_from
_new_tuple = tuple.__new__


def read_header(buffer: memoryview, at: int = 0) -> BatchHeader:
    """Read the header at `at`; only its length is checked.

    Raises CorruptBatch when fewer than 61 bytes follow.
    """
    if len(buffer) - at < BATCH_HEADER_BYTES:
        raise CorruptBatch(f"{len(buffer) - at} bytes are too few for a header")
    return _new_tuple(BatchHeader, _unpack(buffer, at))


def check_batch(buffer: memoryview, at: int, end: int) -> BatchHeader:
    """Check the batch that begins at byte `at` and must lie below byte `end`; return its header.

    Bytes that follow the batch before `end` are not examined: compare `size_bytes`. Control batches
    and rules for clients are up to `check_from_client`.
    Raises CorruptBatch, UnsupportedMagic, UnsupportedCodec, InvalidRecord.
    """
    if end - at < BATCH_HEADER_BYTES:
        raise _too_short(buffer, at, end)
    header = _new_tuple(BatchHeader, _unpack(buffer, at))
    _, length, _, magic, crc, attributes, delta, _, _, producer_id, epoch, sequence, count = header
    if magic != MAGIC:
        raise UnsupportedMagic(magic)
    stop = at + LOG_OVERHEAD + length
    if stop > end or stop < at + BATCH_HEADER_BYTES:
        raise CorruptBatch(f"batch length {length} does not fit {end - at - LOG_OVERHEAD} bytes")
    if crc32c(buffer[at + CHECKED_AT : stop]) != crc:
        raise CorruptBatch("CRC does not match")
    if count < 1 or delta != count - 1:
        raise InvalidRecord(f"record count {count} with last offset delta {delta}")
    codec = attributes & CODEC_MASK
    if codec > LAST_CODEC:
        raise UnsupportedCodec(codec)
    if codec == 0 and count * RECORD_BYTES_MIN > stop - at - BATCH_HEADER_BYTES:
        raise InvalidRecord(f"{count} records do not fit {length} bytes")
    if producer_id >= 0 and (epoch < 0 or sequence < 0) and not attributes & CONTROL:
        raise InvalidRecord(f"producer id {producer_id} with epoch {epoch}, sequence {sequence}")
    return header


def check_from_client(header: BatchHeader) -> None:
    """Refuse what only a broker may write: control batches, log append time, a delete horizon.

    Raises InvalidRecord, InvalidTimestamp.
    """
    refused = header.attributes & (CONTROL | LOG_APPEND_TIME | DELETE_HORIZON)
    if not refused:
        return
    if refused & CONTROL:
        raise InvalidRecord("clients may not write control batches")
    if refused & DELETE_HORIZON:
        raise InvalidRecord("producers may not set a delete horizon")
    raise InvalidTimestamp("producers may not set log append time")


def stamp(buffer: memoryview, at: int, *, base_offset: int, leader_epoch: int) -> None:
    """Write base offset and leader epoch into the batch at `at`; the CRC does not cover them."""
    _INT64.pack_into(buffer, at, base_offset)
    _INT32.pack_into(buffer, at + _LEADER_EPOCH_AT, leader_epoch)


def stamp_log_append_time(buffer: memoryview, at: int, timestamp_ms: int) -> None:
    """Give the whole batch one timestamp: set bit 3 and max_timestamp, and recompute the CRC.

    Readers then take max_timestamp for every record. The batch must have been checked.
    Source: Kafka `DefaultRecordBatch.setMaxTimestamp`.
    """
    (length,) = _INT32.unpack_from(buffer, at + 8)
    (attributes,) = _INT16.unpack_from(buffer, at + CHECKED_AT)
    _INT16.pack_into(buffer, at + CHECKED_AT, attributes | LOG_APPEND_TIME)
    _INT64.pack_into(buffer, at + _MAX_TIMESTAMP_AT, timestamp_ms)
    seal(buffer, at, at + LOG_OVERHEAD + length)


def stamp_max_timestamp(buffer: memoryview, at: int, timestamp_ms: int) -> None:
    """Put the newest time of the records into the header, and recompute the CRC."""
    (length,) = _INT32.unpack_from(buffer, at + 8)
    _INT64.pack_into(buffer, at + _MAX_TIMESTAMP_AT, timestamp_ms)
    seal(buffer, at, at + LOG_OVERHEAD + length)


def stamp_producer(
    buffer: memoryview, *, producer_id: int, producer_epoch: int, base_sequence: int
) -> None:
    """Write producer id, epoch and first sequence of the batch in `buffer`; recompute the CRC."""
    _PRODUCER.pack_into(buffer, _PRODUCER_AT, producer_id, producer_epoch, base_sequence)
    seal(buffer, 0, len(buffer))


def seal(buffer: memoryview, at: int, end: int) -> None:
    """Compute the CRC of the batch in bytes [at, end) and write it into its header."""
    _UINT32.pack_into(buffer, at + CRC_AT, crc32c(buffer[at + CHECKED_AT : end]))


def _too_short(buffer: memoryview, at: int, end: int) -> CorruptBatch | UnsupportedMagic:
    """Tell old message formats, which may be shorter than our header, from damaged batches."""
    if end - at > _MAGIC_AT and buffer[at + _MAGIC_AT] != MAGIC:
        return UnsupportedMagic(buffer[at + _MAGIC_AT])
    return CorruptBatch(f"{end - at} bytes are too few for a batch")
