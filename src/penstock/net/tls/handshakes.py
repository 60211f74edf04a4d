"""Which clients may begin a TLS handshake, since each costs the loop a signature.

    first record received whole ─► wait, by address ─► a few a turn ─► half open ─► done
                                                                          └─► too long: ended

Answering the first record of a client takes a signature, a millisecond with RSA, whoever sends it:
a hundred in one turn of the loop would hold everybody else. Addresses take turns. Half-open
handshakes have memory, so there are HALF_OPEN_MAX at most; whoever waits takes the place of the
oldest once that is a second old, or of the newest of an address that has far more.

Source: `net/tls_gate.py`, which does so at the ports for peers, with fewer places.
"""

from collections import Counter, deque
from collections.abc import Callable
from typing import Protocol

from penstock.net.quiet_turns import QuietTurns

BEGUN_IN_TURN = 3
"""Handshakes that are begun in one turn: some 3 ms with RSA, and less than one with ECDSA."""
LOOKED_AT_IN_TURN = 32
"""Those whose clients have gone cost nothing but a look, and so many of them are passed over."""
HALF_OPEN_MAX = 256
"""Each holds 60 KiB in OpenSSL: 15 MiB in all."""
PLACE_TICKS = 2
"""From here on a half-open handshake gives way to those who wait: it takes two round trips."""
HANDSHAKE_TICKS = 10
"""Seconds for a handshake, from connecting to its end."""


class Handshake(Protocol):
    """A connection whose client shakes hands."""

    host: str
    began_tick: int

    def begin(self) -> bool:
        """Answer the first record; False if the client has gone meanwhile, and so is this."""

    def give_up(self, reason: str) -> None:
        """End the connection."""


class Handshakes:
    """The handshakes of one listener."""

    __slots__ = ("_by_host", "_half_open", "_quiet", "_ticks", "_waiting", "all")

    def __init__(
        self, call_soon: Callable[[Callable[[], None]], object], ticks: Callable[[], int]
    ) -> None:
        """`ticks` returns the seconds that the listener has counted."""
        self._quiet = QuietTurns(call_soon, self._begin_some)
        self._ticks = ticks
        self._waiting: dict[str, deque[Handshake]] = {}
        """By address, whose turn is next first."""
        self._half_open: dict[Handshake, None] = {}
        """Oldest first."""
        self._by_host: Counter[str] = Counter()
        self.all: dict[Handshake, None] = {}
        """Every connection that is not open yet, also those that have sent nothing."""

    def ask(self, handshake: Handshake) -> None:
        """Have `begin` called in a turn to come."""
        self._waiting.setdefault(handshake.host, deque()).append(handshake)
        self._quiet.ask()

    def leave(self, handshake: Handshake) -> None:
        """Forget a handshake that is over, however it ended."""
        self.all.pop(handshake, None)
        if handshake in self._half_open:
            del self._half_open[handshake]
            self._count_out(handshake.host)
            if self._waiting:
                self._quiet.ask()
            return
        waiting = self._waiting.get(handshake.host)
        if waiting is not None and handshake in waiting:
            waiting.remove(handshake)
            if not waiting:
                del self._waiting[handshake.host]

    def sweep(self) -> None:
        """End what has taken too long; called once a tick."""
        due = self._ticks() - HANDSHAKE_TICKS
        for handshake in list(self.all):
            if handshake.began_tick > due:
                break
            handshake.give_up("the handshake takes too long")
        if self._waiting:
            self._quiet.ask()

    def _begin_some(self) -> None:
        if not self._waiting:
            return
        self._quiet.rest()
        begun = 0
        for _ in range(LOOKED_AT_IN_TURN):
            host = next(iter(self._waiting), None)
            if host is None or not self._has_place(host):
                return
            begun += self._next_of(host).begin()
            if begun == BEGUN_IN_TURN:
                break
        if self._waiting:
            self._quiet.ask()

    def _next_of(self, host: str) -> Handshake:
        """Take the next of an address, which is last in the order from here on."""
        waiting = self._waiting.pop(host)
        handshake = waiting.popleft()
        if waiting:
            self._waiting[host] = waiting
        self._half_open[handshake] = None
        self._by_host[host] += 1
        return handshake

    def _has_place(self, host: str) -> bool:
        if len(self._half_open) < HALF_OPEN_MAX:
            return True
        loser = self._loser(host)
        if loser is None:
            return False  # `leave` or the next sweep goes on
        loser.give_up("others wait to shake hands")
        return True

    def _loser(self, host: str) -> Handshake | None:
        oldest = next(iter(self._half_open))
        if self._ticks() - oldest.began_tick >= PLACE_TICKS:
            return oldest
        greediest, most = self._by_host.most_common(1)[0]
        if most <= self._by_host[host] + 1:
            return None
        return next(one for one in reversed(self._half_open) if one.host == greediest)

    def _count_out(self, host: str) -> None:
        self._by_host[host] -= 1
        if self._by_host[host] <= 0:
            del self._by_host[host]
