"""Searching a batch for records by time and offset, without decoding them.

This runs on worker threads, on batches of up to millions of records, beside the event loop. So the
inner loop has two twins: `_scan.pyx` in C, which releases the interpreter's lock, and the function
here in Python. The compiled one is used if it was built.

Source: Kafka `FileRecords.searchForTimestamp` (first record at or after both a time and an offset).
"""

from collections.abc import Callable
from typing import NamedTuple

from penstock.record.batch import read_header
from penstock.record.compression import Bounds
from penstock.record.errors import CorruptBatch
from penstock.record.read import (
    INT64_MAX,
    iter_header_parts,
    open_batch,
    read_raw,
    record_timestamp,
)

INT64_MIN = -INT64_MAX - 1

WHOLE, MORE, CORRUPT = range(3)
"""What ends a cut: the batch, a bound, or a record that can not be read."""

_Find = Callable[[memoryview, int, int, int], tuple[int, int] | None]
_Cut = Callable[[memoryview, int, int, int, int, int], tuple[int, int, int, int, int]]


class FoundRecord(NamedTuple):
    """A record by its offset and its timestamp in ms."""

    offset: int
    timestamp_ms: int


def find_record(
    block: memoryview, record_count: int, first_offset_delta: int, timestamp_delta: int
) -> tuple[int, int] | None:
    """Return (offset delta, timestamp delta) of the first record not below both; None if none.

    Records after it are not read. Raises CorruptBatch.
    """
    at = 0
    for _ in range(record_count):
        raw = read_raw(block, at)
        if raw.offset_delta >= first_offset_delta and raw.timestamp_delta >= timestamp_delta:
            return raw.offset_delta, raw.timestamp_delta
        at = raw.end
    return None


def cut_records(  # noqa: PLR0917  as the compiled twin has them
    block: memoryview,
    record_count: int,
    last_delta: int,
    first_delta: int,
    bytes_max: int,
    records_max: int,
) -> tuple[int, int, int, int, int]:
    """Find the records from an offset delta on, one at least and at most so many or so many bytes.

    Returns where they begin and end in the block, how many they are, the delta of the last one (-1
    if there is none), and what ends them: WHOLE, MORE, CORRUPT.
    """
    at = start = end = taken = 0
    previous = last = -1
    for _ in range(record_count):
        if taken and (taken >= records_max or end - start >= bytes_max):
            return start, end, taken, last, MORE
        try:
            raw = read_raw(block, at)
            if not previous < raw.offset_delta <= last_delta:
                return start, end, taken, last, CORRUPT
            if raw.offset_delta >= first_delta:
                for _ in iter_header_parts(block, raw.headers_at, raw.end):
                    pass
        except CorruptBatch:
            return start, end, taken, last, CORRUPT
        if raw.offset_delta >= first_delta:
            start = at if not taken else start
            taken += 1
            end, last = raw.end, raw.offset_delta
        previous, at = raw.offset_delta, raw.end
    return start, end, taken, last, WHOLE


COMPILED: _Find | None
COMPILED_CUT: _Cut | None
try:
    from penstock.record import _scan
except ImportError:  # no C compiler at installation
    COMPILED = COMPILED_CUT = None
else:
    COMPILED, COMPILED_CUT = _scan.find_record, _scan.cut_records

_find = COMPILED or find_record
cut = COMPILED_CUT or cut_records


def first_record_at(
    batch: memoryview, timestamp_ms: int, start_offset: int, bounds: Bounds
) -> FoundRecord | None:
    """Return the first record at or above `start_offset` whose time is not below `timestamp_ms`.

    Under log append time all records of a batch have one time. Raises RecordError kinds.
    """
    header = read_header(batch)
    first_delta = max(start_offset - header.base_offset, 0)
    if first_delta > header.last_offset_delta:
        return None
    if header.is_log_append_time:
        is_late_enough = header.max_timestamp >= timestamp_ms
        offset = header.base_offset + first_delta
        return FoundRecord(offset, header.max_timestamp) if is_late_enough else None
    delta = timestamp_ms - header.base_timestamp
    if delta > INT64_MAX:
        return None
    block = open_batch(header, batch, bounds)
    deltas = _find(block, header.record_count, first_delta, max(delta, INT64_MIN))
    if deltas is None:
        return None
    offset_delta, timestamp_delta = deltas
    timestamp_ms = record_timestamp(header, timestamp_delta)
    return FoundRecord(header.base_offset + offset_delta, timestamp_ms)
