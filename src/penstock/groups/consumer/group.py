"""A consumer group of KIP-848: what its confirmed records say, indexed.

    members ─► facts, target, current          who is in it, what each is to have and has
    owners  ─► member of each partition        a partition that is to be given up has an owner still
    epoch, target_epoch, resolved topics

    Empty ─ first member ─► Assigning ─ target known ─► Reconciling ─ all have it ─► Stable

The state is derived: Empty without members, Assigning while the epoch is above that of the target,
Reconciling while a member is not stable in the target's epoch.

Source: KIP-848; Kafka, ConsumerGroup.java.
"""

from enum import StrEnum

from penstock.base.ids import MemberEpoch
from penstock.groups.assigned.currents import MemberState
from penstock.groups.assigned.reconciled import ReconciledGroup
from penstock.groups.consumer.messages import ConsumerHeartbeat, Sight
from penstock.groups.consumer.owners import Owners
from penstock.groups.consumer.records import MemberFacts, Resolved
from penstock.groups.consumer.tables import Tables

LEFT_STATIC_EPOCH = MemberEpoch(-2)
"""Epoch with which a static member leaves that will be back."""


class ConsumerGroupState(StrEnum):
    """The values are the names administrators see."""

    EMPTY = "Empty"
    ASSIGNING = "Assigning"
    RECONCILING = "Reconciling"
    STABLE = "Stable"
    DEAD = "Dead"


class ConsumerGroup(ReconciledGroup[Tables, ConsumerHeartbeat]):
    """One group; see ReconciledGroup."""

    __slots__ = ("_state", "sights")

    def __init__(self, group_id: str, partition: int, *, wall_ms: int) -> None:
        super().__init__(group_id, partition, Tables(group_id), wall_ms=wall_ms)
        self._state: ConsumerGroupState | None = None
        self.sights: dict[str, Sight | None] = {}
        """Regular expression -> which topics a member that has it may see, the last to be heard
        of. Not in the log: members are heard of every few seconds."""

    @property
    def facts(self) -> dict[str, MemberFacts]:
        """What each member has said of itself."""
        return self.tables.facts

    @property
    def static_members(self) -> dict[str, str]:
        """Instance id -> member id."""
        return self.tables.static_members

    @property
    def resolved(self) -> dict[str, Resolved]:
        """Regular expression -> its topics."""
        return self.tables.resolved

    @property
    def owners(self) -> Owners:
        """Topic id -> partition -> member id."""
        return self.tables.owners

    def note_sight(self, request: ConsumerHeartbeat) -> None:
        """Note what the client of a member with a regular expression may see now."""
        facts = self.facts.get(request.member_id)
        if facts is not None and facts.regex and request.regex in {None, facts.regex}:
            self.sights[facts.regex] = request.may_see

    @property
    def state(self) -> ConsumerGroupState:
        """The state that administrators see."""
        if self.is_dead:
            return ConsumerGroupState.DEAD
        if self._state is None:
            self._state = self._derive_state()
        return self._state

    def _derive_state(self) -> ConsumerGroupState:
        if not self.facts:
            return ConsumerGroupState.EMPTY
        if self.epoch > self.target_epoch:
            return ConsumerGroupState.ASSIGNING
        if all(map(self._has_its_target, self.facts)):
            return ConsumerGroupState.STABLE
        return ConsumerGroupState.RECONCILING

    def _has_its_target(self, member_id: str) -> bool:
        current = self.currents.get(member_id)
        if current is None:
            return False
        is_away = current.epoch == LEFT_STATIC_EPOCH
        return is_away or (
            current.epoch == self.target_epoch and current.state is MemberState.STABLE
        )

    def _changed(self) -> None:
        self._state = None
