"""Batches that lose records: the same batch with fewer records, or with none.

    stays     base offset, last offset, leader epoch, producer, epoch, sequence, codec, attributes
    changes   count and bytes of the records; max_timestamp is the newest that is left;
              with a delete horizon bit 6 and base_timestamp, and the deltas, so that times stay
    empty     no codec and no horizon; max_timestamp stays, there is no record to take one from

Source: Kafka `MemoryRecords.filterTo`, `DefaultRecordBatch.writeEmptyHeader`, KIP-534. Departure:
without a new horizon deltas and base_timestamp stay, so that records are copied as bytes.
"""

from penstock.compaction.key_map import gather_records
from penstock.compaction.sifted import INT64_MAX, INT64_MIN, Sifted
from penstock.record.batch import CODEC_MASK, DELETE_HORIZON, BatchHeader
from penstock.record.build import BatchFields, assemble
from penstock.record.compression import NONE

_NO_TIMESTAMP = -1


def rewritten(
    header: BatchHeader, block: memoryview, sifted: Sifted, horizon_ms: int | None
) -> bytes:
    """Return the batch with the records that stay, and with a new horizon unless that is None."""
    base, attributes = header.base_timestamp, header.attributes
    if horizon_ms is not None:
        base, attributes = horizon_ms, attributes | DELETE_HORIZON
    newest = _as_int64(header.base_timestamp + sifted.newest_delta)
    fields = BatchFields(
        codec=header.codec,
        attributes=attributes & ~CODEC_MASK,
        base_offset=header.base_offset,
        last_offset_delta=header.last_offset_delta,
        base_timestamp=base,
        max_timestamp=header.max_timestamp if header.is_log_append_time else newest,
        producer_id=header.producer_id,
        producer_epoch=header.producer_epoch,
        base_sequence=header.base_sequence,
        record_count=sifted.kept,
    )
    left = gather_records(block, sifted.spans, _as_int64(header.base_timestamp - base))
    return assemble(fields, left, leader_epoch=header.leader_epoch)


def _as_int64(number: int) -> int:
    """Return the nearest number that an int64 holds."""
    return max(INT64_MIN, min(INT64_MAX, number))


def emptied(header: BatchHeader) -> bytes:
    """Return the batch without records."""
    fields = BatchFields(
        codec=NONE,
        attributes=header.attributes & ~CODEC_MASK & ~DELETE_HORIZON,
        base_offset=header.base_offset,
        last_offset_delta=header.last_offset_delta,
        base_timestamp=_NO_TIMESTAMP,
        max_timestamp=header.max_timestamp,
        producer_id=header.producer_id,
        producer_epoch=header.producer_epoch,
        base_sequence=header.base_sequence,
        record_count=0,
    )
    return assemble(fields, b"", leader_epoch=header.leader_epoch)
