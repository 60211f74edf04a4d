"""What all remoting clients do: look for routes, and talk to the master of a replica set.

A broker is a replica set, by name; its master has id 0 in a route. Whatever goes wrong, the route
is looked for again, as clients do every 30 s.

Source: RocketMQ `MQClientInstance`.
"""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from random import Random
from typing import Any, NamedTuple

import msgspec

from penstock.remoting.ids import located, read_offset_id
from penstock.remoting.wire.codes import RequestCode, ResponseCode
from penstock.remoting.wire.command import Command, Serialisation
from penstock.remoting.wire.message import Message
from penstock.remoting.wire.properties import write_properties
from simulator.clients.remoting.link import RemotingLink
from simulator.clients.wire import ANSWER_SECONDS, LinkFailed
from simulator.clients.world import ClientWorld
from simulator.history.remoting.events import Place
from simulator.history.remoting.sends import ORIGIN

BINARY_SHARE = 0.3
_MASTER = "0"


class Queue(NamedTuple):
    """A queue of a topic, as clients name it."""

    broker: str
    queue_id: int


class Route(NamedTuple):
    """Queues of a topic, and the addresses of masters by the names of their sets."""

    queues: tuple[Queue, ...]
    masters: Mapping[str, str]


@dataclass(slots=True, kw_only=True)
class RemotingClient:
    """One client, with its connections."""

    world: ClientWorld
    name: str
    random: Random
    last_error: str = ""
    binary_share: float = BINARY_SHARE
    """Of connections whose headers are binary."""
    _links: dict[str, RemotingLink] = field(default_factory=dict)
    """By address."""
    _routes: dict[str, Route] = field(default_factory=dict)
    """By topic."""

    async def route(self, topic: str) -> Route:
        """Return the route of a topic, looked for if it is not known. Raises LinkFailed."""
        if topic not in self._routes:
            link = await self.link(self.random.choice(self.world.remoting_addresses))
            answer = await link.call(RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": topic})
            if answer.code != ResponseCode.SUCCESS:
                raise LinkFailed(f"no route of {topic}: {answer.remark}")
            self._routes[topic] = _route_of(msgspec.json.decode(answer.body))
        return self._routes[topic]

    def look_again(self, topic: str, queues: int) -> None:
        """Forget a route that lacks some of a topic's queues.

        Sets whose members are all gone are left out of routes. They come back, and nothing that
        fails would tell: stock clients look for routes every 30 s.
        """
        known = self._routes.get(topic)
        if known is not None and len(known.queues) < queues:
            del self._routes[topic]

    async def any_queue(self, topic: str) -> Queue:
        """Return one of a topic's queues. Raises LinkFailed."""
        return self.random.choice((await self.route(topic)).queues)

    async def master(self, topic: str, broker: str) -> RemotingLink:
        """Return a link to the master of a set that has queues of a topic. Raises LinkFailed."""
        address = (await self.route(topic)).masters.get(broker)
        if address is None:
            raise LinkFailed(f"{broker} has no master in the route of {topic}")
        return await self.link(address)

    async def link(self, address: str) -> RemotingLink:
        """Return a link to a broker. Raises LinkFailed."""
        known = self._links.get(address)
        if known is None or known.is_closed:
            is_binary = self.random.random() < self.binary_share
            how = Serialisation.BINARY if is_binary else Serialisation.JSON
            opened = await RemotingLink.open(address, self.on_request, how)
            # Another task of this client may have opened one meanwhile.
            other = self._links.get(address)
            if other is not None and not other.is_closed:
                opened.close()
                return other
            self._links[address] = known = opened
        return known

    async def ask(
        self,
        topic: str,
        broker: str,
        code: int,
        fields: Mapping[str, object],
        body: bytes = b"",
        *,
        wait_s: float = ANSWER_SECONDS,
    ) -> Command:
        """Ask the master of a set. Raises LinkFailed."""
        link = await self.master(topic, broker)
        return await link.call(code, {**fields, "bname": broker}, body, wait_s=wait_s)

    def on_request(self, link: RemotingLink, command: Command) -> None:
        """Hear what a broker asks; most clients are told of their groups alone."""

    def failed(self, error: LinkFailed) -> None:
        """Look for routes again."""
        self.last_error = str(error)
        self._routes.clear()

    def hang_up(self) -> None:
        """End all connections without a word, and forget everything."""
        for link in self._links.values():
            link.close()
        self._links.clear()
        self._routes.clear()

    async def idle(self, seconds: tuple[float, float]) -> None:
        """Wait a little."""
        await asyncio.sleep(self.random.uniform(*seconds))


def _route_of(told: Any) -> Route:
    masters = {
        one["brokerName"]: one["brokerAddrs"][_MASTER]
        for one in told["brokerDatas"]
        if _MASTER in one["brokerAddrs"]
    }
    queues = [
        Queue(one["brokerName"], number)
        for one in told["queueDatas"]
        for number in range(one["readQueueNums"])
    ]
    return Route(tuple(queues), masters)


def send_fields(
    group: str, topic: str, queue: Queue, properties: str, **more: object
) -> dict[str, object]:
    """Return the fields of SEND_MESSAGE_V2 and SEND_BATCH_MESSAGE, with these changed."""
    usual = {"a": group, "b": topic, "c": "TBW102", "d": 4, "e": queue.queue_id, "f": 0, "g": 0}
    usual |= {"h": 0, "i": properties, "j": 0, "k": "false", "m": "false", "n": queue.broker}
    return usual | more


def properties_of(value: str, more: Mapping[str, str] | None = None) -> str:
    """Return the properties of a message with this value."""
    return write_properties({"UNIQ_KEY": f"ID-{value}", ORIGIN: value, **(more or {})})


def place_of(locator: int) -> Place | None:
    """Return the place that a locator means, whatever topic it is of."""
    found = located(locator)
    return None if found is None else (found.partition, found.offset)


def places_told(answer: Command) -> list[Place | None]:
    """Return the places that the answer to a send names."""
    return [place_of(read_offset_id(one)[1]) for one in answer.fields["msgId"].split(",")]


def value_of(message: Message) -> str:
    """Return a message's body as text."""
    return bytes(message.body).decode()
