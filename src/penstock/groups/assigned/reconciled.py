"""What is reconciled: a group whose members give up what they are not to have before others get it.

Source: KIP-848, KIP-1071; Kafka, ConsumerGroup and StreamsGroup of group-coordinator.
"""

from abc import abstractmethod
from typing import Any, Protocol, Self, TypeVar

from penstock.assignors.partitions import Partitions
from penstock.base.ids import MemberEpoch
from penstock.groups.assigned.currents import Current
from penstock.groups.assigned.draft import AssignedDraft
from penstock.groups.assigned.group import AssignedGroup
from penstock.groups.assigned.messages import Beat
from penstock.groups.assigned.tables import AssignedTables


class OwningBeat(Beat, Protocol):
    """A heartbeat that says what its member has."""

    @property
    def member_epoch(self) -> MemberEpoch: ...

    @property
    def owned(self) -> Partitions | None:
        """What the member has; None if it did not say."""

    def with_owned(self, owned: Partitions | None) -> Self:
        """Return the same heartbeat of a member that has something else."""


T = TypeVar("T", bound=AssignedTables[Any, Current])
R = TypeVar("R", bound=OwningBeat)


class ReconciledGroup(AssignedGroup[T, R]):
    """A group whose members are on their way to what they are to have."""

    __slots__ = ("watched",)

    def __init__(self, group_id: str, partition: int, tables: T, *, wall_ms: int) -> None:
        super().__init__(group_id, partition, tables, wall_ms=wall_ms)
        self.watched: dict[str, Current] = {}
        """Members that have to give something up, with what their deadline was set for."""

    @property
    def currents(self) -> dict[str, Current]:
        """What each member has."""
        return self.tables.currents


G = TypeVar("G", bound=ReconciledGroup[Any, Any])
F = TypeVar("F")


class OwningDraft(AssignedDraft[G, F, Current]):
    """A draft that knows who has what."""

    __slots__ = ()

    @abstractmethod
    def free_for(self, member_id: str, key: bytes, numbers: frozenset[int]) -> frozenset[int]:
        """Return those numbers under a key that a member may be given now."""
