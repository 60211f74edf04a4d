"""Messages as consumers get them, encoded by hand: fields of a ReceiveMessageResponse.

    topic, body, what users gave         as they were sent
    tag, keys, id, group, trace context  from the properties of those names
    digest                               MD5 of the body, which clients check
    delivery attempt                     1 and how often it was handed out, or sent back, before
    delivery timestamp                   of a message that was delayed
    receipt, queue, offset, times        where it is, and for how long nobody else gets it

Declared messages would cost several times as much (protobuf/fields.py).
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

from penstock.grpc.consuming.compiled import usual_messages
from penstock.grpc.consuming.receipts import write_receipt
from penstock.grpc.consuming.times import TIME_MS_MAX
from penstock.grpc.proto.messages import Resource
from penstock.grpc.statuses import Encoding, MessageType
from penstock.protobuf.codec import encode
from penstock.protobuf.compiled import encode_fields
from penstock.remoting.ids import topic_crc
from penstock.remoting.mapping import host_of
from penstock.remoting.pop.receipts import number_of
from penstock.remoting.pop.records import Source
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
    from penstock.protobuf.fields import Field
    from penstock.remoting.pop.popping import Popped
    from penstock.remoting.pop.records import Seen

_SHOWN: Final = frozenset({KAFKA_NULL, LEFT_OUT, "__transactionId__"})
_HIDDEN: Final = (KEPT | NOT_KEPT | HEADER_OF.keys()) - _SHOWN
_TRACE: Final = "TRACE_CONTEXT"
_TRANSACTION: Final = "__transactionId__"
_DIGITS_MAX: Final = 18
_KIND_NORMAL, _KIND_FIFO = int(MessageType.NORMAL), int(MessageType.FIFO)
_KIND_DELAY, _KIND_TRANSACTION = int(MessageType.DELAY), int(MessageType.TRANSACTION)
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
    topic = encode(Resource(name=told.topic))
    source = Source(part.key.topic_id, partition)
    crc = topic_crc(source.topic_id)
    made = usual_messages(popped.messages, topic, same, (partition, number), crc, _shown_host)
    answers: list[bytes] = []
    for (seen, count), usual in zip(popped.messages, made, strict=True):
        answer = usual
        if answer is None:
            receipt = write_receipt(partition, seen.record.offset, number)
            message = _encoded(topic, seen, source, count, receipt, same)
            answer = encode_fields([(2, message)])
        answers.append(answer)
    return answers


def _same(told: Told, partition: int) -> bytes:
    """Return the system properties that all messages of an answer have."""
    return encode_fields(
        [
            (5, int(Encoding.IDENTITY)),
            (10, told.store_host),
            (13, partition),
            (15, _time_of(told.invisible_ms)),
        ]
    )


def _encoded(  # noqa: PLR0917  what all have in common, and what one has
    topic: bytes, seen: Seen, source: Source, count: int, receipt: bytes, same: bytes
) -> bytes:
    mapped = seen.message(source)
    properties = mapped.properties
    fields: list[Field] = [(1, topic)]
    for name, value in properties.items():
        if name not in _HIDDEN:
            fields.append((2, encode_fields([(1, name), (2, value)])))
    keys = properties.get(KEYS)
    digest = md5(mapped.body, usedforsecurity=False).hexdigest().upper()
    until_ms = _time(properties.get(DELIVER_MS))
    system: list[Field] = [] if not keys else [(2, key) for key in keys.split()]
    system += [
        (1, properties.get(TAGS)),
        (3, properties.get(UNIQ_KEY, "")),
        (4, _MD5 + digest.encode()),
        (6, _kind(properties, until_ms)),
        (7, _time_of(min(mapped.born_ms, TIME_MS_MAX))),
        (8, _text_of(mapped.born_host)),
        (9, _time_of(min(seen.record.timestamp_ms, TIME_MS_MAX))),
        (11, None if until_ms is None else _time_of(until_ms)),
        (12, receipt),
        (14, seen.record.offset),
        (16, mapped.reconsume_times + count),
        (17, properties.get(GROUP)),
        (18, properties.get(_TRACE)),
    ]
    fields += [(3, same + encode_fields(system)), (4, mapped.body)]
    return encode_fields(fields)


def _kind(properties: Mapping[str, str], until_ms: int | None) -> int:
    if _TRANSACTION in properties:
        return _KIND_TRANSACTION
    if until_ms is not None:
        return _KIND_DELAY
    return _KIND_NORMAL if GROUP not in properties else _KIND_FIFO


def _time(text: str | None) -> int | None:
    """Return the time that a property tells, in ms; None if it tells none."""
    if text is None or not (text.isascii() and text.isdecimal() and len(text) <= _DIGITS_MAX):
        return None
    return min(int(text), TIME_MS_MAX)


@lru_cache(maxsize=1_024)
def _text_of(host: Host) -> bytes:
    return f"{ip_address(host.address)}:{host.port}".encode()


@lru_cache(maxsize=1_024)
def _shown_host(header: bytes) -> bytes:
    """Return what clients see of the host in a header, which is short."""
    return _text_of(host_of(header.decode()))


@lru_cache(maxsize=256)
def _time_of(ms: int) -> bytes:
    """Return a time; messages of a batch share many."""
    seconds, rest = divmod(ms, 1_000)
    return encode_fields([(1, seconds or None), (2, rest * 1_000_000 or None)])
