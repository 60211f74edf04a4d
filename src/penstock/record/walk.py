"""The walk over a producer's records: whether every record is what the batch says it is.

    block   record record record ...             as many as the header counts, and nothing behind
    record  length ─► attributes, timestamp delta, offset delta, key, value, headers, and no rest

A checksum only says that the bytes are those that were sent. A batch that lies about its records
would be kept, and would stop every consumer that comes to it. So a broker walks through the records
before it takes them. The walk reads lengths and steps over keys and values: its cost is by records
and headers, hardly by bytes.

Two twins exist, `_walk.pyx` in C and `find_fault` here; both give numbers alone, so that they can
be compared bit by bit and the compiled one needs no interpreter while it works.

Source: Kafka `LogValidator.validateRecord`, `DefaultRecord.readFrom`, `ByteUtils.readVarint` (an
int32 takes five bytes at most). Departures, all stricter: offset deltas are 0, 1, 2, ... also in a
batch without compression; a null is -1 and nothing else; attributes, which mean nothing, are 0;
header names are UTF-8 (KIP-82 says so, Kafka's broker does not look, and several clients' consumers
end with an error there).
It deliberately does not decompress, and does not judge timestamps: whoever knows the topic does.
"""

from collections.abc import Callable
from typing import NamedTuple, TypeAlias

from penstock.record.errors import InvalidRecord

NO_TIMESTAMP = -1
INT64_MAX = (1 << 63) - 1
INT64_MIN = -INT64_MAX - 1
INT32_BYTES_MAX = 5
INT64_BYTES_MAX = 10
HEADER_BYTES_MIN = 2
NO_ATTRIBUTES = 0
"""A record's attributes mean nothing yet, and every producer writes none.

kafka-python and aiokafka read a number of variable length there, and so a byte too few from 128 on;
librdkafka takes bit 3 for log append time, as in a batch, and so gives another time than they do.
"""

FAULTS = (
    "",
    "its length does not fit what is left of the batch",
    "its attributes are not 0",
    "its timestamp is no number of 64 bits",
    "its offset does not follow the one before",
    "the length of its key does not fit",
    "the length of its value does not fit",
    "the number of its headers does not fit",
    "the name of a header is null or does not fit",
    "the name of a header is not UTF-8",
    "the value of a header does not fit",
    "bytes follow its last header",
    "bytes follow the last record",
)
"""What can be wrong with a record; the place in the table is the number that the twins give."""
(
    SOUND,
    LENGTH,
    ATTRIBUTES,
    TIMESTAMP,
    OFFSET,
    KEY,
    VALUE,
    HEADER_COUNT,
    HEADER_NAME,
    HEADER_TEXT,
    HEADER_VALUE,
    REST_OF_RECORD,
    REST_OF_BATCH,
) = range(len(FAULTS))

Outcome: TypeAlias = tuple[int, int, int, int]
"""(fault, index of the record, oldest and newest timestamp of the records up to it)"""


class Times(NamedTuple):
    """The oldest and the newest timestamp of a batch's records, ms; both -1 where none has one.

    A record without a time, -1, counts for the newest alone.
    """

    oldest_ms: int
    newest_ms: int


class _Fault(Exception):
    """Ends the walk; never leaves this module."""


def find_fault(block: memoryview, record_count: int, base_timestamp: int) -> Outcome:
    """Walk through a decompressed block; see `walk_records`."""
    oldest, newest = INT64_MAX, INT64_MIN
    at = index = 0
    try:
        for index in range(record_count):
            timestamp_delta, at = _walk_record(block, at, index)
            time = max(INT64_MIN, min(INT64_MAX, base_timestamp + timestamp_delta))
            newest = max(newest, time)
            if time != NO_TIMESTAMP:
                oldest = min(oldest, time)
        if at != len(block):
            return REST_OF_BATCH, record_count, _oldest(oldest, newest), newest
    except _Fault as fault:
        return fault.args[0], index, _oldest(oldest, newest), newest
    return SOUND, record_count, _oldest(oldest, newest), newest


def _oldest(oldest: int, newest: int) -> int:
    return NO_TIMESTAMP if oldest > newest else oldest


def _walk_record(block: memoryview, at: int, index: int) -> tuple[int, int]:
    """Return the timestamp delta of the record at `at`, and where the next one stands."""
    length, at = _int32(block, at, len(block), LENGTH)
    end = at + length
    if length < 1 or end > len(block):
        raise _Fault(LENGTH)
    if block[at] != NO_ATTRIBUTES:
        raise _Fault(ATTRIBUTES)
    timestamp_delta, at = _number(block, at + 1, end, INT64_BYTES_MAX, TIMESTAMP)
    offset_delta, at = _int32(block, at, end, OFFSET)
    if offset_delta != index:
        raise _Fault(OFFSET)
    for fault in (KEY, VALUE):
        _, at = _part(block, at, end, fault)
    count, at = _int32(block, at, end, HEADER_COUNT)
    if not 0 <= count <= (end - at) // HEADER_BYTES_MIN:
        raise _Fault(HEADER_COUNT)
    for _ in range(count):
        name_bytes, at = _part(block, at, end, HEADER_NAME)
        if name_bytes < 0:
            raise _Fault(HEADER_NAME)
        _check_text(block[at - name_bytes : at])
        _, at = _part(block, at, end, HEADER_VALUE)
    if at != end:
        raise _Fault(REST_OF_RECORD)
    return timestamp_delta, end


def _check_text(name: memoryview) -> None:
    try:
        str(name, "utf-8")
    except UnicodeDecodeError:
        raise _Fault(HEADER_TEXT) from None


def _part(block: memoryview, at: int, end: int, fault: int) -> tuple[int, int]:
    """Return the length of a part, -1 for null, and where the byte behind it stands."""
    length, at = _int32(block, at, end, fault)
    if not -1 <= length <= end - at:
        raise _Fault(fault)
    return length, at + max(length, 0)


def _int32(block: memoryview, at: int, end: int, fault: int) -> tuple[int, int]:
    return _number(block, at, end, INT32_BYTES_MAX, fault)


def _number(block: memoryview, at: int, end: int, bytes_max: int, fault: int) -> tuple[int, int]:
    """Read a zigzag number; one that is longer, or has more bits than its kind, is at fault."""
    raw = shift = 0
    for position in range(at, min(end, at + bytes_max)):
        byte = block[position]
        raw |= (byte & 0x7F) << shift
        if byte < 0x80:
            if raw >> (32 if bytes_max == INT32_BYTES_MAX else 64):
                break
            return (raw >> 1) ^ -(raw & 1), position + 1
        shift += 7
    raise _Fault(fault)


_Twin: TypeAlias = Callable[[memoryview, int, int], Outcome]
COMPILED: _Twin | None
try:
    from penstock.record._walk import find_fault as _compiled_find_fault
except ImportError:  # no C compiler at installation
    COMPILED = None
else:
    COMPILED = _compiled_find_fault

_find_fault = COMPILED or find_fault


def walk_records(block: memoryview, record_count: int, base_timestamp: int) -> Times:
    """Check that `block` is exactly `record_count` sound records; return their times.

    Raises InvalidRecord, which names the first record at fault and what is wrong with it.
    """
    fault, index, oldest, newest = _find_fault(block, record_count, base_timestamp)
    if fault == SOUND:
        return Times(oldest, newest)
    if fault == REST_OF_BATCH:
        raise InvalidRecord(FAULTS[fault])
    raise InvalidRecord(f"record {index}: {FAULTS[fault]}", record_index=index)
