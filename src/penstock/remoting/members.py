"""Which clients belong to which consumer groups, as their heartbeats to this node say.

    heartbeat ─► member of its groups ─► its connection closes, it says so, or 120 s without one
    any change of a group             ─► its members are to be told (code 40)

Clients divide the queues of a topic among themselves, over the list of members that a node gives
them. Each sends heartbeats to every node that it has a route to, so all of them have the same list,
and nothing of this is stored. A client that reconnects is the same member: the end of its older
connection takes nothing away.

Source: RocketMQ `ConsumerManager`, `ConsumerGroupInfo`, `ClientHousekeepingService` (120 s).
"""

from collections.abc import Hashable, Iterable, Iterator
from itertools import islice
from typing import Final, Generic, NamedTuple, TypeVar

from penstock.base.errors import PlatformError
from penstock.remoting.heartbeat import ConsumerGroup, Heartbeat, Subscription
from penstock.remoting.operating.seats import Seats

EXPIRY_MS: Final = 120_000
MEMBERSHIPS_MAX: Final = 100_000
"""Members of all groups together."""
BYTES_MAX: Final = 4 << 20
"""Of all members, where nobody has said more."""
MEMBER_BYTES: Final = 900
"""Memory of a member beside its texts."""
SUBSCRIPTION_BYTES: Final = 300
"""Memory of a subscription beside its texts."""
CHARACTER_BYTES: Final = 4
"""Of a text, at most."""
LEAVE_TOGETHER: Final = 200
"""Members of a closed connection that leave in one turn: a third of a millisecond."""
LOOKED_AT: Final = 2_000
"""Members that a tick looks at for their silence: a fifth of a millisecond."""


class TooManyMembers(PlatformError):
    """No client can join a group, or subscribe to more, before others leave."""


ConnectionT = TypeVar("ConnectionT", bound=Hashable)
_Place = tuple[str, str]
"""Group and client."""


class _Member(NamedTuple, Generic[ConnectionT]):
    connection: ConnectionT
    group: ConsumerGroup
    seen_ms: int
    size: int
    user: str


class GroupMembers(Generic[ConnectionT]):
    """See the module; one for each node. Times are monotonic."""

    def __init__(self, memberships_max: int = MEMBERSHIPS_MAX, bytes_max: int = BYTES_MAX) -> None:
        self._groups: dict[str, dict[str, _Member[ConnectionT]]] = {}
        self._places: dict[ConnectionT, dict[_Place, None]] = {}
        """What a connection was last heard for: its end looks at nothing else."""
        self._heard: dict[tuple[ConnectionT, str], str] = {}
        """The client of a group that was last heard on a connection."""
        self._sweep: Iterator[_Place] = iter(())
        """Those that the next ticks look at."""
        self._places_of = Seats(memberships_max)
        self._bytes_of = Seats(bytes_max)

    @property
    def count(self) -> int:
        """Members of all groups together."""
        return self._places_of.count

    @property
    def bytes_now(self) -> int:
        """Memory of all members."""
        return self._bytes_of.count

    @property
    def bytes_max(self) -> int:
        """Of all members; a user leaves a quarter of it to others."""
        return self._bytes_of.most

    @bytes_max.setter
    def bytes_max(self, most: int) -> None:
        self._bytes_of.most = most

    def note(
        self, heartbeat: Heartbeat, connection: ConnectionT, now_ms: int, user: str = ""
    ) -> list[str]:
        """Note a heartbeat of a user's client; return the groups that it has changed.

        Raises TooManyMembers.
        """
        client_id, changed = heartbeat.client_id, []
        for group in heartbeat.consumers:
            known = self._groups.get(group.group_name, {}).get(client_id)
            is_other = known is None or known.group.subscriptions != group.subscriptions
            if known is not None and not is_other:
                group = known.group  # noqa: PLW2901  equal, and in memory already
            size = known.size if known is not None and not is_other else _size_of(client_id, group)
            member = _Member(connection, group, now_ms, size, user)
            self._take_room(known, member)
            self._set((group.group_name, client_id), known, member)
            if is_other:
                changed.append(group.group_name)
        return changed

    def leave(self, client_id: str, group_name: str, connection: ConnectionT) -> list[str]:
        """Take out a client that was last heard on this connection; return the changed groups."""
        place = group_name, client_id
        return self._leave([place] if place in self._places.get(connection, ()) else [])

    def closed(self, connection: ConnectionT) -> list[str]:
        """Take out some that were last heard on a connection; return the groups that have changed.

        It is called again, in another turn, as long as one is heard.
        """
        return self._leave(list(islice(self._places.get(connection, ()), LEAVE_TOGETHER)))

    def is_heard(self, connection: ConnectionT) -> bool:
        """Whether a member was last heard on a connection."""
        return connection in self._places

    def expire(self, now_ms: int) -> list[str]:
        """Take out who has been silent for too long; return the groups that have changed.

        One call looks at some, and the next one goes on there.
        """
        looked_at = list(islice(self._sweep, LOOKED_AT))
        if len(looked_at) < LOOKED_AT:
            self._sweep = self._all_places()
            looked_at += islice(self._sweep, LOOKED_AT - len(looked_at))
        silent = dict.fromkeys(
            (group_name, client_id)
            for group_name, client_id in looked_at
            if (member := self._groups.get(group_name, {}).get(client_id)) is not None
            and now_ms - member.seen_ms >= EXPIRY_MS
        )
        return self._leave(silent)

    def _all_places(self) -> Iterator[_Place]:
        for group_name in list(self._groups):
            for client_id in list(self._groups.get(group_name, ())):
                yield group_name, client_id

    def client_ids(self, group_name: str) -> list[str]:
        """Return the ids of a group's members, oldest first."""
        return list(self._groups.get(group_name, ()))

    def client_of(self, group_name: str, connection: ConnectionT) -> str | None:
        """Return the id of a group's member that was last heard on a connection."""
        return self._heard.get((connection, group_name))

    def members(self, group_name: str) -> list[tuple[str, ConnectionT, ConsumerGroup]]:
        """Return a group's members, oldest first: id, connection, and what it says of itself."""
        members = self._groups.get(group_name, {}).items()
        return [(client_id, member.connection, member.group) for client_id, member in members]

    def group_names(self) -> list[str]:
        """Return the names of the groups that have members."""
        return list(self._groups)

    def connections(self, group_name: str) -> list[ConnectionT]:
        """Return the connections of a group's members, each once."""
        members = self._groups.get(group_name, {}).values()
        return list(dict.fromkeys(member.connection for member in members))

    def subscription(
        self, connection: ConnectionT, group_name: str, topic: str
    ) -> Subscription | None:
        """Return what a group's member that was last heard on a connection wants of a topic."""
        client_id = self._heard.get((connection, group_name))
        if client_id is None:
            return None
        wanted = self._groups[group_name][client_id].group.subscriptions
        return next((one for one in wanted if one.topic == topic), None)

    def _take_room(self, known: _Member[ConnectionT] | None, member: _Member[ConnectionT]) -> None:
        """Count a member in the place of one that is known. Raises TooManyMembers."""
        user, grown = member.user, member.size
        if known is not None and known.user == user:
            grown -= known.size
        elif not self._places_of.has_free(user, 1):
            name = member.group.group_name
            raise TooManyMembers(f"{self.count} members of groups, none can join {name}")
        if grown > 0 and not self._bytes_of.has_free(user, grown):
            raise TooManyMembers(f"members of groups have {self.bytes_now} bytes, their bound")
        if known is not None:
            self._give_back(known)
        self._places_of.change(user, 1)
        self._bytes_of.change(user, member.size)

    def _give_back(self, member: _Member[ConnectionT]) -> None:
        self._places_of.change(member.user, -1)
        self._bytes_of.change(member.user, -member.size)

    def _set(
        self, place: _Place, known: _Member[ConnectionT] | None, member: _Member[ConnectionT]
    ) -> None:
        if known is not None and known.connection != member.connection:
            self._forget(known.connection, place)
        self._groups.setdefault(place[0], {})[place[1]] = member
        self._places.setdefault(member.connection, {})[place] = None
        self._heard[member.connection, place[0]] = place[1]

    def _forget(self, connection: ConnectionT, place: _Place) -> None:
        group_name, client_id = place
        if self._heard[connection, group_name] == client_id:
            del self._heard[connection, group_name]
        places = self._places[connection]
        del places[place]
        if not places:
            del self._places[connection]

    def _leave(self, places: Iterable[_Place]) -> list[str]:
        changed: dict[str, None] = {}
        for group_name, client_id in places:
            members = self._groups[group_name]
            gone = members.pop(client_id)
            self._forget(gone.connection, (group_name, client_id))
            self._give_back(gone)
            changed[group_name] = None
            if not members:
                del self._groups[group_name]
        return list(changed)


def _size_of(client_id: str, group: ConsumerGroup) -> int:
    """Return an upper bound of a member's memory."""
    characters = len(client_id) + len(group.group_name) + len(group.consume_type)
    characters += len(group.message_model) + len(group.consume_from_where)
    for one in group.subscriptions:
        characters += len(one.topic) + len(one.sub_string) + len(one.expression_type or "")
    subscriptions = SUBSCRIPTION_BYTES * len(group.subscriptions)
    return MEMBER_BYTES + subscriptions + CHARACTER_BYTES * characters
