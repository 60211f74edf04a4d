"""A whole batch as a producer must send it: header, compression and every record.

    check_batch ─► decompress, bounded ─► walk_records

The checksum is right by then, so what is wrong was made so: it is refused for good, with what is
wrong, and not as damage on the way, which a client would send again.

Source: Kafka `LogValidator.validateMessagesAndAssignOffsets`. Departures: `walk.py`, and a bound on
what a batch may unpack to, which Kafka has not.
"""

from typing import NamedTuple

from penstock.record.batch import BATCH_HEADER_BYTES, BatchHeader
from penstock.record.compiled import check_batch
from penstock.record.compression import CODEC_NAMES, LZ4, Bounds, decompress
from penstock.record.errors import BatchTooLarge, CorruptBatch, InvalidRecord, UnpacksTooLarge
from penstock.record.walk import Times, walk_records

_LZ4_FLAGS_AT = 4
_LZ4_BLOCKS_STAND_ALONE = 0x20
_LZ4_DICTIONARY_OR_RESERVED = 0x03


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
    if codec == LZ4 and len(data) > _LZ4_FLAGS_AT:
        _check_lz4_frame(data[_LZ4_FLAGS_AT])
    try:
        return decompress(codec, data, bounds)
    except CorruptBatch as error:
        raise InvalidRecord(f"{CODEC_NAMES[codec]}: {error.reason}") from error
    except BatchTooLarge as error:
        raise UnpacksTooLarge(len(data), error.limit) from error


def _check_lz4_frame(flags: int) -> None:
    """Refuse what Java's reader does not take: then no Java consumer gets beyond the batch.

    Source: Kafka `Lz4BlockInputStream`, "Dependent block stream is unsupported".
    """
    if not flags & _LZ4_BLOCKS_STAND_ALONE:
        raise InvalidRecord("lz4: its blocks depend on each other, which Kafka does not allow")
    if flags & _LZ4_DICTIONARY_OR_RESERVED:
        raise InvalidRecord("lz4: it needs a dictionary, or reserved flags are set")
