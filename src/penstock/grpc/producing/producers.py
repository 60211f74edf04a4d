"""Producers that this node knows: those whose stream of settings is open, by the topics they told.

    settings with topics ─► known ─► heard: heartbeats ─► silent, or its stream ends

They are asked what has become of their transactions (asking.py). A producer of gRPC has no group:
any that has told a topic may be asked about a transaction in it, one after another. Anybody may
tell any topic, so users take turns (remoting/halves/turns.py), and each leaves a quarter of the
seats to others.

Source: RocketMQ's proxy `ClientActivity`, which registers each topic as a producer group.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, Generic, TypeVar

from penstock.base.errors import PlatformError
from penstock.remoting.halves.turns import Turns
from penstock.remoting.operating.seats import Seats

PRODUCERS_MAX: Final = 20_000
"""Topics of all producers together, 1 KiB each at most."""
HEARD_MS: Final = 30_000
"""Three heartbeats; who is silent for longer is not asked."""
StreamT = TypeVar("StreamT")


class TooManyProducers(PlatformError):
    """No producer can come before others leave."""


class _Known(Generic[StreamT]):
    __slots__ = ("heard_ms", "stream", "topics", "user")

    def __init__(self, user: str, topics: Sequence[str], stream: StreamT, heard_ms: int) -> None:
        self.user = user
        self.topics = topics
        self.stream = stream
        self.heard_ms = heard_ms


class Producers(Generic[StreamT]):
    """See the module; one for each node. Times are monotonic."""

    def __init__(self, most: int = PRODUCERS_MAX) -> None:
        self._most = most
        self._known: dict[str, _Known[StreamT]] = {}
        """By client id, which is its user's own."""
        self._of: dict[str, Turns[str]] = {}
        """Clients by topic."""
        self._seats = Seats(most)

    @property
    def count(self) -> int:
        """Topics, each with a producer of it."""
        return self._seats.count

    def settle(
        self, client_id: str, topics: Sequence[str], stream: StreamT, now_ms: int, user: str = ""
    ) -> None:
        """Note a producer that tells its settings, again or anew. Raises TooManyProducers."""
        topics = tuple(dict.fromkeys(topics))
        known = self._known.get(client_id)
        assert known is None or known.user == user, "a client id is its user's own"
        before = () if known is None else known.topics
        more = len(topics) - len(before)
        if more > 0 and not self._seats.has_free(user, more):
            raise TooManyProducers(f"producers of {self._most} topics are here already")
        for topic in [one for one in before if one not in topics]:
            self._leave(topic, user, client_id)
        for topic in topics:
            self._of.setdefault(topic, Turns()).add(user, client_id)
        self._seats.change(user, more)
        if topics:
            self._known[client_id] = _Known(user, topics, stream, now_ms)
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
        self._seats.change(known.user, -len(known.topics))
        for topic in known.topics:
            self._leave(topic, known.user, client_id)

    def next_of(self, topic: str, is_fit: Callable[[StreamT], bool], now_ms: int) -> StreamT | None:
        """Return the stream of a producer of a topic that was heard lately and is fit."""
        turns = self._of.get(topic)
        if turns is None:
            return None

        def may_be_asked(client_id: str) -> bool:
            known = self._known[client_id]
            return now_ms - known.heard_ms < HEARD_MS and is_fit(known.stream)

        client_id = turns.next_of(may_be_asked)
        return None if client_id is None else self._known[client_id].stream

    def _leave(self, topic: str, user: str, client_id: str) -> None:
        turns = self._of[topic]
        turns.remove(user, client_id)
        if not turns:
            del self._of[topic]
