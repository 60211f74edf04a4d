"""Queues of a topic, as gRPC clients know them.

A queue is a partition, and its broker is the node that leads it: what clients send goes to the
address of a queue. To them a master has the id 0. What nobody leads, or what is led by a node that
they do not reach, is left out.

    the first queue of each node    0: which of its partitions is the node's choice
    any other                       the number of its partition

Each of RocketMQ's brokers has a queue 0, and Node's client (1.0.8) sends to and receives from no
other, since it takes the number of a queue for the id of its broker.

Source: apache.rocketmq.v2 `MessageQueue`. Queues of a topic differ in their number alone where one
node leads them, so the rest is encoded once for each node: a topic may have 10,000.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from ipaddress import ip_address
from typing import Final

from penstock.base.ids import BrokerId
from penstock.configs.message_types import MIXED
from penstock.grpc.proto.messages import Address, Broker, Endpoints, MessageQueue, Resource
from penstock.grpc.statuses import AddressScheme, MessageType, Permission
from penstock.protobuf.codec import encode
from penstock.protobuf.wire import VARINT, add_field, add_varint

ACCEPTED: Final = (
    MessageType.NORMAL,
    MessageType.FIFO,
    MessageType.DELAY,
    MessageType.TRANSACTION,
)
"""Kinds of messages that a topic of the type MIXED takes."""
_QUEUES_FIELD: Final = 2
_ID_TAG: Final = 2 << 3 | VARINT


def endpoints_of(address: Address) -> Endpoints:
    """Return an address with what kind of host it has."""
    try:
        is_six = ip_address(address.host).version == 6
    except ValueError:
        scheme = AddressScheme.DOMAIN_NAME
    else:
        scheme = AddressScheme.IPV6 if is_six else AddressScheme.IPV4
    return Endpoints(scheme=scheme, addresses=(address,))


def accepted_by(message_type: str) -> Sequence[MessageType]:
    """Return the kinds of messages that a topic of a type takes."""
    return ACCEPTED if message_type == MIXED else (MessageType[message_type],)


def encoded_queues(
    topic: str,
    leaders: Sequence[BrokerId | None],
    endpoints: Callable[[BrokerId], Endpoints | None],
    accepted: Sequence[MessageType] = ACCEPTED,
) -> bytes:
    """Return the queues of a topic as fields of a QueryRouteResponse; nothing if there is none.

    `leaders` are the masters of its partitions, in order.
    """
    rest_of: dict[BrokerId, bytes | None] = {}
    out = bytearray()
    for partition, leader in enumerate(leaders):
        if leader is None:
            continue
        is_first = leader not in rest_of
        if is_first:
            rest_of[leader] = _rest(topic, leader, endpoints(leader), accepted)
        rest = rest_of[leader]
        if rest is not None:
            queue = bytearray()
            if not is_first:
                add_varint(queue, _ID_TAG)
                add_varint(queue, partition)
            add_field(out, _QUEUES_FIELD, rest + queue)
    return bytes(out)


def _rest(
    topic: str, leader: BrokerId, endpoints: Endpoints | None, accepted: Sequence[MessageType]
) -> bytes | None:
    """Return all of a queue but its number; None if its leader is not reached."""
    if endpoints is None:
        return None
    queue = leading_queue(topic, leader, endpoints)
    return encode(replace(queue, accept_message_types=accepted))


def leading_queue(
    topic: str, leader: BrokerId, endpoints: Endpoints, queue_id: int = 0
) -> MessageQueue:
    """Return a queue of a node."""
    return MessageQueue(
        topic=Resource(name=topic),
        id=queue_id,
        permission=Permission.READ_WRITE,
        broker=Broker(name=f"node-{leader}", endpoints=endpoints),
        accept_message_types=ACCEPTED,
    )
