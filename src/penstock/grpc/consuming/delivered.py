"""Messages as consumers get them, encoded by hand: fields of a ReceiveMessageResponse.

    topic, body, what users gave         as they were sent
    tag, keys, id, group, trace context  from the properties of those names
    digest                               MD5 of the body, which clients check
    delivery attempt                     1 and how often it was handed out, or sent back, before
    delivery timestamp                   of a message that was delayed
    receipt, queue, offset, times        where it is, and for how long nobody else gets it

A declared message would cost four times as much (proto/codec.py), and there are thousands a second.
A test compares both, field by field.

Source: RocketMQ's proxy `GrpcConverter.buildMessage` (which properties are shown to users: the
message group and the transaction's id among them), apache.rocketmq.v2 `Message`.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from hashlib import md5
from ipaddress import ip_address
from typing import TYPE_CHECKING, Final, NamedTuple

from penstock.grpc.consuming.receipts import write_receipt
from penstock.grpc.proto.messages import Resource
from penstock.grpc.statuses import Encoding, MessageType
from penstock.protobuf.codec import encode
from penstock.protobuf.wire import LENGTH, VARINT, add_varint
from penstock.remoting.pop.receipts import number_of
from penstock.remoting.system_names import (
    DELIVER_MS,
    GROUP,
    HEADER_OF,
    KAFKA_NULL,
    KEPT,
    KEYS,
    LEFT_OUT,
    NOT_KEPT,
    TAGS,
    UNIQ_KEY,
)
from penstock.remoting.wire.message import Host

if TYPE_CHECKING:
    from penstock.remoting.pop.popping import Popped
    from penstock.remoting.pop.records import Seen

_SHOWN: Final = frozenset({KAFKA_NULL, LEFT_OUT, "__transactionId__"})
_HIDDEN: Final = (KEPT | NOT_KEPT | HEADER_OF.keys()) - _SHOWN
_TRACE: Final = "TRACE_CONTEXT"
_TRANSACTION: Final = "__transactionId__"
_DIGITS_MAX: Final = 18
_ONE_BYTE: Final = 0x80
_NUMBERS: Final = 19
"""Of fields of system properties, which have more than any other message here."""


def _heads(number: int) -> tuple[bytes, ...]:
    """Return what is before a short text, or message, of each length."""
    head = bytearray()
    add_varint(head, number << 3 | LENGTH)
    return tuple(bytes(head) + bytes((size,)) for size in range(_ONE_BYTE))


_HEADS: Final = tuple(map(_heads, range(_NUMBERS)))
"""By the numbers of fields."""
TIME_MS_MAX: Final = 253_402_300_799_999
"""The last that a Timestamp may be, in the year 9999: clients refuse an answer with a later one,
and a topic may permit Kafka's producers any time."""
_MD5: Final = b"\x08\x02\x12\x20"
"""Before the 32 characters of a digest: its kind, and their length."""


def is_shown(name: str) -> bool:
    """Whether a property is shown to users."""
    return name not in _HIDDEN


class Told(NamedTuple):
    """What all messages of an answer have in common."""

    topic: str
    store_host: str
    invisible_ms: int


def encoded_messages(popped: Popped, told: Told) -> list[bytes]:
    """Return an answer for each message."""
    part = popped.part
    partition = part.hosted.partition
    number = number_of(part.key, popped.nonce)
    same = _same(told, partition)
    topic = bytearray()
    _add(topic, 1, encode(Resource(name=told.topic)))
    answers = []
    for seen, count in popped.messages:
        receipt = write_receipt(partition, seen.offset, number)
        message = bytearray(topic)
        _add_message(message, seen, count, receipt, same)
        answer = bytearray()
        _add(answer, 2, message)
        answers.append(bytes(answer))
    return answers


def _same(told: Told, partition: int) -> bytes:
    """Return the system properties that all messages of an answer have."""
    out = bytearray()
    _add_number(out, 5, Encoding.IDENTITY)
    _add(out, 10, told.store_host.encode())
    _add_number(out, 13, partition)
    _add_time(out, 15, told.invisible_ms)
    return bytes(out)


def _add_message(out: bytearray, seen: Seen, count: int, receipt: bytes, same: bytes) -> None:
    mapped = seen.message
    assert mapped is not None, "it is wanted"
    properties = mapped.properties
    for name, value in properties.items():
        if name not in _HIDDEN:
            entry = bytearray()
            _add(entry, 1, name.encode())
            _add(entry, 2, value.encode())
            _add(out, 2, entry)
    system = bytearray(same)
    tag, keys = properties.get(TAGS), properties.get(KEYS)
    group, trace = properties.get(GROUP), properties.get(_TRACE)
    if tag is not None:
        _add(system, 1, tag.encode())
    for key in keys.split() if keys else ():
        _add(system, 2, key.encode())
    _add(system, 3, properties.get(UNIQ_KEY, "").encode())
    digest = md5(mapped.body, usedforsecurity=False).hexdigest().upper()
    _add(system, 4, _MD5 + digest.encode())
    until_ms = _time(properties.get(DELIVER_MS))
    _add_number(system, 6, _kind(properties, until_ms))
    _add_time(system, 7, min(mapped.born_ms, TIME_MS_MAX))
    _add(system, 8, _text_of(mapped.born_host))
    _add_time(system, 9, min(seen.timestamp_ms, TIME_MS_MAX))
    if until_ms is not None:
        _add_time(system, 11, until_ms)
    _add(system, 12, receipt)
    _add_number(system, 14, seen.offset)
    _add_number(system, 16, mapped.reconsume_times + count)
    if group is not None:
        _add(system, 17, group.encode())
    if trace is not None:
        _add(system, 18, trace.encode())
    _add(out, 3, system)
    _add(out, 4, mapped.body)


def _kind(properties: Mapping[str, str], until_ms: int | None) -> MessageType:
    if _TRANSACTION in properties:
        return MessageType.TRANSACTION
    if until_ms is not None:
        return MessageType.DELAY
    return MessageType.NORMAL if GROUP not in properties else MessageType.FIFO


def _time(text: str | None) -> int | None:
    """Return the time that a property tells, in ms; None if it tells none."""
    if text is None or not (text.isascii() and text.isdecimal() and len(text) <= _DIGITS_MAX):
        return None
    return min(int(text), TIME_MS_MAX)


@lru_cache(maxsize=1_024)
def _text_of(host: Host) -> bytes:
    return f"{ip_address(host.address)}:{host.port}".encode()


def _add(out: bytearray, number: int, data: bytes | bytearray) -> None:
    """Append a field of the type LENGTH."""
    size = len(data)
    if size < _ONE_BYTE:
        out += _HEADS[number][size]
    else:
        add_varint(out, number << 3 | LENGTH)
        add_varint(out, size)
    out += data


def _add_number(out: bytearray, number: int, value: int) -> None:
    add_varint(out, number << 3 | VARINT)
    add_varint(out, value)


def _add_time(out: bytearray, number: int, ms: int) -> None:
    """Append a Timestamp, or a Duration: both are seconds and nanoseconds."""
    _add(out, number, _time_of(ms))


@lru_cache(maxsize=256)
def _time_of(ms: int) -> bytes:
    """Return a time; messages of a batch share many."""
    seconds, rest = divmod(ms, 1_000)
    time = bytearray()
    if seconds:
        _add_number(time, 1, seconds)
    if rest:
        _add_number(time, 2, rest * 1_000_000)
    return bytes(time)
