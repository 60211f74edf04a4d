"""The state of one group, and its transitions.

    Empty ──join──► PreparingRebalance ──all joined, or time up──► CompletingRebalance
      ▲                  ▲   │    ▲                                   │         │
      └──nobody is left──┼───┘    └──join, leave, expiry, no sync─────┘         │
                         │                                                      │
                         └──join, leave, expiry── Stable ◄──assignment durable──┘

    any ──deleted, or moved away──► Dead          Dead ──tombstones refused──► Empty

Members are kept in the order of joining; nothing here depends on the order of a set. The methods
change state and send no answers: rebalance.py, joining.py and syncing.py do.

Source: Kafka, GroupMetadata.scala (GroupState and its valid predecessors); KIP-345 for static
members; KIP-394 for pending ones.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import TypeVar

from penstock.base.invariant import invariant
from penstock.coordinator.confirmed_map import ConfirmedMap
from penstock.groups.classic.member import Member
from penstock.groups.classic.voting import Ballot, choose_protocol
from penstock.groups.group import BaseGroup
from penstock.groups.messages import OfferedProtocol

K = TypeVar("K")


class GroupState(StrEnum):
    """The values are the names administrators see."""

    EMPTY = "Empty"
    PREPARING = "PreparingRebalance"
    COMPLETING = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


TRANSITIONS: dict[GroupState, frozenset[GroupState]] = {
    GroupState.EMPTY: frozenset({GroupState.PREPARING, GroupState.DEAD}),
    GroupState.PREPARING: frozenset({GroupState.COMPLETING, GroupState.EMPTY, GroupState.DEAD}),
    GroupState.COMPLETING: frozenset({GroupState.STABLE, GroupState.PREPARING, GroupState.DEAD}),
    GroupState.STABLE: frozenset({GroupState.PREPARING, GroupState.DEAD}),
    GroupState.DEAD: frozenset({GroupState.EMPTY}),
}
PENDING_BYTES = 512
"""Approximate memory of a member id that was handed out."""


class Group(BaseGroup):
    """One group; `generation` grows with every completed join phase."""

    __slots__ = (
        "awaiting_sync",
        "ballots",
        "generation",
        "initial_delay_left_ms",
        "is_assignment_in_flight",
        "joined",
        "leader_id",
        "members",
        "newcomer_during_delay",
        "offered",
        "pending",
        "protocol_name",
        "protocol_type",
        "rebalance_started_ms",
        "state",
        "static_members",
    )

    def __init__(self, group_id: str, partition: int, *, wall_ms: int) -> None:
        super().__init__(group_id, partition, ConfirmedMap(), wall_ms=wall_ms)
        self.state = GroupState.EMPTY
        self.generation = 0
        self.protocol_type: str | None = None
        self.protocol_name: str | None = None
        self.leader_id: str | None = None
        self.members: dict[str, Member] = {}
        self.static_members: dict[str, str] = {}
        self.pending: dict[str, None] = {}
        """Member ids handed out whose owners have not joined with them yet (KIP-394)."""
        self.joined: dict[str, None] = {}
        """Members whose join is parked, in the order of their joins."""
        self.awaiting_sync: dict[str, None] = {}
        """Members of this generation that have not asked for their assignment yet."""
        self.offered: dict[str, int] = {}
        """How many members offer each protocol. Counted, so that joins do not cost n squared."""
        self.ballots: dict[Ballot, int] = {}
        """How many members have each ballot; see voting.py."""
        self.is_assignment_in_flight = False
        self.rebalance_started_ms = 0
        self.initial_delay_left_ms: int | None = None
        """While the first join of an empty group is delayed: by how much it can be prolonged."""
        self.newcomer_during_delay = False

    def transition(self, state: GroupState, wall_ms: int) -> None:
        """Go to another state.

        Invariant: only along the transition table; a stable or completing group has a leader who
        is a member, an empty one has no members.
        """
        invariant(
            state in TRANSITIONS[self.state],
            "group state follows the table",
            group=self.group_id,
            source=self.state.value,
            target=state.value,
        )
        if state in (GroupState.COMPLETING, GroupState.STABLE):
            invariant(self.leader_id in self.members, "leader is a member", group=self.group_id)
        if state is GroupState.EMPTY:
            invariant(not self.members, "an empty group has no members", group=self.group_id)
        self.state = state
        self.state_since_ms = wall_ms

    def add(self, member: Member, protocol_type: str) -> None:
        """Add a member; the first one sets the protocol type and leads."""
        assert member.member_id not in self.members, member.member_id
        self._pin(member.size_bytes)
        if not self.members:
            self.protocol_type = protocol_type
        if self.leader_id is None:
            self.leader_id = member.member_id
        self.members[member.member_id] = member
        self._count_offers(member, +1)
        self.drop_pending(member.member_id)
        if member.instance_id is not None:
            assert member.instance_id not in self.static_members, member.instance_id
            self.static_members[member.instance_id] = member.member_id

    def remove(self, member_id: str) -> Member:
        """Remove a member; if it led, the first one with a parked join leads, else the first."""
        member = self.members.pop(member_id)
        self._pin(-member.size_bytes)
        self._count_offers(member, -1)
        self.awaiting_sync.pop(member_id, None)
        self.joined.pop(member_id, None)
        if member.instance_id is not None:
            self.static_members.pop(member.instance_id, None)
        if self.leader_id == member_id:
            self.leader_id = next(iter(self.joined or self.members), None)
        return member

    def rename(self, old_id: str, new_id: str, *, client_id: str, client_host: str) -> Member:
        """Give a static member a new id, and note the client that it belongs to now.

        The old id is fenced from now on.
        """
        assert old_id not in self.joined, "the old owner's join is answered before it is fenced"
        member = self.members.pop(old_id)
        assert member.instance_id is not None, old_id
        self._pin(len(new_id) - len(old_id))
        self._pin(len(client_id) - len(member.client_id))
        member.client_id, member.client_host = client_id, client_host
        member.member_id = new_id
        self.members[new_id] = member
        self.static_members[member.instance_id] = new_id
        if old_id in self.awaiting_sync:
            del self.awaiting_sync[old_id]
            self.awaiting_sync[new_id] = None
        if self.leader_id == old_id:
            self.leader_id = new_id
        return member

    def offer(self, member: Member, protocols: tuple[OfferedProtocol, ...]) -> None:
        """Replace the protocols that a member offers."""
        self._pin(-member.size_bytes)
        self._count_offers(member, -1)
        member.protocols = protocols
        self._count_offers(member, +1)
        self._pin(member.size_bytes)

    def assign(self, assignments: Mapping[str, bytes]) -> None:
        """Replace the assignments of all members; those without one get an empty one."""
        change_bytes = 0
        for member_id, member in self.members.items():
            assignment = assignments.get(member_id, b"")
            change_bytes += len(assignment) - len(member.assignment)
            member.assignment = assignment
        self._pin(change_bytes)

    def add_pending(self, member_id: str) -> None:
        """Note a member id that is handed out."""
        self._pin(PENDING_BYTES)
        self.pending[member_id] = None

    def drop_pending(self, member_id: str) -> None:
        """Forget a member id that was handed out; others are ignored."""
        if member_id in self.pending:
            self._pin(-PENDING_BYTES)
            del self.pending[member_id]

    def elect_joined_leader(self) -> bool:
        """Make a joined member the leader if the leader has not joined; False if none has."""
        if self.joined and self.leader_id not in self.joined:
            self.leader_id = next(iter(self.joined))
        return bool(self.joined)

    def begin_generation(self, wall_ms: int) -> None:
        """Number the next generation and go on, to CompletingRebalance or, without members, Empty.

        Invariant: the generation grows; the protocol is one that all members offer.
        """
        self.generation += 1
        self.is_assignment_in_flight = False
        self.awaiting_sync.clear()
        if self.members:
            self.protocol_name = self.choose_protocol()
            self.transition(GroupState.COMPLETING, wall_ms)
        else:
            self.protocol_name = None
            self.leader_id = None
            self.transition(GroupState.EMPTY, wall_ms)

    def choose_protocol(self) -> str:
        """Return the protocol that the current members elect."""
        first = next(iter(self.members.values()))
        member_count = len(self.members)
        common = [name for name in first.ballot if self.offered[name] == member_count]
        return choose_protocol(common, self.ballots)

    @property
    def has_all_joined(self) -> bool:
        return not self.pending and len(self.joined) == len(self.members)

    @property
    def rebalance_timeout_ms(self) -> int:
        """The longest one that any member asked for; 0 without members."""
        return max((m.rebalance_timeout_ms for m in self.members.values()), default=0)

    @property
    def is_empty(self) -> bool:
        return self.state is GroupState.EMPTY

    @property
    def is_idle(self) -> bool:
        """Whether the group has no members, no handed-out ids, and nothing is under way."""
        return (
            self.is_empty
            and not self.pending
            and self._has_no_positions_under_way
            and not self.metadata.in_flight_count
        )

    @property
    def is_dead(self) -> bool:
        return self.state is GroupState.DEAD

    @property
    def member_count(self) -> int:
        return len(self.members)

    def die(self, wall_ms: int) -> None:
        """As in BaseGroup; a group whose partition moved away may have members."""
        self.state, self.state_since_ms = GroupState.DEAD, wall_ms

    def revive(self, wall_ms: int) -> None:
        """As in BaseGroup."""
        self.transition(GroupState.EMPTY, wall_ms)

    def _count_offers(self, member: Member, change: int) -> None:
        ballot = member.ballot
        for name in ballot:
            _count(self.offered, name, change)
        _count(self.ballots, ballot, change)


def _count(counts: dict[K, int], key: K, change: int) -> None:
    count = counts.get(key, 0) + change
    if count:
        counts[key] = count
    else:
        del counts[key]
