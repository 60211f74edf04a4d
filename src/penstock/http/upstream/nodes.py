"""The nodes, as one identity reaches them: routes, one connection for each node, retries.

    route ─► master of the queue ─► ask ─► answer
      ▲                              └─ no node, no master, not now ─► pause, doubling ─┐
      └──────────────────────────── the route is asked for again ◄──────────────────────┘

A route is kept for ROUTE_S, and until something fails. Identities never share a connection: a node
knows a connection by the user who signs.

Source: RocketMQ `MQClientInstance`; ours.
"""

import asyncio
import random
import ssl
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final, NamedTuple, TypeVar

from penstock.base.ports import Buffer
from penstock.http.upstream.connection import Credentials, NodeConnection, open_connection
from penstock.http.upstream.errors import (
    NodeLost,
    NodeRefused,
    NoMaster,
    OutOfTime,
    UpstreamError,
    may_pass,
)
from penstock.http.upstream.routes import Route, read_route
from penstock.remoting.wire.codes import RequestCode, ResponseCode
from penstock.remoting.wire.command import Command

T = TypeVar("T")

ROUTE_S: Final = 30.0
ROUTES_MAX: Final = 1_000
"""Topics whose routes are kept."""
KNOWN_MAX: Final = 100
"""Addresses beside the given ones that routes are asked for at."""
ANSWER_S: Final = 10.0
RETRY_FIRST_S, RETRY_MOST_S = 0.05, 1.0
_NO_TOPIC: Final = "TBW102"
"""A topic that never exists: every node answers so."""


class Asked(NamedTuple):
    """A request to the master of a replica set."""

    code: RequestCode
    fields: Mapping[str, str]
    body: Buffer = b""
    timeout_s: float = ANSWER_S


class Nodes:
    """See the module."""

    def __init__(
        self,
        bootstrap: Sequence[str],
        credentials: Credentials | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        """`bootstrap` are addresses of nodes' ports for remoting clients; at least one."""
        self._bootstrap = tuple(bootstrap)
        self._credentials = credentials
        self._tls = tls
        self._known: dict[str, None] = {}
        self._routes: OrderedDict[str, tuple[float, Route]] = OrderedDict()
        self._connections: dict[str, NodeConnection] = {}
        self._opening: dict[str, asyncio.Task[NodeConnection]] = {}

    def close(self) -> None:
        """End all connections."""
        for opening in self._opening.values():
            opening.cancel()
        for connection in self._connections.values():
            connection.close()
        self._connections.clear()

    @property
    def pending(self) -> int:
        """Requests that wait for their answers."""
        return sum(one.pending for one in self._connections.values())

    # Routes

    async def route(self, topic: str) -> Route:
        """Return a topic's route, from memory if it is fresh. Raises UpstreamError."""
        now = asyncio.get_running_loop().time()
        known = self._routes.get(topic)
        if known is not None and known[0] > now:
            self._routes.move_to_end(topic)
            return known[1]
        fields = {"topic": topic}
        answer = checked(await self._ask_any(RequestCode.GET_ROUTEINFO_BY_TOPIC, fields))
        route = read_route(answer.body)
        self._routes[topic] = (now + ROUTE_S, route)
        while len(self._routes) > ROUTES_MAX:
            self._routes.popitem(last=False)
        for address in sorted(route.addresses - self._known.keys()):
            if len(self._known) >= KNOWN_MAX:
                del self._known[next(iter(self._known))]
            self._known[address] = None
        return route

    def forget(self, topic: str) -> None:
        """Ask for the route of a topic when it is needed next."""
        self._routes.pop(topic, None)

    async def is_reached(self) -> bool:
        """Whether a node answers, whatever it says."""
        try:
            await self._ask_any(RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": _NO_TOPIC})
        except UpstreamError:
            return False
        return True

    async def _ask_any(self, code: RequestCode, fields: Mapping[str, str]) -> Command:
        """Return the first answer of any node. Raises the last NodeLost."""
        addresses = list(dict.fromkeys((*self._bootstrap, *self._known)))
        random.shuffle(addresses)
        # Those that are connected first: the others may be down.
        addresses.sort(key=lambda one: not self._is_connected(one))
        last: UpstreamError = NodeLost("", "no address of a node is known", is_unsent=True)
        for address in addresses:
            try:
                connection = await self._connection(address)
                return await connection.ask(code, fields, timeout_s=ANSWER_S)
            except UpstreamError as error:
                last = error
        raise last

    # Requests

    async def ask(self, topic: str, broker: str, asked: Asked) -> Command:
        """Return the answer of the master of a replica set. Raises UpstreamError."""
        route = await self.route(topic)
        address = route.masters.get(broker)
        if address is None:
            raise NoMaster(topic, broker)
        connection = await self._connection(address)
        code, fields, body, timeout_s = asked
        return await connection.ask(code, fields, body, timeout_s=timeout_s)

    def _is_connected(self, address: str) -> bool:
        connection = self._connections.get(address)
        return connection is not None and not connection.is_lost

    async def _connection(self, address: str) -> NodeConnection:
        """Return the connection to an address; who comes meanwhile waits for the same one."""
        if self._is_connected(address):
            return self._connections[address]
        opening = self._opening.get(address)
        if opening is None:
            opening = asyncio.create_task(open_connection(address, self._credentials, self._tls))
            self._opening[address] = opening
            opening.add_done_callback(lambda done: self._opened(address, done))
        # Whoever asked first may go away; the others still want it.
        return await asyncio.shield(opening)

    def _opened(self, address: str, done: "asyncio.Task[NodeConnection]") -> None:
        self._opening.pop(address, None)
        if not done.cancelled() and done.exception() is None:
            self._connections[address] = done.result()
        elif address in self._connections:
            del self._connections[address]

    # Retries

    async def retrying(self, topic: str, seconds: float, attempt: Callable[[], Awaitable[T]]) -> T:
        """Return what `attempt` returns, again and again for so long after what may pass.

        Raises all other errors at once, and OutOfTime.
        """
        loop = asyncio.get_running_loop()
        deadline, pause_s = loop.time() + seconds, RETRY_FIRST_S
        while True:
            try:
                return await attempt()
            except UpstreamError as error:
                self.forget(topic)
                if not may_pass(error):
                    raise
                if loop.time() + pause_s > deadline:
                    raise OutOfTime(error) from error
            await asyncio.sleep(pause_s * random.uniform(0.5, 1.0))  # noqa: S311  no secret
            pause_s = min(2 * pause_s, RETRY_MOST_S)


def checked(answer: Command) -> Command:
    """Return an answer that is a success. Raises NodeRefused."""
    if answer.code != ResponseCode.SUCCESS:
        raise NodeRefused(answer.code, answer.remark)
    return answer
