"""Looking at every record of a batch without taking one out: checks, and search by time.

Both are wanted on the event loop of a broker, for batches of ten thousand records and more, so two
twins of the inner loops exist: `_scan.pyx` in C, and the functions here in Python. The compiled
one is used where it was built.

Source: Kafka `LogValidator.validateRecord` (what a broker that unpacks a batch checks),
`FileRecords.searchForTimestamp` (first record at or after both a time and an offset).
"""

from collections.abc import Callable
from typing import NamedTuple

from penstock.record.batch import BatchHeader, check_batch, read_header
from penstock.record.compression import Bounds
from penstock.record.errors import CorruptBatch
from penstock.record.read import (
    INT64_MAX,
    open_batch,
    read_headers,
    read_raw,
    record_timestamp,
)

INT64_MIN = -INT64_MAX - 1

_Check = Callable[[memoryview, int], int]
_Find = Callable[[memoryview, int, int, int], tuple[int, int] | None]


class FoundRecord(NamedTuple):
    """A record by its offset and its timestamp in ms."""

    offset: int
    timestamp_ms: int


class Validated(NamedTuple):
    """A batch whose every record was looked at: the decompressed block and the largest time."""

    header: BatchHeader
    block: memoryview
    max_timestamp: int


def check_records(block: memoryview, record_count: int) -> int:
    """Check records as a producer must send them; return the largest timestamp delta.

    Offset deltas are 0, 1, 2, ...; lengths add up; header names are text. Raises CorruptBatch.
    """
    latest = INT64_MIN
    at = 0
    for expected in range(record_count):
        raw = read_raw(block, at)
        if raw.offset_delta != expected:
            raise CorruptBatch(f"offset delta {raw.offset_delta} where {expected} is next")
        for _ in read_headers(block, raw.headers_at, raw.end):
            pass
        latest = max(latest, raw.timestamp_delta)
        at = raw.end
    if at != len(block):
        raise CorruptBatch(f"{len(block) - at} bytes follow the last record")
    return latest


def find_record(
    block: memoryview, record_count: int, first_offset_delta: int, timestamp_delta: int
) -> tuple[int, int] | None:
    """Return (offset delta, timestamp delta) of the first record not below both; None if none.

    Records behind it are not looked at. Raises CorruptBatch.
    """
    at = 0
    for _ in range(record_count):
        raw = read_raw(block, at)
        if raw.offset_delta >= first_offset_delta and raw.timestamp_delta >= timestamp_delta:
            return raw.offset_delta, raw.timestamp_delta
        at = raw.end
    return None


COMPILED: tuple[_Check, _Find] | None
try:
    from penstock.record import _scan
except ImportError:  # no C compiler at installation
    COMPILED = None
else:
    COMPILED = (_scan.check_records, _scan.find_record)

_check, _find = COMPILED or (check_records, find_record)


def validate_records(batch: memoryview, bounds: Bounds) -> Validated:
    """Check a batch as a producer must send it, record by record; see `check_records`.

    Without records the header is refused. Raises the kinds of `check_batch`, BatchTooLarge,
    CorruptBatch.
    """
    header = check_batch(batch, 0, len(batch))
    block = open_batch(header, batch[: header.size_bytes], bounds)
    latest = header.base_timestamp + _check(block, header.record_count)
    return Validated(header, block, min(latest, INT64_MAX))


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
    found = _find(block, header.record_count, first_delta, max(delta, INT64_MIN))
    if found is None:
        return None
    return FoundRecord(header.base_offset + found[0], record_timestamp(header, found[1]))
