"""The walk over a producer's records: whether every record matches the batch header and the format.

    block   record record record ...             as many as the header counts, and nothing after
    record  length ─► attributes, timestamp delta, offset delta, key, value, headers, and no rest

A checksum only shows that the bytes are those that were sent. A batch with wrong records would be
stored, and would stop every consumer that reaches it. So a broker walks through the records before
it accepts them. The walk reads lengths and skips keys and values: its cost depends on the number of
records and headers, hardly on bytes. It notes which records have no key, for compacted topics.

There are two twins, `_walk.pyx` in C and `find_fault` here. Both return only numbers, so that they
can be compared exactly and the compiled one does not need the interpreter while it runs.

Source: Kafka `LogValidator.validateRecord`, `DefaultRecord.readFrom`, `ByteUtils.readVarint` (an
int32 takes five bytes at most). Departures, all stricter: offset deltas are 0, 1, 2, ... even in an
uncompressed batch; null is -1 and no other length; attributes, which have no meaning, are 0;
header names are UTF-8 (as KIP-82 says; Kafka's broker does not check it, and consumers of several
clients fail on other names).
It deliberately does not decompress, and does not check timestamps, which depends on the topic.
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
"""A record's attributes have no meaning yet, and every producer writes 0.

Clients disagree on other values: kafka-python and aiokafka read a varint, and so misread from 128
on; librdkafka takes bit 3 for log append time, as in a batch header, and returns another time.
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
"""What can be wrong with a record; the index is the number that the twins return."""
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

KEYLESS_NAMED_MAX = 100
"""Records without a key that are named; the others are counted. A batch can have 100,000."""

Outcome: TypeAlias = tuple[int, int, int, int, int, tuple[int, ...]]
"""(fault, index of the record, and of the records before it: oldest and newest timestamp, how many
have no key, which these are where keys are needed)"""


class Times(NamedTuple):
    """The oldest and the newest timestamp of a batch's records, ms; both -1 if none has one.

    A record without a timestamp (-1) counts for the newest only.
    """

    oldest_ms: int
    newest_ms: int


class Keyless(NamedTuple):
    """Records without a key: how many of a batch, and the indexes of the first ones."""

    total: int
    places: tuple[int, ...]


class _Fault(Exception):
    """Ends the walk; never raised out of this module."""

    def __init__(self, fault: int) -> None:
        self.fault = fault
        super().__init__(fault)


def find_fault(
    block: memoryview,
    record_count: int,
    base_timestamp: int,
    needs_keys: bool = False,
) -> Outcome:
    """Walk through a decompressed block; see `walk_records`."""
    oldest, newest = INT64_MAX, INT64_MIN
    at = index = keyless_count = 0
    keyless: list[int] = []
    fault = SOUND
    try:
        for index in range(record_count):
            timestamp_delta, key_bytes, at = _walk_record(block, at, index)
            time = max(INT64_MIN, min(INT64_MAX, base_timestamp + timestamp_delta))
            newest = max(newest, time)
            if time != NO_TIMESTAMP:
                oldest = min(oldest, time)
            if key_bytes < 0:
                keyless_count += 1
                keyless.append(index)
        index = record_count
        if at != len(block):
            fault = REST_OF_BATCH
    except _Fault as found:
        fault = found.fault
    named = tuple(keyless[:KEYLESS_NAMED_MAX]) if needs_keys else ()
    return fault, index, _oldest(oldest, newest), newest, keyless_count, named


def _oldest(oldest: int, newest: int) -> int:
    return NO_TIMESTAMP if oldest > newest else oldest


def _walk_record(block: memoryview, at: int, index: int) -> tuple[int, int, int]:
    """Return timestamp delta, length of the key (-1: null) and end of the record at `at`."""
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
    key_bytes, at = _part(block, at, end, KEY)
    _, at = _part(block, at, end, VALUE)
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
    return timestamp_delta, key_bytes, end


def _check_text(name: memoryview) -> None:
    try:
        str(name, "utf-8")
    except UnicodeDecodeError:
        raise _Fault(HEADER_TEXT) from None


def _part(block: memoryview, at: int, end: int, fault: int) -> tuple[int, int]:
    """Return the length of a part (-1 for null), and the position after it."""
    length, at = _int32(block, at, end, fault)
    if not -1 <= length <= end - at:
        raise _Fault(fault)
    return length, at + max(length, 0)


def _int32(block: memoryview, at: int, end: int, fault: int) -> tuple[int, int]:
    return _number(block, at, end, INT32_BYTES_MAX, fault)


def _number(block: memoryview, at: int, end: int, bytes_max: int, fault: int) -> tuple[int, int]:
    """Read a zigzag number; too many bytes or bits raise `_Fault`."""
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


_Twin: TypeAlias = Callable[[memoryview, int, int, bool], Outcome]
COMPILED: _Twin | None
try:
    from penstock.record._walk import find_fault as _compiled_find_fault
except ImportError:  # no C compiler at installation
    COMPILED = None
else:
    COMPILED = _compiled_find_fault

_find_fault = COMPILED or find_fault


def walk_records(
    block: memoryview, record_count: int, base_timestamp: int, *, needs_keys: bool = False
) -> tuple[Times, Keyless | None]:
    """Check that `block` is exactly `record_count` valid records; return their times.

    With `needs_keys` return also which have no key; None if all have one, or need none.
    Raises InvalidRecord, which names the first invalid record and its error.
    """
    fault, index, oldest, newest, keyless_count, keyless = _find_fault(
        block, record_count, base_timestamp, needs_keys
    )
    if fault == SOUND:
        without = Keyless(keyless_count, keyless) if keyless else None
        return Times(oldest, newest), without
    if fault == REST_OF_BATCH:
        raise InvalidRecord(FAULTS[fault])
    raise InvalidRecord(f"record {index}: {FAULTS[fault]}", record_index=index)
