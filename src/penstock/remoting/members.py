"""Which clients belong to which consumer groups, as their heartbeats to this node say.

    heartbeat ─► member of its groups ─► its connection closes, it says so, or 120 s without one
    any change of a group             ─► its members are to be told (code 40)

Clients divide the queues of a topic among themselves, over the list of members that a node gives
them. Each sends heartbeats to every node that it has a route to, so all of them have the same list,
and nothing of this is stored. A client that reconnects is the same member: the end of its older
connection takes nothing away.

Source: RocketMQ `ConsumerManager`, `ConsumerGroupInfo`, `ClientHousekeepingService` (120 s).
"""

from collections.abc import Hashable, Iterable
from typing import Final, Generic, NamedTuple, TypeVar

from penstock.base.errors import PlatformError
from penstock.remoting.heartbeat import ConsumerGroup, Heartbeat

EXPIRY_MS: Final = 120_000
MEMBERSHIPS_MAX: Final = 100_000
"""Members of all groups together; each takes about 1 KiB."""


class TooManyMembers(PlatformError):
    """No client can join a group before others leave."""


ConnectionT = TypeVar("ConnectionT", bound=Hashable)


class _Member(NamedTuple, Generic[ConnectionT]):
    connection: ConnectionT
    group: ConsumerGroup
    seen_ms: int


class GroupMembers(Generic[ConnectionT]):
    """See the module; one for each node. Times are monotonic."""

    def __init__(self, memberships_max: int = MEMBERSHIPS_MAX) -> None:
        self._groups: dict[str, dict[str, _Member[ConnectionT]]] = {}
        self._most = memberships_max
        self._count = 0

    @property
    def count(self) -> int:
        """Members of all groups together."""
        return self._count

    def note(self, heartbeat: Heartbeat, connection: ConnectionT, now_ms: int) -> list[str]:
        """Note a heartbeat; return the groups that it has changed. Raises TooManyMembers."""
        client_id, changed = heartbeat.client_id, []
        for group in heartbeat.consumers:
            members = self._groups.get(group.group_name, {})
            known = members.get(client_id)
            if known is None:
                self._join(group.group_name)
            members = self._groups.setdefault(group.group_name, members)
            members[client_id] = _Member(connection, group, now_ms)
            if known is None or known.group.subscriptions != group.subscriptions:
                changed.append(group.group_name)
        return changed

    def leave(self, client_id: str, group_name: str) -> list[str]:
        """Take a client out of a group; return the group if that has changed it."""
        return self._leave([(group_name, client_id)])

    def closed(self, connection: ConnectionT) -> list[str]:
        """Take out who was last heard on a connection; return the groups that have changed."""
        return self._leave(
            [
                (group_name, client_id)
                for group_name, members in self._groups.items()
                for client_id, member in members.items()
                if member.connection == connection
            ]
        )

    def expire(self, now_ms: int) -> list[str]:
        """Take out who has been silent for too long; return the groups that have changed."""
        return self._leave(
            [
                (group_name, client_id)
                for group_name, members in self._groups.items()
                for client_id, member in members.items()
                if now_ms - member.seen_ms >= EXPIRY_MS
            ]
        )

    def client_ids(self, group_name: str) -> list[str]:
        """Return the ids of a group's members, oldest first."""
        return list(self._groups.get(group_name, ()))

    def connections(self, group_name: str) -> list[ConnectionT]:
        """Return the connections of a group's members, each once."""
        members = self._groups.get(group_name, {}).values()
        return list(dict.fromkeys(member.connection for member in members))

    def _join(self, group_name: str) -> None:
        if self._count >= self._most:
            raise TooManyMembers(f"{self._count} members of groups, none can join {group_name}")
        self._count += 1

    def _leave(self, places: Iterable[tuple[str, str]]) -> list[str]:
        changed: dict[str, None] = {}
        for group_name, client_id in places:
            members = self._groups.get(group_name, {})
            if members.pop(client_id, None) is None:
                continue
            self._count -= 1
            changed[group_name] = None
            if not members:
                del self._groups[group_name]
        return list(changed)
