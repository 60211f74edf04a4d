"""What all gRPC clients do: look for routes, and call the node that leads a queue.

Whatever goes wrong, the route is looked for again; so it is after some seconds, as stock clients do
every 30 s.

Source: RocketMQ 5 `ClientImpl`, `ClientManagerImpl`.
"""

import asyncio
from dataclasses import dataclass, field
from random import Random
from typing import Any, NamedTuple, TypeVar

from penstock.grpc.proto.messages import (
    Duration,
    MessageQueue,
    QueryRouteRequest,
    QueryRouteResponse,
    Resource,
    Status,
)
from penstock.grpc.statuses import Code
from penstock.protobuf.codec import decode, encode
from simulator.clients.grpc.link import GrpcLink
from simulator.clients.wire import ANSWER_SECONDS, LinkFailed
from simulator.clients.world import ClientWorld, now_ns

PACKED_SHARE, NARROW_SHARE = 0.05, 0.1
"""Of calls whose message is gzip; of connections with small windows."""
WINDOW_BYTES = 2_000
ROUTED_SECONDS = 5
"""How long a route is good for."""
_T = TypeVar("_T")


class Queue(NamedTuple):
    """A queue of a topic, and where who leads it is reached."""

    queue_id: int
    address: str


@dataclass(slots=True, kw_only=True)
class GrpcClient:
    """One client, with its connections."""

    world: ClientWorld
    name: str
    random: Random
    last_error: str = ""
    _links: dict[str, GrpcLink] = field(default_factory=dict)
    """By address."""
    _routes: dict[str, tuple[Queue, ...]] = field(default_factory=dict)
    """By topic."""
    _routed_ns: int = 0
    """When the oldest of them was asked for."""

    async def route(self, topic: str) -> tuple[Queue, ...]:
        """Return the queues of a topic. Raises LinkFailed.

        They are asked for anew after some seconds, as stock clients do: who finds some queue at
        each of the nodes that it knows would hear of no other.
        """
        if now_ns() - self._routed_ns > ROUTED_SECONDS * 1_000_000_000:
            self._routes.clear()
            self._routed_ns = now_ns()
        if topic not in self._routes:
            request = QueryRouteRequest(topic=Resource(name=topic))
            told = await self.ask(self.any_address(), "QueryRoute", request, QueryRouteResponse)
            checked(told.status)
            self._routes[topic] = tuple(
                Queue(one.id, address_of(one)) for one in told.message_queues
            )
        return self._routes[topic]

    async def any_queue(self, topic: str) -> Queue:
        """Return one of a topic's queues. Raises LinkFailed."""
        return self.random.choice(await self.route(topic))

    async def led_at(self, topic: str, partition: int) -> str:
        """Return where who leads a partition is reached, or may be. Raises LinkFailed.

        The first queue of each node has the number 0. They are told in order, so one without its
        own number is where it is counted, unless some before it are led by nobody.
        """
        queues = await self.route(topic)
        for one in queues:
            if one.queue_id == partition:
                return one.address
        if partition < len(queues) and not queues[partition].queue_id:
            return queues[partition].address
        raise LinkFailed(f"nobody is known to lead {partition} of {topic}")

    def any_address(self) -> str:
        """Return where some node is reached."""
        return self.random.choice(self.world.grpc_addresses)

    async def link(self, address: str) -> GrpcLink:
        """Return a connection. Raises LinkFailed."""
        known = self._links.get(address)
        if known is not None and not known.is_closed:
            return known
        opened = await GrpcLink.open(address)
        # Another task of this client may have opened one meanwhile.
        other = self._links.get(address)
        if other is not None and not other.is_closed:
            opened.close()
            return other
        self._links[address] = opened
        if self.random.random() < NARROW_SHARE:
            opened.narrow(WINDOW_BYTES)
        try:
            await self.greet(opened)
        except LinkFailed:
            opened.close()
            raise
        return opened

    async def greet(self, link: GrpcLink) -> None:
        """Tell a node the settings, where this client has some. Raises LinkFailed."""

    async def ask(
        self,
        address: str,
        method: str,
        request: Any,
        answer: type[_T],
        *,
        wait_s: float = ANSWER_SECONDS,
        deadline_ms: int | None = None,
    ) -> _T:
        """Call a method that has one answer. Raises LinkFailed."""
        link = await self.link(address)
        is_packed = self.random.random() < PACKED_SHARE
        messages = await link.call(
            method,
            encode(request),
            self.name,
            wait_s=wait_s,
            deadline_ms=deadline_ms,
            is_packed=is_packed,
        )
        if len(messages) != 1:
            raise LinkFailed(f"{method} has {len(messages)} answers")
        return decode(answer, messages[0])

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


def address_of(queue: MessageQueue) -> str:
    """Return where who leads a queue is reached. Raises LinkFailed."""
    endpoints = None if queue.broker is None else queue.broker.endpoints
    if endpoints is None or not endpoints.addresses:
        raise LinkFailed("a queue without an address")
    first = endpoints.addresses[0]
    return f"{first.host}:{first.port}"


def checked(status: Status | None) -> None:
    """Check that an answer says OK. Raises LinkFailed."""
    if status is None or status.code != Code.OK:
        raise LinkFailed(f"{name_of(status)}: {'' if status is None else status.message}")


def name_of(status: Status | None) -> str:
    """Return the name of what an answer says."""
    return "no status" if status is None else Code(status.code).name


def duration(ms: int) -> Duration:
    """Return a time."""
    return Duration(seconds=ms // 1_000, nanos=ms % 1_000 * 1_000_000)
