"""A share group of KIP-932: what its confirmed records say, indexed.

    members ─► facts, target, current    who is in it, what each is to have and was told
    shared  ─► partitions                what was ever assigned, and so may have a share

    Empty ─ first member ─► Stable       many may have a partition, so nobody waits for another

It has no positions: a share keeps its own, with its data (penstock.shares). It does not expire: it
is deleted by DeleteGroups alone, as in Kafka, since nothing tells that nobody comes back for its
shares.

Source: KIP-932; Kafka, ShareGroup.java.
"""

from enum import StrEnum

from penstock.groups.assigned.group import AssignedGroup
from penstock.groups.share.messages import ShareHeartbeat
from penstock.groups.share.records import ShareCurrent, Shared, ShareFacts
from penstock.groups.share.tables import ShareTables


class ShareGroupState(StrEnum):
    """The values are the names administrators see."""

    EMPTY = "Empty"
    STABLE = "Stable"
    DEAD = "Dead"


class ShareGroup(AssignedGroup[ShareTables, ShareHeartbeat]):
    """One group; see AssignedGroup."""

    __slots__ = ("is_held",)

    def __init__(self, group_id: str, partition: int, *, wall_ms: int) -> None:
        super().__init__(group_id, partition, ShareTables(group_id), wall_ms=wall_ms)
        self.is_held = False
        """Whether its shares are being moved or deleted: no member may join meanwhile."""

    @property
    def facts(self) -> dict[str, ShareFacts]:
        """What each member has said of itself."""
        return self.tables.facts

    @property
    def currents(self) -> dict[str, ShareCurrent]:
        """What each member has."""
        return self.tables.currents

    @property
    def shared(self) -> Shared:
        """What may have a share of the group."""
        return self.tables.shared

    @property
    def state(self) -> ShareGroupState:
        """The state that administrators see."""
        if self.is_dead:
            return ShareGroupState.DEAD
        return ShareGroupState.STABLE if self.facts else ShareGroupState.EMPTY

    @property
    def is_changing(self) -> bool:
        """As in AssignedGroup."""
        return self.is_held or super().is_changing

    @property
    def is_vacant(self) -> bool:
        """Never: its shares are positions that somebody may come back for."""
        return False

    @property
    def expires(self) -> bool:
        """As in BaseGroup."""
        return False
