"""The records of `__transaction_state`, byte for byte as in Kafka.

    key    int16 version (0), string transactional id
    value  int16 version, then
           0   producer id i64, epoch i16, timeout ms i32, state i8, nullable array of partitions
               (string topic, array of i32), last update ms i64, start ms i64
           1   the same in the flexible form, with the tagged fields 0 previous producer id i64,
               1 next producer id i64, 2 version of transactions i16, 3 next epoch i16
               and, ours, 1000 last epoch i16, 1001 number of the transaction i64: readers skip
               tags that they do not know

Both versions are read, 1 is written. A null value is a tombstone. docs/formats/transaction-state.md
has the tables.

Source: Kafka, TransactionLogKey.json and TransactionLogValue.json; KIP-890, KIP-915.
"""

import struct
from collections import defaultdict

from penstock.base.ids import ProducerEpoch, ProducerId
from penstock.coordinator import wire
from penstock.coordinator.errors import MalformedRecord
from penstock.transactions.state import (
    NO_EPOCH,
    NO_NUMBER,
    NO_PRODUCER,
    TopicPartitionName,
    Transaction,
    TransactionState,
)

KEY_VERSION = 0
VALUE_VERSION = 1
PREVIOUS_ID_TAG, NEXT_ID_TAG, VERSION_TAG, NEXT_EPOCH_TAG = range(4)
LAST_EPOCH_TAG, NUMBER_TAG = 1000, 1001
KNOWN_TAGS = {
    PREVIOUS_ID_TAG,
    NEXT_ID_TAG,
    VERSION_TAG,
    NEXT_EPOCH_TAG,
    LAST_EPOCH_TAG,
    NUMBER_TAG,
}
_HEAD = struct.Struct(">hqhib")
_TIMES = struct.Struct(">qq")
_INT16, _INT32, _INT64 = struct.Struct(">h"), struct.Struct(">i"), struct.Struct(">q")


def _head(tag: int, form: struct.Struct) -> bytes:
    return wire.varint(tag) + wire.varint(form.size)


_TAGS = (
    (_head(PREVIOUS_ID_TAG, _INT64), _INT64, NO_PRODUCER),
    (_head(NEXT_ID_TAG, _INT64), _INT64, NO_PRODUCER),
    (_head(VERSION_TAG, _INT16), _INT16, 0),
    (_head(LAST_EPOCH_TAG, _INT16), _INT16, NO_EPOCH),
    (_head(NUMBER_TAG, _INT64), _INT64, NO_NUMBER),
)
"""Tagged fields in ascending order: tag and length, layout, the value that is left out."""


class UnknownVersion(MalformedRecord):
    """A key or value of a later release."""


def encode_key(transactional_id: str) -> bytes:
    """Return the key of a transactional id."""
    return _INT16.pack(KEY_VERSION) + wire.string(transactional_id)


def decode_key(key: bytes) -> str:
    """Return the transactional id. Raises MalformedRecord, UnknownVersion."""
    reader = wire.Reader(key)
    version = reader.int16()
    if version != KEY_VERSION:
        raise UnknownVersion(f"key version {version}")
    transactional_id = reader.string()
    if not reader.is_at_end:
        raise MalformedRecord("bytes behind the id")
    return transactional_id


def encode_value(one: Transaction) -> bytes:
    """Return the value of version 1."""
    out = bytearray(
        _HEAD.pack(VALUE_VERSION, one.producer_id, one.producer_epoch, one.timeout_ms, one.state)
    )
    if one.state is TransactionState.EMPTY:
        out += wire.varint(0)
    else:
        _put_partitions(out, one.partitions)
    out += _TIMES.pack(one.update_ms, one.start_ms)
    count, tags = 0, bytearray()
    for (head, form, usual), value in zip(_TAGS, _tagged(one), strict=True):
        if value != usual:
            count += 1
            tags += head
            tags += form.pack(value)
    out += wire.varint(count)
    return bytes(out + tags)


def _tagged(one: Transaction) -> tuple[int, int, int, int, int]:
    """Return what the tagged fields say, in the order of `_TAGS`."""
    ids = one.previous_producer_id, one.next_producer_id
    return (*ids, one.version, one.last_epoch, one.number)


def decode_value(transactional_id: str, value: bytes) -> Transaction:
    """Return what the value of an id says. Raises MalformedRecord, UnknownVersion."""
    reader = wire.Reader(value)
    version = reader.int16()
    if not 0 <= version <= VALUE_VERSION:
        raise UnknownVersion(f"value version {version}")
    is_flexible = version >= 1
    producer_id, epoch, timeout_ms = reader.int64(), reader.int16(), reader.int32()
    state = _state(reader.take(1)[0])
    partitions = _partitions(reader, is_flexible=is_flexible)
    update_ms, start_ms = reader.int64(), reader.int64()
    tags = reader.tags() if is_flexible else {}
    if not reader.is_at_end:
        raise MalformedRecord("bytes behind the last field")
    if tags.keys() - KNOWN_TAGS:
        raise UnknownVersion(f"tagged fields {sorted(tags.keys() - KNOWN_TAGS)}")
    return Transaction(
        transactional_id,
        ProducerId(producer_id),
        ProducerEpoch(epoch),
        timeout_ms,
        state,
        partitions,
        start_ms,
        update_ms,
        ProducerId(_untag(_INT64, tags.get(PREVIOUS_ID_TAG), NO_PRODUCER)),
        ProducerId(_untag(_INT64, tags.get(NEXT_ID_TAG), NO_PRODUCER)),
        ProducerEpoch(_untag(_INT16, tags.get(LAST_EPOCH_TAG), NO_EPOCH)),
        _untag(_INT16, tags.get(VERSION_TAG), 0),
        _untag(_INT64, tags.get(NUMBER_TAG), NO_NUMBER),
    )


def _state(number: int) -> TransactionState:
    try:
        return TransactionState(number)
    except ValueError:
        raise UnknownVersion(f"state {number}") from None


def _put_partitions(out: bytearray, partitions: frozenset[TopicPartitionName]) -> None:
    topics: dict[str, list[int]] = defaultdict(list)
    for topic, partition in sorted(partitions):
        topics[topic].append(partition)
    out += wire.varint(len(topics) + 1)
    for topic, numbers in topics.items():
        out += wire.compact_string(topic) + wire.varint(len(numbers) + 1)
        out += struct.pack(f">{len(numbers)}i", *numbers)
        out += wire.varint(0)


def _partitions(reader: wire.Reader, *, is_flexible: bool) -> frozenset[TopicPartitionName]:
    count = reader.varint() - 1 if is_flexible else reader.int32()
    found: set[TopicPartitionName] = set()
    for _ in range(max(count, 0)):
        topic = reader.string(compact=is_flexible)
        length = reader.varint() - 1 if is_flexible else reader.int32()
        if length < 0:
            raise MalformedRecord("a topic without a list of partitions")
        numbers = reader.take(_INT32.size * length)
        found.update((topic, number) for (number,) in _INT32.iter_unpack(numbers))
        if is_flexible:
            reader.tags()
    return frozenset(found)


def _untag(form: struct.Struct, raw: bytes | None, usual: int) -> int:
    if raw is None:
        return usual
    if len(raw) != form.size:
        raise MalformedRecord(f"a tagged field of {len(raw)} bytes")
    return int(form.unpack(raw)[0])
