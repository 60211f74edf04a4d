"""Which clients may begin a TLS handshake, since each costs the loop a signature.

    first record received whole ─► wait, by address ─► a few a turn ─► half open ─► done
                                                                          └─► too long: ended

Answering the first record of a client takes a signature, a millisecond with RSA, whoever sends it:
a hundred in one turn of the loop would hold everybody else. Whose turn it is says waiting.py.
Half-open handshakes have memory, so there are HALF_OPEN_MAX at most; whoever waits takes the place
of the oldest of an address of a worse rank, or of the oldest once it has had its time, or of the
newest of an address that has far more. An address whose handshake comes to nothing is remembered.

Source: `net/tls_gate.py`, which does so at the ports for peers, with fewer places.
"""

from collections import Counter
from collections.abc import Callable
from typing import Protocol

from penstock.net.quiet_turns import QuietTurns
from penstock.net.tls.addresses import Addresses
from penstock.net.tls.waiting import Waiting

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

    @property
    def has_begun(self) -> bool:
        """Whether its first record was answered."""

    def begin(self) -> bool:
        """Answer the first record; False if the client has gone meanwhile, and so is this."""

    def give_up(self, reason: str) -> None:
        """End the connection."""


class Handshakes:
    """The handshakes of one listener."""

    __slots__ = ("_addresses", "_by_host", "_half_open", "_quiet", "_ticks", "_waiting", "all")

    def __init__(
        self,
        call_soon: Callable[[Callable[[], None]], object],
        ticks: Callable[[], int],
        addresses: Addresses,
    ) -> None:
        """`ticks` returns the seconds that the listener has counted."""
        self._addresses = addresses
        self._quiet = QuietTurns(call_soon, self._begin_some)
        self._ticks = ticks
        self._waiting: Waiting[Handshake] = Waiting()
        self._half_open: dict[Handshake, int] = {}
        """Since which tick; oldest first."""
        self._by_host: Counter[str] = Counter()
        self.all: dict[Handshake, None] = {}
        """Every connection that is not open yet, also those that have sent nothing."""

    def ask(self, handshake: Handshake) -> None:
        """Have `begin` called in a turn to come."""
        self._waiting.add(handshake, self._rank(handshake))
        self._quiet.ask()

    def leave(self, handshake: Handshake, *, is_open: bool = False) -> None:
        """Forget a handshake that is over; `is_open` is whether the client has gone through it."""
        self.all.pop(handshake, None)
        is_half_open = handshake in self._half_open
        has_failed = self._waiting.remove(handshake) or (is_half_open and not is_open)
        if has_failed:
            has_begun = handshake.has_begun
            self._addresses.failed(handshake.host, self._ticks(), is_answered=has_begun)
        if not is_half_open:
            return
        self._release(handshake)
        if self._waiting:
            self._quiet.ask()

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
            handshake = self._waiting.take(self._has_place)
            if handshake is None:
                return  # `leave` or the next sweep goes on
            self._half_open[handshake] = self._ticks()
            self._by_host[handshake.host] += 1
            begun += handshake.begin()
            if begun == BEGUN_IN_TURN:
                break
        if self._waiting:
            self._quiet.ask()

    def _rank(self, handshake: Handshake) -> int:
        return self._addresses.rank(handshake.host, self._ticks())

    def _has_place(self, host: str, rank: int) -> bool:
        """Whether there is a place, maybe another one's."""
        if len(self._half_open) < HALF_OPEN_MAX:
            return True
        loser = next((one for one in self._half_open if self._rank(one) > rank), None)
        if loser is None:
            loser = self._loser(host)
        if loser is None:
            return False
        if self._half_open[loser] == self._ticks():
            self._release(loser)  # it had no time: that is no failure of its own
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

    def _release(self, handshake: Handshake) -> None:
        del self._half_open[handshake]
        self._count_out(handshake.host)

    def _count_out(self, host: str) -> None:
        self._by_host[host] -= 1
        if self._by_host[host] <= 0:
            del self._by_host[host]
