"""What all calls of a process share: the nodes by identity, bounds, counts, and whether it ends.

Source: ours.
"""

import asyncio
import ssl
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from penstock.http.call import Call
from penstock.http.limits import Held, Limits
from penstock.http.operations.flight import Flight
from penstock.http.places import Places
from penstock.http.problems import busy, stopping
from penstock.http.tokens import Token, Tokens
from penstock.http.upstream.connection import Credentials
from penstock.http.upstream.nodes import Nodes
from penstock.http.upstream.watches import Watches

HEALTH_FRESH_S: Final = 1.0
IDENTITIES_MAX: Final = 1_000
"""Access keys with connections of their own; the one that was used least recently gives way."""


class Identity:
    """The nodes as one access key, or none, reaches them."""

    def __init__(self, nodes: Nodes) -> None:
        self.nodes = nodes
        self.watches = Watches(nodes)
        self.calls = 0

    def close(self) -> None:
        """End its connections."""
        self.watches.close()
        self.nodes.close()


class Health:
    """Asks whether a node answers, once in HEALTH_FRESH_S however many want to know."""

    def __init__(self, front: "Front") -> None:
        self._front = front
        self._asked: asyncio.Task[bool] | None = None
        self._fresh_until = 0.0

    async def is_reached(self) -> bool:
        """Whether a node answers."""
        now = asyncio.get_running_loop().time()
        if self._asked is None or (self._asked.done() and now > self._fresh_until):
            self._fresh_until = now + HEALTH_FRESH_S
            self._asked = asyncio.create_task(self._ask())
        return await asyncio.shield(self._asked)

    async def _ask(self) -> bool:
        with self._front.used_as(self._front.tokens().credentials) as identity:
            return await identity.nodes.is_reached()


class Stats:
    """What is counted since the start."""

    def __init__(self) -> None:
        self.requests: Counter[tuple[str, int]] = Counter()
        """By operation and status."""
        self.messages: Counter[str] = Counter()
        """By what became of them."""
        self.waiting: Counter[str] = Counter()
        """Receives and streams that are open, by the name of their token."""
        self.refused_connections = 0
        self.slow_clients = 0


class Front:
    """See the module."""

    def __init__(
        self,
        bootstrap: Sequence[str],
        tokens: Callable[[], Tokens],
        *,
        node_tls: ssl.SSLContext | None = None,
        limits: Limits | None = None,
    ) -> None:
        """`tokens` may return others at any time."""
        self.limits = limits or Limits()
        self.held = Held()
        self.stats = Stats()
        self.tokens = tokens
        self.stopping = asyncio.Event()
        self.places = Places(self.limits.connections_max)
        self.streams: dict[tuple[str, str, str], list[Flight]] = {}
        """By token's name, topic and group: who hears what is said of messages."""
        self._bootstrap = tuple(bootstrap)
        self._node_tls = node_tls
        self._identities: dict[Credentials | None, Identity] = {}
        self.health = Health(self)

    def identity(self, credentials: Credentials | None) -> Identity:
        """Return the nodes as an access key reaches them."""
        found = self._identities.pop(credentials, None)
        if found is None:
            if len(self._identities) >= IDENTITIES_MAX:
                self._drop_one()
            found = Identity(Nodes(self._bootstrap, credentials, self._node_tls))
        self._identities[credentials] = found
        return found

    def _drop_one(self) -> None:
        for key, identity in self._identities.items():
            if not identity.calls:
                del self._identities[key]
                identity.close()
                return
        detail = "too many access keys are in use at a time"
        raise busy("too-many-identities", detail, "send it again a little later")

    @property
    def node_requests(self) -> int:
        """Requests that wait for nodes."""
        return sum(one.nodes.pending for one in self._identities.values())

    @contextmanager
    def used(self, token: Token) -> Iterator[Identity]:
        """Use the nodes as a token's user reaches them."""
        with self.used_as(token.credentials) as identity:
            yield identity

    @contextmanager
    def used_as(self, credentials: Credentials | None) -> Iterator[Identity]:
        """Use the nodes as an access key reaches them, which stays as long."""
        identity = self.identity(credentials)
        identity.calls += 1
        try:
            yield identity
        finally:
            identity.calls -= 1

    @contextmanager
    def waiting(self, token: Token) -> Iterator[None]:
        """Count a call that waits. Raises Problem for one too many, and once the process ends."""
        if self.stopping.is_set():
            raise stopping()
        if self.stats.waiting[token.name] >= self.limits.waits_max:
            detail = f"{self.limits.waits_max} receives and streams of this token are open"
            raise busy("too-many-waits", detail, "end one of them, or ask for less at a time")
        self.stats.waiting[token.name] += 1
        try:
            yield
        finally:
            self.stats.waiting[token.name] -= 1
            if not self.stats.waiting[token.name]:
                del self.stats.waiting[token.name]

    def may_consume(self, call: Call, topic: str, group: str) -> bool:
        """Whether the token of a call is still one, and still for this topic and group."""
        token = self.tokens().find(call.bearer)
        return token is not None and topic in token.consume and group in token.groups

    def close(self) -> None:
        """End all connections to nodes."""
        for identity in self._identities.values():
            identity.close()
        self._identities.clear()
