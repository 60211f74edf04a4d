"""The confirm position: how far a replica set's log is acknowledged, and so visible to consumers.

    position  0 ------------- confirm ------ slowest member that counts ------- master's end
              acknowledged, visible  |  durable on some members, not yet on enough

Which members count, and how many of them must hold a position, is up to the acknowledgement policy.
While a change of the sync-state set is under way, either the old or the new set may decide an
election, so a position must be held by enough members of *each* possible set: with the policy
`all`, by all of the committed set and all that are being added.

The position never falls during a mastership. It does not advance past what a member that is being
added holds, nor at all while a member that counts has not reported yet (or has no connection).

Nothing that lies wholly below the start of this mastership is confirmed by counting: such bytes
may be on enough disks and still lose to a newer mastership's bytes in the next election. They are
confirmed together with the frame that starts the mastership.

Source: RocketMQ controller mode (confirm offset); KIP-497 (effective ISR while a change is in
flight); Raft 5.4.2 for the last rule and section 6 (joint majorities) for the counting over two
sets. It deliberately knows nothing of connections, time-outs or logs.
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from penstock.base.ack_policy import AckPolicy
from penstock.base.ids import BrokerId, Position
from penstock.base.invariant import invariant

ALL_IN_STEP = AckPolicy()
START = Position(0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Membership:
    """Who is in the set, by broker id, as far as the master knows it."""

    replicas: tuple[BrokerId, ...]
    """All members, the master included."""
    committed: tuple[BrokerId, ...]
    """The sync-state set that the controllers have recorded."""
    proposed: tuple[tuple[BrokerId, ...], ...] = ()
    """Sets that were requested and may have been recorded by now."""
    policy: AckPolicy = ALL_IN_STEP

    def __post_init__(self) -> None:
        assert self.committed, "a sync-state set has at least its master"
        assert all(self.proposed), "a sync-state set has at least its master"

    @property
    def effective(self) -> tuple[BrokerId, ...]:
        """The committed set together with members being added, in ascending order."""
        return tuple(sorted({*self.committed}.union(*self.proposed)))

    def is_enough(self, member: BrokerId) -> bool:
        """Whether the policy confirms what `member` alone holds."""
        is_alone_in_step = self.effective == (member,)
        if not self.policy.counts_replicas:
            return is_alone_in_step
        return is_alone_in_step and all(count == 1 for _, count in self.demands())

    def waits_for(self, member: BrokerId, present: Collection[BrokerId]) -> bool:
        """Whether what `member` does not hold yet holds up writes.

        It counts now, or may in a moment; or the policy counts all replicas, and those of the
        effective set that are `present` (the master included) are too few; or the set is smaller
        than it may be for writes.
        """
        if member in self.effective or len(self.committed) < self.policy.minimum:
            return True
        able = {*present} & {*self.effective}
        return any(
            member in some and len(able.intersection(some)) < count
            for some, count in self.demands()
        )

    def possible_voters(self) -> tuple[tuple[BrokerId, ...], ...]:
        """Return each set of members that may elect a master now, as far as is known."""
        if self.policy.counts_replicas:
            return (self.replicas,)
        return tuple(dict.fromkeys((self.committed, *self.proposed)))

    def demands(self) -> tuple[tuple[tuple[BrokerId, ...], int], ...]:
        """Return (members, count) pairs: a position needs `count` of `members`, for each pair."""
        if self.policy.counts_replicas:
            count = self.policy.copies_needed(len(self.replicas), len(self.committed))
            return ((self.replicas, count),)
        policy, total = self.policy, len(self.replicas)
        sets = dict.fromkeys((self.committed, *self.proposed))
        return tuple((some, policy.copies_needed(total, len(some))) for some in sets)


def held_by_enough(acknowledged: Sequence[Position], count: int) -> Position:
    """Return the highest position that `count` of the acknowledged positions have reached.

    0 if there are fewer than `count` positions: too few members confirm nothing.
    """
    assert count >= 1, "at least the master holds what is confirmed"
    if count > len(acknowledged):
        return Position(0)
    return sorted(acknowledged, reverse=True)[count - 1]


class ConfirmTracker:
    """Acknowledged positions of one mastership; one instance per leader epoch."""

    __slots__ = ("_acknowledged", "_demands", "_epoch_start", "_membership", "position")

    def __init__(
        self, membership: Membership, start: Position, *, epoch_start: Position = START
    ) -> None:
        """Begin a mastership.

        `start` (exclusive) is what is known to be confirmed already, `epoch_start` (inclusive)
        the position of the frame that starts the mastership.
        """
        self._membership = membership
        self._demands = membership.demands()
        self._acknowledged: dict[BrokerId, Position] = {}
        self._epoch_start = epoch_start
        self.position = start

    @property
    def membership(self) -> Membership:
        """The sets that must hold a position to confirm it."""
        return self._membership

    def acknowledged(self, member: BrokerId) -> Position:
        """Return how far `member` holds the log durably (exclusive); 0 before its first report."""
        return self._acknowledged.get(member, Position(0))

    def acknowledge(self, member: BrokerId, position: Position) -> bool:
        """Record that `member` holds the log durably up to `position` (exclusive).

        Returns whether the confirm position moved. A report below an earlier one violates an
        invariant: durable bytes do not go away during a mastership. A member that may have lost
        bytes makes a new handshake, see `forget`.
        """
        earlier = self._acknowledged.get(member, 0)
        invariant(position >= earlier, "acknowledgement went back", member=member, to=position)
        self._acknowledged[member] = position
        return self._advance()

    def forget(self, member: BrokerId) -> None:
        """Drop what `member` acknowledged: after a new handshake it reports its position again."""
        self._acknowledged.pop(member, None)

    def change_members(self, membership: Membership) -> bool:
        """Use other sets from now on; returns whether the confirm position moved."""
        self._membership = membership
        self._demands = membership.demands()
        return self._advance()

    def _advance(self) -> bool:
        lowest = self.reachable()
        if lowest <= self.position or lowest <= self._epoch_start:
            return False
        self.position = lowest
        return True

    def reachable(self) -> Position:
        """Return the highest position that enough members of every possible set hold."""
        return min(held_by_enough(self._held(some), count) for some, count in self._demands)

    def _held(self, members: Iterable[BrokerId]) -> list[Position]:
        acknowledged = self._acknowledged
        return [acknowledged.get(member, Position(0)) for member in members]
