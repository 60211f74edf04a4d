"""The body of HEART_BEAT: who a client is, and which groups it belongs to.

    {"clientID": …, "consumerDataSet": [{"groupName": …, "consumeType": …, "messageModel": …,
     "consumeFromWhere": …, "subscriptionDataSet": [{"topic": …, "subString": …,
     "expressionType": …, "subVersion": …}]}], "producerDataSet": [{"groupName": …}]}

Source: RocketMQ `HeartbeatData`, `ConsumerData`, `SubscriptionData`. Unknown members are skipped.
Heartbeats that leave out subscriptions (version 2, by fingerprint) are not asked for, so no client
sends one.
"""

from collections.abc import Generator, Sequence
from typing import Final, NamedTuple

import msgspec

from penstock.base.ports import Buffer
from penstock.remoting.errors import MalformedBody

NAME_BYTES_MAX: Final = 255
"""Bytes of the name of a client or a group, which stay in memory."""
GROUPS_MAX: Final = 1_000
SUBSCRIPTIONS_MAX: Final = 1_000
"""Of one group."""
SLICE_BYTES: Final = 32 << 10
"""Of a body that is read in one turn, and a group more: a quarter of a millisecond."""


class Subscription(msgspec.Struct, frozen=True, rename="camel"):
    """What a consumer wants of one topic."""

    topic: str
    sub_string: str = "*"
    expression_type: str | None = None
    sub_version: int = 0


class ConsumerGroup(msgspec.Struct, frozen=True, rename="camel"):
    """A group of which the client is a consumer."""

    group_name: str
    consume_type: str = "CONSUME_PASSIVELY"
    message_model: str = "CLUSTERING"
    consume_from_where: str = "CONSUME_FROM_LAST_OFFSET"
    subscriptions: tuple[Subscription, ...] = msgspec.field(default=(), name="subscriptionDataSet")


class ProducerGroup(msgspec.Struct, frozen=True, rename="camel"):
    """A group of which the client is a producer."""

    group_name: str


class Heartbeat(NamedTuple):
    """A heartbeat of a client."""

    client_id: str
    consumers: Sequence[ConsumerGroup] = ()
    producers: Sequence[ProducerGroup] = ()


class _Heartbeat(msgspec.Struct, frozen=True):
    """A heartbeat whose groups are not read yet: they may have 75,000 subscriptions."""

    client_id: str = msgspec.field(name="clientID")
    consumers: tuple[msgspec.Raw, ...] = msgspec.field(default=(), name="consumerDataSet")
    producers: tuple[ProducerGroup, ...] = msgspec.field(default=(), name="producerDataSet")


class _Checked(msgspec.Struct, frozen=True):
    subscription: Subscription = msgspec.field(name="subscriptionData")


_decode_checked: Final = msgspec.json.Decoder(_Checked).decode
_decode: Final = msgspec.json.Decoder(_Heartbeat).decode
_decode_group: Final = msgspec.json.Decoder(ConsumerGroup).decode
_NOT_JSON: Final = (msgspec.MsgspecError, UnicodeError, RecursionError)


def read_heartbeat(body: Buffer) -> Heartbeat:
    """Return a heartbeat. Raises MalformedBody."""
    work = read_in_slices(body)
    while True:
        try:
            next(work)
        except StopIteration as end:
            heartbeat: Heartbeat = end.value
            return heartbeat


def read_in_slices(body: Buffer) -> Generator[None, None, Heartbeat]:
    """Return a heartbeat, some work in a slice. Raises MalformedBody. `body` stays as it is."""
    try:
        heartbeat = _decode(body)
        if len(heartbeat.consumers) + len(heartbeat.producers) > GROUPS_MAX:
            raise MalformedBody(f"more than {GROUPS_MAX} groups in a heartbeat")
        consumers: list[ConsumerGroup] = []
        read = 0
        for raw in heartbeat.consumers:
            consumers.append(_decode_group(raw))
            read += len(memoryview(raw))
            if read >= SLICE_BYTES:
                read = 0
                yield
    except _NOT_JSON as error:
        raise MalformedBody("a body that is not the JSON of a heartbeat") from error
    if any(len(one.subscriptions) > SUBSCRIPTIONS_MAX for one in consumers):
        raise MalformedBody(f"more than {SUBSCRIPTIONS_MAX} subscriptions of a group")
    groups: list[ConsumerGroup | ProducerGroup] = [*consumers, *heartbeat.producers]
    for name in (heartbeat.client_id, *(one.group_name for one in groups)):
        if not 0 < len(name.encode()) <= NAME_BYTES_MAX:
            raise MalformedBody(f"a name of {len(name.encode())} bytes")
    return Heartbeat(heartbeat.client_id, tuple(consumers), heartbeat.producers)


def read_checked(body: Buffer) -> Subscription:
    """Return what CHECK_CLIENT_CONFIG asks about. Raises MalformedBody."""
    try:
        return _decode_checked(body).subscription
    except _NOT_JSON as error:
        raise MalformedBody("a body that is not the JSON of a client's configuration") from error
