"""Counts connections and decides whether a new one is let in, has to wait, or is refused.

    limit                               a new connection beyond it
    all connections                     refused, unless another one gives way (giving_way.py)
    those of one listener               the same
    those of one address                refused
    new ones of one address a second    refused
    new ones a second, in all or
    of one listener                     accepted later (creation_rate.py)

The protected listener has places of its own, which others can not take, and the limits of addresses
and the node's rate do not hold there: who looks after the node gets in whatever others do.

Source: Kafka `ConnectionQuotas`; KIP-402, KIP-612. Departures: Kafka's acceptor waits when a
listener or the broker is full; here the new one is refused, and its client sees that. It holds no
socket, and knows no clock but the one that it is told.
"""

from collections import Counter

from penstock.net.admission.creation_rate import CreationRate
from penstock.net.admission.own_limits import COUNT_MAX, ListenerLimits, address_counts
from penstock.net.errors import RefuseKind, WaitKind
from penstock.net.limits import NetLimits

PROTECTED_PLACES = 16
"""Places that are kept for the protected listener, or a quarter of all where that is less."""


class Admission:
    """See the module; of one Listener, whose ports it tells apart by their names."""

    def __init__(self, limits: NetLimits, now: float) -> None:
        self.open_at: Counter[str] = Counter()
        """Open connections by listener, from being accepted on."""
        self.open_count = 0
        self._of_address: Counter[str] = Counter()
        self._new_of_address: Counter[str] = Counter()
        self._rate = CreationRate(limits.connection_rate_max, now)
        self._rate_at: dict[str, CreationRate] = {}
        self._of_listener: dict[str, ListenerLimits] = {}
        self.go_by(limits, limits.connections_max, now)

    def go_by(self, limits: NetLimits, most: int, now: float) -> None:
        """Go by other limits, with `most` connections in all; those that are open stay."""
        self._limits = limits
        self.most = most
        self._overrides = address_counts(limits.connections_per_address_overrides)
        self._rate.go_by(limits.connection_rate_max, now)
        self._of_listener = {}
        for name, rate in self._rate_at.items():
            rate.go_by(self._limits_of(name).connection_rate_max, now)

    def is_protected(self, name: str) -> bool:
        """Whether it is the listener of those who look after the node."""
        return name == self._limits.protected_listener

    def refusal(self, name: str, address: str) -> RefuseKind | None:
        """Return why one more connection has no place; it counts as one that was tried.

        Those for which nobody gives way come first, and then the listener's, since a place at a
        listener is one of the node's as well.
        """
        refusal = None if self.is_protected(name) else self._refusal_of_address(address)
        if refusal is not None:
            return refusal
        if self.open_at[name] >= self._limits_of(name).connections_max:
            return RefuseKind.TOO_MANY_AT_LISTENER
        return RefuseKind.TOO_MANY if self._is_full(name) else None

    def wait(self, name: str, now: float) -> tuple[float, WaitKind]:
        """Return for how many seconds a listener accepts nothing more, and by which limit."""
        own = self._rate_of(name, now).wait_seconds(now)
        in_all = 0.0 if self.is_protected(name) else self._rate.wait_seconds(now)
        kind = WaitKind.TOO_FAST if in_all > own else WaitKind.TOO_FAST_AT_LISTENER
        return max(own, in_all), kind

    def tried(self, name: str, address: str, now: float) -> None:
        """Count a connection that was accepted, whatever becomes of it."""
        self._new_of_address[address] += not self.is_protected(name)
        self._rate_of(name, now).take()
        if not self.is_protected(name):
            self._rate.take()

    def came(self, name: str, address: str) -> None:
        """Count a connection that has been let in."""
        self.open_count += 1
        self.open_at[name] += 1
        if not self.is_protected(name):
            self._of_address[address] += 1

    def gone(self, name: str, address: str) -> None:
        """Count it no more."""
        self.open_count -= 1
        self.open_at[name] -= 1
        if not self.is_protected(name):
            self._of_address[address] -= 1
            if self._of_address[address] <= 0:
                del self._of_address[address]

    def next_second(self) -> None:
        """Let addresses try anew."""
        self._new_of_address.clear()

    def _is_full(self, name: str) -> bool:
        protected = self._limits.protected_listener
        if self.open_count >= self.most or not protected or name == protected:
            return self.open_count >= self.most
        kept = min(PROTECTED_PLACES, self.most // 4)
        return self.open_count - self.open_at[protected] >= self.most - kept

    def _refusal_of_address(self, address: str) -> RefuseKind | None:
        limits, is_open = self._limits, self._of_address[address]
        own = self._overrides.get(address)
        if own is not None:
            if is_open >= own:
                return RefuseKind.OVER_OVERRIDE
        elif 0 < limits.connections_per_address_max <= is_open:
            return RefuseKind.TOO_MANY_FROM_ADDRESS
        if 0 < limits.connection_rate_per_address_max < self._new_of_address[address]:
            return RefuseKind.TOO_FAST_FROM_ADDRESS
        return None

    def _limits_of(self, name: str) -> ListenerLimits:
        if name not in self._of_listener:
            self._of_listener[name] = self._limits.of_listener(name)
        return self._of_listener[name]

    def _rate_of(self, name: str, now: float) -> CreationRate:
        if name not in self._rate_at:
            self._rate_at[name] = CreationRate(self._limits_of(name).connection_rate_max, now)
        return self._rate_at[name]


assert NetLimits().connection_rate_max == COUNT_MAX == ListenerLimits().connection_rate_max
