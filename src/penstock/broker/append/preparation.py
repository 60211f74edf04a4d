"""Work on a batch before it is appended: here on the loop where that is little, else on a worker.

    batch ─► prepare_here ─► little: Prepared ─► append
                    └─► None: the rest of the request waits (kafka/produce/unprepared.py)
                              worker: prepare ─► Prepared ─► append

Two kinds of work: every record is walked through, and the codec is changed where the topic has one
of its own. What is little is said in bytes, by what a byte may cost at most: 2 ns to walk through
a batch that is all headers of two bytes (0.02 with records of 1 KiB), 5 to decompress, 130 for
gzip to compress. Each bound stands for some 2 ms at worst. Without the compiled walk a record
costs 10 us, and so their number counts.

Everything that looks into a batch, or changes it, belongs here, so that there is one place that
decides where it runs.

Source: Kafka `LogValidator` (what is done to a batch), which runs on any request thread.
"""

from typing import NamedTuple

from penstock.broker.append.batch_rules import BatchRules
from penstock.broker.append.timestamps import check_records
from penstock.record.batch import (
    BATCH_HEADER_BYTES,
    CODEC_MASK,
    BatchHeader,
    read_header,
    stamp_max_timestamp,
)
from penstock.record.compression import Bounds
from penstock.record.errors import BatchTooLarge
from penstock.record.recompress import rebuild
from penstock.record.validate import unpack, validate_records
from penstock.record.walk import COMPILED, Times, walk_records

COMPRESSED_HERE_MAX = 16 << 10
"""Bytes that are compressed on the loop."""
UNPACKED_HERE_MAX = 64 << 10
WALKED_HERE_MAX = 1 << 20
RECORDS_HERE_MAX = 200 if COMPILED is None else WALKED_HERE_MAX
_UNPACK_HERE = Bounds(UNPACKED_HERE_MAX, ratio_free_bytes=UNPACKED_HERE_MAX)
_COMPRESS_HERE = Bounds(COMPRESSED_HERE_MAX, ratio_free_bytes=COMPRESSED_HERE_MAX)
_GZIP = 1


class Prepared(NamedTuple):
    """A batch that is ready for the log; the bytes may be written to."""

    records: memoryview
    header: BatchHeader
    times: Times


def needs_preparation(header: BatchHeader, rules: BatchRules) -> bool:
    """Whether there is anything to be done."""
    return rules.looks_at_records or changes_codec(header, rules)


def changes_codec(header: BatchHeader, rules: BatchRules) -> bool:
    """Whether the batch is stored in another codec than it came in."""
    return rules.codec is not None and rules.codec != header.attributes & CODEC_MASK


def prepare_here(
    records: memoryview, header: BatchHeader, rules: BatchRules, now_ms: int
) -> Prepared | None:
    """Prepare a batch on the loop; None where it is more work than the loop may do at once.

    Raises RecordError kinds.
    """
    is_rebuilt = changes_codec(header, rules)
    if not _is_little(records, header, rules, is_rebuilt):
        return None
    try:
        if is_rebuilt:
            return _rebuilt(records, rules, _COMPRESS_HERE, now_ms)
        return _walked(records, header, rules, _UNPACK_HERE, now_ms)
    except BatchTooLarge:
        return None  # whether it is too large for the topic, too, a worker will say


def _is_little(
    records: memoryview, header: BatchHeader, rules: BatchRules, is_rebuilt: bool
) -> bool:
    """Whether a batch is little work by what it says of itself.

    What a level of a topic's own costs is not known here: zstd's 22 takes some 40 times as long.
    """
    if header.record_count > RECORDS_HERE_MAX:
        return False
    codec = header.attributes & CODEC_MASK
    if is_rebuilt:
        return rules.is_level_usual and len(records) <= COMPRESSED_HERE_MAX
    if codec == _GZIP and int.from_bytes(records[-4:], "little") > UNPACKED_HERE_MAX:
        return False  # its end says how much it is, and deflate is the slowest of all
    return len(records) <= (UNPACKED_HERE_MAX if codec else WALKED_HERE_MAX)


def prepare(records: memoryview, rules: BatchRules, now_ms: int) -> Prepared:
    """Prepare a batch of any size; called off the loop. Raises RecordError kinds."""
    header = read_header(records)
    if changes_codec(header, rules):
        return _rebuilt(records, rules, rules.bounds, now_ms)
    return _walked(records, header, rules, rules.bounds, now_ms)


def _rebuilt(records: memoryview, rules: BatchRules, bounds: Bounds, now_ms: int) -> Prepared:
    assert rules.codec is not None, "no codec to change to"
    found = validate_records(records, bounds)
    check_records(found.block, found.header, found.times, rules, now_ms)
    rewritten = memoryview(bytearray(rebuild(found, rules.codec, rules.level)))
    return Prepared(rewritten, read_header(rewritten), found.times)


def _walked(
    records: memoryview, header: BatchHeader, rules: BatchRules, bounds: Bounds, now_ms: int
) -> Prepared:
    """Walk through the records; a newest time that is not theirs is put right, as Kafka does."""
    if header.attributes & CODEC_MASK:
        block = unpack(header, records, bounds)
    else:
        block = records[BATCH_HEADER_BYTES:]
    times = walk_records(block, header.record_count, header.base_timestamp)
    check_records(block, header, times, rules, now_ms)
    if times.newest_ms != header.max_timestamp and not rules.is_log_append_time:
        stamp_max_timestamp(records, 0, times.newest_ms)
        header = read_header(records)
    return Prepared(records, header, times)
