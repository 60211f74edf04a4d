"""Producers that this node knows: those whose stream of settings is open, by the topics they told.

    settings with topics ─► known ─► heard: heartbeats ─► silent, or its stream ends

They are asked what has become of their transactions (asking.py). A producer of gRPC has no group:
any that has told a topic may be asked about a transaction in it, one after another.

Source: RocketMQ's proxy `ClientActivity`, which registers each topic as a producer group.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import islice
from typing import Final, Generic, TypeVar

from penstock.base.errors import PlatformError

PRODUCERS_MAX: Final = 20_000
"""Topics of all producers together, 1 KiB each at most."""
HEARD_MS: Final = 30_000
"""Three heartbeats; who is silent for longer is not asked."""
LOOKED_MAX: Final = 100
"""Producers that are looked at for one question; the next question begins with those behind them.
Many that may not be asked do not hold the loop by their number."""

StreamT = TypeVar("StreamT")


class TooManyProducers(PlatformError):
    """No producer can come before others leave."""


class _Known(Generic[StreamT]):
    __slots__ = ("heard_ms", "stream", "topics")

    def __init__(self, topics: Sequence[str], stream: StreamT, heard_ms: int) -> None:
        self.topics = topics
        self.stream = stream
        self.heard_ms = heard_ms


class Producers(Generic[StreamT]):
    """See the module; one for each node. Times are monotonic."""

    def __init__(self, most: int = PRODUCERS_MAX) -> None:
        self._most = most
        self._known: dict[str, _Known[StreamT]] = {}
        self._of: dict[str, dict[str, None]] = {}
        """Clients by topic, the one that was not asked for longest first."""
        self.count = 0
        """Topics, each with a producer of it."""

    def settle(self, client_id: str, topics: Sequence[str], stream: StreamT, now_ms: int) -> None:
        """Note a producer that tells its settings, again or anew. Raises TooManyProducers."""
        topics = tuple(dict.fromkeys(topics))
        known = self._known.get(client_id)
        before = () if known is None else known.topics
        if self.count - len(before) + len(topics) > self._most:
            raise TooManyProducers(f"producers of {self._most} topics are here already")
        for topic in [one for one in before if one not in topics]:
            self._leave(topic, client_id)
        for topic in topics:
            self._of.setdefault(topic, {}).setdefault(client_id)
        self.count += len(topics) - len(before)
        if topics:
            self._known[client_id] = _Known(topics, stream, now_ms)
        else:
            self._known.pop(client_id, None)  # nobody would ask it

    def hear(self, client_id: str, now_ms: int) -> None:
        """Note that a producer is there; of one that is not known nothing is kept."""
        known = self._known.get(client_id)
        if known is not None:
            known.heard_ms = now_ms

    def leave(self, client_id: str, stream: StreamT) -> None:
        """Forget a producer whose stream has ended, unless it has a newer one."""
        known = self._known.get(client_id)
        if known is None or known.stream is not stream:
            return
        del self._known[client_id]
        self.count -= len(known.topics)
        for topic in known.topics:
            self._leave(topic, client_id)

    def next_of(self, topic: str, is_fit: Callable[[StreamT], bool], now_ms: int) -> StreamT | None:
        """Return the stream of a producer of a topic that was heard lately and is fit."""
        clients = self._of.get(topic, {})
        for client_id in list(islice(clients, LOOKED_MAX)):
            known = self._known[client_id]
            clients[client_id] = clients.pop(client_id)
            if now_ms - known.heard_ms < HEARD_MS and is_fit(known.stream):
                return known.stream
        return None

    def _leave(self, topic: str, client_id: str) -> None:
        clients = self._of[topic]
        del clients[client_id]
        if not clients:
            del self._of[topic]
