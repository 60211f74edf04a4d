"""A whole batch as a producer must send it: header, compression and every record.

    check_batch ─► decompress_single, bounded ─► walk_records

The checksum is right by then, so what is wrong was made so: it is refused for good, with what is
wrong, and not as damage on the way, which a client would send again.

Source: Kafka `LogValidator.validateMessagesAndAssignOffsets`. Departures: `walk.py`, and a bound on
what a batch may unpack to, which Kafka has not.
"""

from typing import NamedTuple

from penstock.record.batch import BATCH_HEADER_BYTES, BatchHeader
from penstock.record.compiled import check_batch
from penstock.record.compression import CODEC_NAMES, NONE, Bounds
from penstock.record.errors import BatchTooLarge, CorruptBatch, InvalidRecord, UnpacksTooLarge
from penstock.record.single_frame import decompress_single
from penstock.record.walk import Times, walk_records


class Validated(NamedTuple):
    """A batch whose every record was looked at: the decompressed block and its times."""

    header: BatchHeader
    block: memoryview
    times: Times


def validate_records(batch: memoryview, bounds: Bounds) -> Validated:
    """Check a batch as a producer must send it, record by record.

    Raises the kinds of `check_batch`, InvalidRecord, UnpacksTooLarge.
    """
    header = check_batch(batch, 0, len(batch))
    block = unpack(header, batch[: header.size_bytes], bounds)
    times = walk_records(block, header.record_count, header.base_timestamp)
    return Validated(header, block, times)


def unpack(header: BatchHeader, batch: memoryview, bounds: Bounds) -> memoryview:
    """Return the records block of a batch that `check_batch` has passed.

    Raises InvalidRecord where it does not unpack, UnpacksTooLarge.
    """
    codec = header.codec
    data = batch[BATCH_HEADER_BYTES:]
    if codec == NONE:
        return data
    try:
        return decompress_single(codec, data, bounds)
    except CorruptBatch as error:
        raise InvalidRecord(f"{CODEC_NAMES[codec]}: {error.reason}") from error
    except BatchTooLarge as error:
        raise UnpacksTooLarge(len(data), error.limit) from error
