"""The body of HEART_BEAT: who a client is, and which groups it belongs to.

    {"clientID": …, "consumerDataSet": [{"groupName": …, "consumeType": …, "messageModel": …,
     "consumeFromWhere": …, "subscriptionDataSet": [{"topic": …, "subString": …,
     "expressionType": …, "subVersion": …}]}], "producerDataSet": [{"groupName": …}]}

Source: RocketMQ `HeartbeatData`, `ConsumerData`, `SubscriptionData`. Unknown members are skipped.
Heartbeats that leave out subscriptions (version 2, by fingerprint) are not asked for, so no client
sends one.
"""

from typing import Final

import msgspec

from penstock.base.ports import Buffer
from penstock.remoting.errors import MalformedBody

NAME_BYTES_MAX: Final = 255
"""Bytes of the name of a client or a group, which stay in memory."""
GROUPS_MAX: Final = 1_000
SUBSCRIPTIONS_MAX: Final = 1_000
"""Of one group."""


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


class Heartbeat(msgspec.Struct, frozen=True):
    """A heartbeat of a client."""

    client_id: str = msgspec.field(name="clientID")
    consumers: tuple[ConsumerGroup, ...] = msgspec.field(default=(), name="consumerDataSet")
    producers: tuple[ProducerGroup, ...] = msgspec.field(default=(), name="producerDataSet")


class _Checked(msgspec.Struct, frozen=True):
    subscription: Subscription = msgspec.field(name="subscriptionData")


_decode_checked: Final = msgspec.json.Decoder(_Checked).decode
_decode: Final = msgspec.json.Decoder(Heartbeat).decode


def read_heartbeat(body: Buffer) -> Heartbeat:
    """Return a heartbeat. Raises MalformedBody."""
    try:
        heartbeat = _decode(body)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        raise MalformedBody("a body that is not the JSON of a heartbeat") from error
    groups = [one.group_name for one in heartbeat.consumers]
    groups += [one.group_name for one in heartbeat.producers]
    if len(groups) > GROUPS_MAX:
        raise MalformedBody(f"{len(groups)} groups in a heartbeat")
    if any(len(one.subscriptions) > SUBSCRIPTIONS_MAX for one in heartbeat.consumers):
        raise MalformedBody(f"more than {SUBSCRIPTIONS_MAX} subscriptions of a group")
    for name in (heartbeat.client_id, *groups):
        if not 0 < len(name.encode()) <= NAME_BYTES_MAX:
            raise MalformedBody(f"a name of {len(name.encode())} bytes")
    return heartbeat


def read_checked(body: Buffer) -> Subscription:
    """Return what CHECK_CLIENT_CONFIG asks about. Raises MalformedBody."""
    try:
        return _decode_checked(body).subscription
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        raise MalformedBody("a body that is not the JSON of a client's configuration") from error
