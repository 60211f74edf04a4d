"""Which clients are producers of which groups, as their heartbeats to this node say.

A group's producers are asked in turn about its half messages. Producers of Java send heartbeats to
every broker that they have a route to, each 30 s. Anybody may call himself a producer, by whatever
client id, so an id is its user's own: who tells that of another user takes nothing from him.

Source: RocketMQ `ProducerManager` (120 s without a heartbeat; one channel after another).
Departures: a client id is its user's own; a user leaves a quarter of the places to others.
"""

from collections.abc import Callable, Hashable
from typing import Final, Generic, NamedTuple, TypeVar

from penstock.remoting.halves.turns import Turns
from penstock.remoting.heartbeat import Heartbeat
from penstock.remoting.members import EXPIRY_MS, TooManyMembers
from penstock.remoting.operating.seats import Seats

PRODUCERS_MAX: Final = 20_000
"""Of all groups together."""
PRODUCER_BYTES: Final = 1_000
"""Approximate memory of one."""

ConnectionT = TypeVar("ConnectionT", bound=Hashable)


class _Client(NamedTuple):
    """A client of a user; clients without a name have no user."""

    user: str
    client_id: str


class _Producer(NamedTuple, Generic[ConnectionT]):
    connection: ConnectionT
    seen_ms: int


class _Group(Generic[ConnectionT]):
    """The producers of one group."""

    __slots__ = ("producers", "turns")

    def __init__(self) -> None:
        self.producers: dict[_Client, _Producer[ConnectionT]] = {}
        self.turns: Turns[_Client] = Turns()


class Producers(Generic[ConnectionT]):
    """See the module; one for each node. Times are monotonic."""

    def __init__(self, most: int = PRODUCERS_MAX) -> None:
        self._groups: dict[str, _Group[ConnectionT]] = {}
        self._of: dict[ConnectionT, dict[tuple[str, _Client], None]] = {}
        self._seats = Seats(most)

    @property
    def count(self) -> int:
        """Producers of all groups together."""
        return self._seats.count

    def note(
        self, heartbeat: Heartbeat, connection: ConnectionT, now_ms: int, user: str = ""
    ) -> None:
        """Note a heartbeat of a user's client. Raises TooManyMembers."""
        client = _Client(user, heartbeat.client_id)
        for told in heartbeat.producers:
            name = told.group_name
            group = self._groups.get(name)
            known = None if group is None else group.producers.get(client)
            if known is None and not self._seats.has_free(user, 1):
                raise TooManyMembers(f"{self.count} producers, none can join {name}")
            if known is not None and known.connection != connection:
                self._leave(name, client)
                known = None
            if known is None:
                self._seats.change(user, 1)
            group = self._groups.setdefault(name, _Group())
            group.producers[client] = _Producer(connection, now_ms)
            group.turns.add(user, client)
            self._of.setdefault(connection, {})[name, client] = None

    def leave(
        self, client_id: str, group_name: str, connection: ConnectionT, user: str = ""
    ) -> None:
        """Take out a producer that was last heard on this connection."""
        client = _Client(user, client_id)
        if (group_name, client) in self._of.get(connection, ()):
            self._leave(group_name, client)

    def closed(self, connection: ConnectionT) -> None:
        """Take out who was last heard on a connection."""
        for name, client in list(self._of.get(connection, ())):
            self._leave(name, client)

    def expire(self, now_ms: int) -> None:
        """Take out who has been silent for too long."""
        for name, client in [
            (name, client)
            for name, group in self._groups.items()
            for client, producer in group.producers.items()
            if now_ms - producer.seen_ms >= EXPIRY_MS
        ]:
            self._leave(name, client)

    def connections(self, group_name: str) -> list[tuple[str, ConnectionT]]:
        """Return the producers of a group: id and connection."""
        group = self._groups.get(group_name)
        producers = {} if group is None else group.producers
        return [(client.client_id, one.connection) for client, one in producers.items()]

    def everybody(self) -> list[tuple[str, str, ConnectionT, int]]:
        """Return all producers: group, id, connection, and when it was last heard."""
        return [
            (name, client.client_id, producer.connection, producer.seen_ms)
            for name, group in self._groups.items()
            for client, producer in group.producers.items()
        ]

    def next_of(self, group_name: str, is_fit: Callable[[ConnectionT], bool]) -> ConnectionT | None:
        """Return a producer of a group that is fit, another one each time; see turns.py."""
        group = self._groups.get(group_name)
        if group is None:
            return None
        producers = group.producers
        client = group.turns.next_of(lambda one: is_fit(producers[one].connection))
        return None if client is None else producers[client].connection

    def _leave(self, name: str, client: _Client) -> None:
        group = self._groups[name]
        connection = group.producers.pop(client).connection
        group.turns.remove(client.user, client)
        self._seats.change(client.user, -1)
        if not group.producers:
            del self._groups[name]
        places = self._of[connection]
        del places[name, client]
        if not places:
            del self._of[connection]
