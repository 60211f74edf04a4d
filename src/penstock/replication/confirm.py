"""The confirm position: how far a replica set's log is acknowledged, and so visible to consumers.

    position  0 ------------- confirm ------ slowest member of the set ------- master's end
              acknowledged, visible  |  durable on some members, not yet on all

Every member of the effective sync-state set (the committed one together with members that are being
added) reports up to where its log is durable. The confirm position is the lowest of these reports.
It never falls while the master stays: a member that is added holds it until the member has caught
up, a member that has not reported yet holds it where it is.

Source: RocketMQ controller mode (confirm offset); KIP-497 (effective ISR while a change is in
flight). It deliberately knows nothing of connections, time-outs or logs.
"""

from collections.abc import Iterable

from penstock.base.ids import Position, ReplicaId
from penstock.base.invariant import invariant


class ConfirmTracker:
    """Acknowledged positions of one mastership; one instance per leader epoch."""

    __slots__ = ("_acknowledged", "_members", "position")

    def __init__(self, members: Iterable[ReplicaId], start: Position) -> None:
        """Begin a mastership: `members` is the sync-state set, master included.

        `start` (exclusive) is what is known to be confirmed already.
        """
        self._members = tuple(members)
        self._acknowledged: dict[ReplicaId, Position] = {}
        self.position = start
        assert self._members, "a sync-state set has at least its master"

    @property
    def members(self) -> tuple[ReplicaId, ...]:
        """The effective sync-state set."""
        return self._members

    def acknowledge(self, replica: ReplicaId, position: Position) -> bool:
        """Record that `replica` holds the log durably up to `position` (exclusive).

        Returns whether the confirm position moved. A report below an earlier one is refused as
        an invariant: durable bytes do not go away while the mastership lasts.
        """
        earlier = self._acknowledged.get(replica, 0)
        invariant(position >= earlier, "acknowledgement went back", replica=replica, to=position)
        self._acknowledged[replica] = position
        return self._advance()

    def change_members(self, members: Iterable[ReplicaId]) -> bool:
        """Take over a new effective sync-state set; returns whether the confirm position moved."""
        self._members = tuple(members)
        assert self._members, "a sync-state set has at least its master"
        return self._advance()

    def _advance(self) -> bool:
        acknowledged = self._acknowledged
        lowest = min(acknowledged.get(member, Position(0)) for member in self._members)
        if lowest <= self.position:
            return False
        self.position = lowest
        return True
