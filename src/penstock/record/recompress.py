"""Changing the codec of a batch, for topics whose `compression.type` is not `producer`.

The records stay byte for byte. Header fields stay except codec, length, CRC and max_timestamp,
which is computed from the records. Every record is checked first, since the broker is responsible
for the new batch.

Source: Kafka `LogValidator.validateMessagesAndAssignOffsetsCompressed`.
It deliberately does not rebuild records, so base timestamp and deltas are the producer's.
"""

from penstock.record.batch import CODEC_MASK
from penstock.record.build import BatchFields, assemble
from penstock.record.validate import Validated


def rebuild(validated: Validated, codec: int, level: int | None = None) -> bytes:
    """Return a validated batch with its records compressed by `codec`; 0 means uncompressed.

    `level` is the codec's as Kafka counts them; None is its default.

    Raises UnsupportedCodec.
    """
    header, block, times, _ = validated
    fields = BatchFields(
        codec=codec,
        attributes=header.attributes & ~CODEC_MASK,
        base_offset=header.base_offset,
        last_offset_delta=header.last_offset_delta,
        base_timestamp=header.base_timestamp,
        max_timestamp=header.max_timestamp if header.is_log_append_time else times.newest_ms,
        producer_id=header.producer_id,
        producer_epoch=header.producer_epoch,
        base_sequence=header.base_sequence,
        record_count=header.record_count,
    )
    return assemble(fields, block, level)
