"""Validating a producer's batch: header, compression and every record.

    check_batch ─► decompress_single, bounded ─► walk_records

After `check_batch` the checksum is right, so any other error was made by the producer: it is
reported as InvalidRecord, with the reason, and not as damage, which a client would send again.

Source: Kafka `LogValidator.validateMessagesAndAssignOffsets`. Departures: those of `walk.py`, and a
bound on the decompressed size, which Kafka does not have.
"""

from typing import NamedTuple

from penstock.record.batch import BATCH_HEADER_BYTES, BatchHeader
from penstock.record.compiled import check_batch
from penstock.record.compression import CODEC_NAMES, NONE, Bounds, Lend, lend_new
from penstock.record.errors import BatchTooLarge, CorruptBatch, InvalidRecord, UnpacksTooLarge
from penstock.record.single_frame import decompress_single
from penstock.record.walk import Keyless, Times, walk_records


class Validated(NamedTuple):
    """A batch whose records were all checked: the decompressed block and its times."""

    header: BatchHeader
    block: memoryview
    times: Times
    keyless: Keyless | None = None
    """Which records lack a key, where keys are needed."""


def validate_records(
    batch: memoryview, bounds: Bounds, lend: Lend = lend_new, *, needs_keys: bool = False
) -> Validated:
    """Check a batch as a producer must send it, record by record, in memory from `lend`.

    Records without a key are found with `needs_keys`, and not refused here.
    Raises the kinds of `check_batch`, InvalidRecord, UnpacksTooLarge.
    """
    header = check_batch(batch, 0, len(batch))
    block = unpack(header, batch[: header.size_bytes], bounds, lend)
    times, keyless = walk_records(
        block, header.record_count, header.base_timestamp, needs_keys=needs_keys
    )
    return Validated(header, block, times, keyless)


def unpack(
    header: BatchHeader, batch: memoryview, bounds: Bounds, lend: Lend = lend_new
) -> memoryview:
    """Return the records block of a batch that `check_batch` has passed, in memory from `lend`.

    Raises InvalidRecord if it cannot be decompressed, UnpacksTooLarge.
    """
    codec = header.codec
    data = batch[BATCH_HEADER_BYTES:]
    if codec == NONE:
        return data
    try:
        return decompress_single(codec, data, bounds, lend)
    except CorruptBatch as error:
        raise InvalidRecord(f"{CODEC_NAMES[codec]}: {error.reason}") from error
    except BatchTooLarge as error:
        raise UnpacksTooLarge(len(data), error.limit) from error
