"""Connections whose clients have not proved who they are, oldest first.

Whoever has proved it leaves the table when somebody looks: at the latest with the next second, and
before one is closed for there being too many.
Who is begun with by this side (a TLS handshake that has waited for its turn) starts anew, since the
wait was ours: otherwise in a rush those would be closed first that are next to be served.
"""

from collections.abc import Mapping
from typing import NamedTuple, Protocol

from penstock.net.errors import CloseKind


class Client(Protocol):
    """A connection, or the TLS side of one that has not come about."""

    @property
    def client_host(self) -> str:
        """Address of the client."""

    @property
    def listener_name(self) -> str:
        """Which port it came in by."""

    @property
    def is_unproven(self) -> bool:
        """Whether it has a place, and its client has yet to prove who it is."""

    @property
    def received_bytes(self) -> int:
        """Memory that it holds for what has not arrived whole."""

    def abort(self, kind: CloseKind) -> None:
        """End it at once and count why."""


class _Entry(NamedTuple):
    came_tick: int
    groups: tuple[tuple[str, str], ...]


class Unproven:
    """See the module. Ticks are seconds."""

    __slots__ = ("_entries", "_groups", "added")

    def __init__(self) -> None:
        self._entries: dict[Client, _Entry] = {}
        self._groups: dict[tuple[str, str], dict[Client, None]] = {}
        """By ("address", host) and ("listener", name), each oldest first."""
        self.added = 0
        """How many have come since all were looked at."""

    def add(self, client: Client, came_tick: int) -> None:
        """Take a client that has connected at that tick, as the newest."""
        groups = (("address", client.client_host), ("listener", client.listener_name))
        self._entries[client] = _Entry(came_tick, groups)
        self.added += 1
        for group in groups:
            self._groups.setdefault(group, {})[client] = None

    def drop(self, client: Client) -> None:
        """Forget a client."""
        entry = self._entries.pop(client, None)
        for group in () if entry is None else entry.groups:
            clients = self._groups[group]
            del clients[client]
            if not clients:
                del self._groups[group]

    def renew(self, client: Client) -> None:
        """Make a client the newest; the time that it has stays."""
        entry = self._entries.get(client)
        if entry is not None:
            self.drop(client)
            self.add(client, entry.came_tick)

    def count_of(self, address: str = "") -> int:
        """Return how many there are, or how many an address has."""
        return len(self._of("", address))

    def oldest(self, *, listener: str = "", address: str = "") -> Client | None:
        """Return the oldest, or that of a listener or an address; None if there is none."""
        while clients := self._of(listener, address):
            client = next(iter(clients))
            if client.is_unproven:
                return client
            self.drop(client)
        return None

    def settle(self) -> list[Client]:
        """Forget and return those who have proved who they are, or have gone."""
        settled = [one for one in self._entries if not one.is_unproven]
        for client in settled:
            self.drop(client)
        self.added = 0
        return settled

    def late(self, due_tick: int) -> list[Client]:
        """Return those who have connected before that tick."""
        return [one for one, entry in self._entries.items() if entry.came_tick < due_tick]

    def largest(self, bytes_max: int) -> list[Client]:
        """Return those without whom the others hold no more than that, which hold most."""
        held = [(one.received_bytes, one) for one in self._entries]
        above = sum(size for size, _ in held) - bytes_max
        found: list[Client] = []
        for size, client in sorted(held, key=lambda one: -one[0]) if above > 0 else ():
            if above <= 0:
                break
            above -= size
            found.append(client)
        return found

    def counts(self) -> dict[str, int]:
        """Return how many there are, by listener."""
        return {
            name: len(clients)
            for (kind, name), clients in self._groups.items()
            if kind == "listener"
        }

    def _of(self, listener: str, address: str) -> Mapping[Client, object]:
        if listener:
            return self._groups.get(("listener", listener), {})
        if address:
            return self._groups.get(("address", address), {})
        return self._entries
