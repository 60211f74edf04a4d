"""Preparation of a batch before its append: on the loop if it is cheap, else on a worker.

    batch ─► prepare_here ─► cheap: Prepared ─► append
                    └─► None: the rest of the request waits (kafka/produce/unprepared.py)
                              worker: prepare ─► Prepared ─► append

There are two kinds of work: iterating over every record, and changing the codec if the topic has
its own. Cheap is defined in bytes, by the highest cost of a byte: 2 ns to iterate over a batch with
nothing but headers of two bytes (0.02 with records of 1 KiB), 2 to decompress (6 for gzip; lz4 0.1
where half of it repeats), 130 for gzip to compress. Each limit corresponds to 2 ms or so at worst.
A worker costs 0.2 ms of the loop for a batch, since threads are woken. Without the compiled
iteration a record costs 10 us, and so their number counts.

What a batch decompresses to is looked at and dropped. So each thread has memory for it that is used
again: new memory of a megabyte takes the system longer to prepare than lz4 to fill.

All code that reads or changes the records of a batch belongs here, so that one place decides where
it runs.

Source: Kafka `LogValidator` (what is done to a batch), which runs on any request thread; its
`BufferSupplier`. ADR 0083.
"""

import threading
from typing import Final, NamedTuple

from penstock.broker.append.batch_rules import BatchRules
from penstock.broker.append.keys import refuse_keyless
from penstock.broker.append.timestamps import check_records
from penstock.record.batch import (
    BATCH_HEADER_BYTES,
    CODEC_MASK,
    BatchHeader,
    read_header,
    stamp_max_timestamp,
)
from penstock.record.compression import GZIP, LZ4, SNAPPY, ZSTD, Bounds, least_unpacked, lend_new
from penstock.record.errors import BatchTooLarge
from penstock.record.recompress import rebuild
from penstock.record.validate import Validated, unpack, validate_records
from penstock.record.walk import COMPILED, walk_records

COMPRESSED_HERE_MAX = 16 << 10
"""Bytes that are compressed on the loop."""
UNPACKED_HERE_MAX: Final = {GZIP: 64 << 10, SNAPPY: 512 << 10, LZ4: 512 << 10, ZSTD: 512 << 10}
WALKED_HERE_MAX = 1 << 20
RECORDS_HERE_MAX = 200 if COMPILED is None else WALKED_HERE_MAX
SCRATCH_BYTES = 1 << 20
"""Memory of each thread for what batches decompress to; larger ones get their own."""
_UNPACK_HERE = {
    codec: Bounds(most, ratio_free_bytes=most) for codec, most in UNPACKED_HERE_MAX.items()
}
_COMPRESS_HERE = Bounds(COMPRESSED_HERE_MAX, ratio_free_bytes=COMPRESSED_HERE_MAX)


class Scratch(threading.local):
    """One block of memory of each thread. What was lent is free when the next one is."""

    def __init__(self) -> None:
        self._memory = memoryview(bytearray(SCRATCH_BYTES))

    def lend(self, least: int, most: int) -> memoryview:
        """Lend the memory, or new memory if `least` bytes are more than it has."""
        if least > SCRATCH_BYTES:
            return lend_new(least, most)
        return self._memory[:most]


_SCRATCH = Scratch()


class Prepared(NamedTuple):
    """A batch that is ready for the log, in writable memory."""

    records: memoryview
    header: BatchHeader


def needs_preparation(header: BatchHeader, rules: BatchRules) -> bool:
    """Whether the records have to be read or changed."""
    return rules.looks_at_records or changes_codec(header, rules)


def changes_codec(header: BatchHeader, rules: BatchRules) -> bool:
    """Whether the batch is stored with another codec than it was sent with."""
    return rules.codec is not None and rules.codec != header.attributes & CODEC_MASK


def prepare_here(
    records: memoryview, header: BatchHeader, rules: BatchRules, now_ms: int
) -> Prepared | None:
    """Prepare a batch on the loop; return None if that would hold the loop for too long.

    Raises RecordError kinds.
    """
    is_rebuilt = rules.codec is not None and changes_codec(header, rules)
    if not is_rebuilt and not header.attributes & CODEC_MASK:
        if header.record_count > RECORDS_HERE_MAX or len(records) > WALKED_HERE_MAX:
            return None
        return _looked_at(records, header, records[BATCH_HEADER_BYTES:], rules, now_ms)
    if not _is_little(records, header, rules, is_rebuilt):
        return None
    try:
        if is_rebuilt:
            return _rebuilt(records, rules, _COMPRESS_HERE, now_ms)
        here = _UNPACK_HERE.get(header.attributes & CODEC_MASK, rules.bounds)
        return _walked(records, header, rules, here, now_ms)
    except BatchTooLarge:
        return None  # a worker will also check the size limit of the topic


def _is_little(
    records: memoryview, header: BatchHeader, rules: BatchRules, is_rebuilt: bool
) -> bool:
    """Whether changing the codec, or decompressing, is cheap, judging by the header.

    The cost of a topic's compression level is not known: zstd's 22 takes some 40 times as long.
    """
    if header.record_count > RECORDS_HERE_MAX:
        return False
    codec = header.attributes & CODEC_MASK
    if is_rebuilt:
        return rules.is_level_usual and len(records) <= COMPRESSED_HERE_MAX
    most = UNPACKED_HERE_MAX.get(codec, WALKED_HERE_MAX)
    if len(records) > most:
        return False
    return least_unpacked(codec, records[BATCH_HEADER_BYTES:], most + 1) <= most


def prepare(records: memoryview, rules: BatchRules, now_ms: int) -> Prepared:
    """Prepare a batch of any size; called off the loop. Raises RecordError kinds."""
    header = read_header(records)
    if changes_codec(header, rules):
        return _rebuilt(records, rules, rules.bounds, now_ms)
    return _walked(records, header, rules, rules.bounds, now_ms)


def _rebuilt(records: memoryview, rules: BatchRules, bounds: Bounds, now_ms: int) -> Prepared:
    assert rules.codec is not None, "no codec to change to"
    found = validate_records(records, bounds, _SCRATCH.lend, needs_keys=rules.needs_keys)
    if found.keyless is not None:
        refuse_keyless(found, found.keyless, rules, now_ms)
    check_records(found.block, found.header, found.times, rules, now_ms)
    rewritten = memoryview(bytearray(rebuild(found, rules.codec, rules.level)))
    return Prepared(rewritten, read_header(rewritten))


def _walked(
    records: memoryview, header: BatchHeader, rules: BatchRules, bounds: Bounds, now_ms: int
) -> Prepared:
    if header.attributes & CODEC_MASK:
        block = unpack(header, records, bounds, _SCRATCH.lend)
    else:
        block = records[BATCH_HEADER_BYTES:]
    return _looked_at(records, header, block, rules, now_ms)


def _looked_at(
    records: memoryview, header: BatchHeader, block: memoryview, rules: BatchRules, now_ms: int
) -> Prepared:
    """Iterate over the records, which lie in `block` decompressed.

    Corrects a wrong max timestamp in the header, as Kafka does.
    """
    times, keyless = walk_records(
        block, header.record_count, header.base_timestamp, needs_keys=rules.needs_keys
    )
    if keyless is not None:
        refuse_keyless(Validated(header, block, times), keyless, rules, now_ms)
    check_records(block, header, times, rules, now_ms)
    if times.newest_ms != header.max_timestamp and not rules.is_log_append_time:
        stamp_max_timestamp(records, 0, times.newest_ms)
        header = read_header(records)
    return Prepared(records, header)
