"""Routes of topics: which replica sets have queues of a topic, and where their masters are.

Source: RocketMQ `TopicRouteData`; remoting/routes.py writes them.
"""

from typing import Final, NamedTuple

import msgspec

from penstock.base.ports import Buffer
from penstock.http.upstream.errors import NodeRefused
from penstock.remoting.wire.codes import ResponseCode

_MASTER: Final = "0"


class _Broker(msgspec.Struct, rename="camel"):
    broker_name: str
    broker_addrs: dict[str, str]


class _Queues(msgspec.Struct, rename="camel"):
    broker_name: str
    write_queue_nums: int


class _RouteData(msgspec.Struct, rename="camel"):
    broker_datas: list[_Broker]
    queue_datas: list[_Queues]


_decode: Final = msgspec.json.Decoder(_RouteData).decode


class QueueName(NamedTuple):
    """A queue of a topic, as clients number it."""

    broker: str
    queue_id: int


class Route(NamedTuple):
    """The queues of a topic, and the masters that are known."""

    queues: tuple[QueueName, ...]
    masters: dict[str, str]
    """Addresses by broker name."""
    addresses: frozenset[str]
    """Of all members: each of them tells routes."""

    @property
    def brokers(self) -> tuple[str, ...]:
        """The names of the replica sets, in order."""
        return tuple(dict.fromkeys(queue.broker for queue in self.queues))


def read_route(body: Buffer) -> Route:
    """Return what a node tells. Raises NodeRefused for what is no route."""
    try:
        data = _decode(body)
    except msgspec.MsgspecError as error:
        raise NodeRefused(ResponseCode.SYSTEM_ERROR, f"a route that is none: {error}") from error
    masters = {
        broker.broker_name: broker.broker_addrs[_MASTER]
        for broker in data.broker_datas
        if _MASTER in broker.broker_addrs
    }
    addresses = frozenset(
        address for broker in data.broker_datas for address in broker.broker_addrs.values()
    )
    queues = tuple(
        QueueName(one.broker_name, number)
        for one in sorted(data.queue_datas, key=lambda one: one.broker_name)
        for number in range(one.write_queue_nums)
    )
    return Route(queues, masters, addresses)
