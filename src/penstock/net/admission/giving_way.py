"""Which connections are closed for new ones, and when.

    unproven beyond their bound, of an address or in all    its oldest unproven one
    they hold more than their part of the memory            those of them that hold most
    a listener is full                                      the oldest unproven one of it
    the node is full                                        the oldest unproven one
    and the protected listener gets somebody                else the one idle longest elsewhere, or
                                                            the oldest unproven one there, if those
                                                            are as many as places are kept

Those of the protected listener are counted by themselves and give way only to one another, so that
a flood elsewhere closes nothing of them. A client that connects has the whole time until as many
others as the bound have come after it: milliseconds suffice to prove who one is.

Source: Kafka `ConnectionQuotas` and `Selector.lowestPriorityChannel` (KIP-402: the connection idle
longest is closed for the inter-broker listener). Kafka bounds no unproven ones.
"""

from collections.abc import Callable, Iterable
from typing import NamedTuple, Protocol

from penstock.net.admission.admission import PROTECTED_PLACES
from penstock.net.admission.unproven import Client, Unproven
from penstock.net.errors import CloseKind, RefuseKind, YieldKind
from penstock.net.limits import NetLimits

LOOKS_PER_BOUND = 8
"""All are looked at again when an eighth of a bound has come: some sixteen looks for each that
comes, and no more than an eighth of those who are counted has proved it already."""
GIVEN_WAY_FOR = (RefuseKind.TOO_MANY, RefuseKind.TOO_MANY_AT_LISTENER)
"""Refusals that do not hold where another connection gives way."""


class Idler(Protocol):
    """An open connection."""

    @property
    def last_tick(self) -> int:
        """Second in which its client has last sent something."""

    @property
    def is_closed(self) -> bool:
        """Whether it takes no more requests; its last answers may be on their way."""

    @property
    def client_host(self) -> str:
        """Address of the client."""

    @property
    def listener_name(self) -> str:
        """Which port it came in by."""

    @property
    def in_flight(self) -> int:
        """Requests that are not answered yet."""

    def abort(self, kind: CloseKind) -> None:
        """End it at once and count why."""


class _Bounds(NamedTuple):
    in_all: int
    of_address: int


class GivingWay:
    """See the module; of one Listener."""

    def __init__(
        self,
        connections: Callable[[], Iterable[Idler]],
        told: Callable[[YieldKind, Idler | Client], None],
        proved: Callable[[Client], None],
    ) -> None:
        """`told(kind, client)` counts a connection that is closed for another.

        `proved(client)` hears of those that are found to be unproven no more, within a second:
        they have proved who they are, or are ended.
        """
        self._connections = connections
        self._told = told
        self._proved = proved
        self._protected = ""
        self._seconds_max = 0
        self._bounds = _Bounds(1, 1)
        self._others = Unproven()
        self._of_protected = Unproven()

    def go_by(self, limits: NetLimits, most: int) -> None:
        """Go by other limits, with `most` connections in all, from the next connection on."""
        in_all = min(limits.unproven_max, max(1, most // 2))
        of_address = min(limits.unproven_per_address_max, max(1, in_all // 2))
        self._protected = limits.protected_listener
        self._seconds_max = limits.unproven_seconds_max
        self._bounds = _Bounds(in_all, of_address)

    def arrived(self, client: Client, came_tick: int) -> None:
        """Take a new connection; those give way that are too many by it."""
        if not client.is_unproven:
            return
        table, host = self._table(client.listener_name), client.client_host
        table.add(client, came_tick)
        if table is not self._of_protected:
            self._bound(table, self._bounds.of_address, YieldKind.UNPROVEN_FROM_ADDRESS, host)
        self._bound(table, self._bounds.in_all, YieldKind.UNPROVEN)

    def _bound(self, table: Unproven, most: int, kind: YieldKind, address: str = "") -> None:
        """End the oldest if there are too many; who has proved it meanwhile does not count."""
        if table.count_of(address) > most and table.added > most // LOOKS_PER_BOUND:
            self._settle(table)
        oldest = table.oldest(address=address) if table.count_of(address) > most else None
        if table.count_of(address) > most:
            self._end(table, oldest, kind)

    def begun(self, client: Client) -> None:
        """Let a client start anew whom this side has kept waiting."""
        self._table(client.listener_name).renew(client)

    def left(self, client: Client) -> None:
        """Forget a client whose connection has come about, or to nothing."""
        self._table(client.listener_name).drop(client)

    def make_room(self, refusal: RefuseKind, listener: str) -> bool:
        """Whether a connection was closed so that a new one at `listener` has a place."""
        own = self._table(listener)
        if refusal is RefuseKind.TOO_MANY_AT_LISTENER:
            return self._end(own, own.oldest(listener=listener), YieldKind.LISTENER_FULL)
        if refusal is not RefuseKind.TOO_MANY:
            return False
        if self._end(self._others, self._others.oldest(), YieldKind.FULL):
            return True
        if own is not self._of_protected:
            return False
        if own.count_of() < PROTECTED_PLACES and self._end_idle():
            return True
        return self._end(own, own.oldest(), YieldKind.FULL)

    def sweep(self, tick: int, bytes_max: int) -> dict[str, int]:
        """End those who have taken too long, or hold too much; return the number of the others by
        listener.
        """
        counts: dict[str, int] = {}
        for table in (self._others, self._of_protected):
            self._settle(table)
            for client in table.late(tick - self._seconds_max):
                table.drop(client)
                client.abort(CloseKind.AUTHENTICATION)
            for client in table.largest(bytes_max):
                table.drop(client)
                client.abort(CloseKind.MEMORY)
            counts |= table.counts()
        return counts

    def _settle(self, table: Unproven) -> None:
        for client in table.settle():
            self._proved(client)

    def _table(self, listener: str) -> Unproven:
        return self._of_protected if listener == self._protected else self._others

    def _end(self, table: Unproven, client: Client | None, kind: YieldKind) -> bool:
        if client is None:
            return False
        table.drop(client)
        self._told(kind, client)
        client.abort(CloseKind.GAVE_WAY)
        return True

    def _end_idle(self) -> bool:
        """Close the connection idle longest, or silent longest where all are busy."""
        elsewhere = [
            one
            for one in self._connections()
            if not one.is_closed and one.listener_name != self._protected
        ]
        if not elsewhere:
            return False
        longest = min(elsewhere, key=lambda one: (one.in_flight > 0, one.last_tick))
        self._told(YieldKind.IDLE, longest)
        longest.abort(CloseKind.GAVE_WAY)
        return True
