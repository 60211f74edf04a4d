"""Which clients are producers of which groups, as their heartbeats to this node say.

A group's producers are asked in turn about its half messages. Producers of Java send heartbeats to
every broker that they have a route to, each 30 s.

Source: RocketMQ `ProducerManager` (120 s without a heartbeat; one channel after another).
"""

from collections.abc import Callable, Hashable
from typing import Final, Generic, NamedTuple, TypeVar

from penstock.remoting.heartbeat import Heartbeat
from penstock.remoting.members import EXPIRY_MS, TooManyMembers

PRODUCERS_MAX: Final = 20_000
"""Of all groups together."""
PRODUCER_BYTES: Final = 1_000
"""Approximate memory of one."""

ConnectionT = TypeVar("ConnectionT", bound=Hashable)


class _Producer(NamedTuple, Generic[ConnectionT]):
    connection: ConnectionT
    seen_ms: int


class Producers(Generic[ConnectionT]):
    """See the module; one for each node. Times are monotonic."""

    def __init__(self, most: int = PRODUCERS_MAX) -> None:
        self._groups: dict[str, dict[str, _Producer[ConnectionT]]] = {}
        self._places: dict[ConnectionT, dict[tuple[str, str], None]] = {}
        self._most = most
        self.count = 0

    def note(self, heartbeat: Heartbeat, connection: ConnectionT, now_ms: int) -> None:
        """Note a heartbeat. Raises TooManyMembers."""
        client_id = heartbeat.client_id
        for group in heartbeat.producers:
            name = group.group_name
            known = self._groups.get(name, {}).get(client_id)
            if known is None and self.count >= self._most:
                raise TooManyMembers(f"{self.count} producers, none can join {name}")
            if known is not None and known.connection != connection:
                self._leave(name, client_id)
                known = None
            self.count += known is None
            producers = self._groups.setdefault(name, {})
            producers[client_id] = _Producer(connection, now_ms)
            self._places.setdefault(connection, {})[name, client_id] = None

    def leave(self, client_id: str, group_name: str, connection: ConnectionT) -> None:
        """Take out a producer that was last heard on this connection."""
        if (group_name, client_id) in self._places.get(connection, ()):
            self._leave(group_name, client_id)

    def closed(self, connection: ConnectionT) -> None:
        """Take out who was last heard on a connection."""
        for name, client_id in list(self._places.get(connection, ())):
            self._leave(name, client_id)

    def expire(self, now_ms: int) -> None:
        """Take out who has been silent for too long."""
        for name, client_id in [
            (name, client_id)
            for name, producers in self._groups.items()
            for client_id, producer in producers.items()
            if now_ms - producer.seen_ms >= EXPIRY_MS
        ]:
            self._leave(name, client_id)

    def connections(self, group_name: str) -> list[tuple[str, ConnectionT]]:
        """Return the producers of a group: id and connection."""
        producers = self._groups.get(group_name, {}).items()
        return [(client_id, producer.connection) for client_id, producer in producers]

    def everybody(self) -> list[tuple[str, str, ConnectionT, int]]:
        """Return all producers: group, id, connection, and when it was last heard."""
        return [
            (name, client_id, producer.connection, producer.seen_ms)
            for name, producers in self._groups.items()
            for client_id, producer in producers.items()
        ]

    def next_of(self, group_name: str, is_fit: Callable[[ConnectionT], bool]) -> ConnectionT | None:
        """Return a producer of a group that is fit, the one that was not asked for longest."""
        producers = self._groups.get(group_name, {})
        for client_id, producer in producers.items():
            if is_fit(producer.connection):
                producers[client_id] = producers.pop(client_id)
                return producer.connection
        return None

    def _leave(self, name: str, client_id: str) -> None:
        producers = self._groups[name]
        connection = producers.pop(client_id).connection
        self.count -= 1
        if not producers:
            del self._groups[name]
        places = self._places[connection]
        del places[name, client_id]
        if not places:
            del self._places[connection]
