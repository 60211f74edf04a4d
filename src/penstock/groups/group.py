"""What groups of every kind have: an id, committed positions, records of their own, their memory.

    BaseGroup
      ├── classic/group.py   Group           members agree by JoinGroup and SyncGroup
      └── assigned/group.py  AssignedGroup   it assigns: consumer, share and streams groups

`metadata` holds the group's own records by their keys, as they are in the internal topic: a rewrite
copies them, and a deletion writes a tombstone for each, whatever they mean.

Source: Kafka, Group.java of group-coordinator.
"""

from abc import ABC, abstractmethod

from penstock.coordinator.confirmed_map import ConfirmedMap
from penstock.coordinator.records import UnreadRecord
from penstock.groups.offsets.positions import Positions
from penstock.groups.pinned import PinnedBytes

GROUP_OVERHEAD_BYTES = 2_048
"""Approximate memory of a group."""

Metadata = ConfirmedMap[bytes, bytes | UnreadRecord]


class BaseGroup(ABC):
    """One group in the table of a coordinator; what depends on its kind is abstract."""

    __slots__ = (
        "_meter",
        "group_id",
        "metadata",
        "offsets",
        "partition",
        "size_bytes",
        "state_since_ms",
    )

    def __init__(self, group_id: str, partition: int, metadata: Metadata, *, wall_ms: int) -> None:
        self.group_id = group_id
        self.partition = partition
        self.metadata = metadata
        self.offsets = Positions()
        self.state_since_ms = wall_ms
        self.size_bytes = GROUP_OVERHEAD_BYTES + len(group_id)
        """Approximate memory of the group and its members, without its committed positions."""
        self._meter: PinnedBytes | None = None

    @property
    @abstractmethod
    def is_dead(self) -> bool:
        """Whether it is being deleted, or its partition moved away."""

    @property
    @abstractmethod
    def is_empty(self) -> bool:
        """Whether it has no members, and none are about to come or go."""

    @property
    @abstractmethod
    def is_idle(self) -> bool:
        """Whether the group has no members, and nothing is under way for it."""

    @property
    @abstractmethod
    def member_count(self) -> int:
        """How many members it has."""

    @property
    def expires(self) -> bool:
        """Whether it is deleted when nobody has used it for long."""
        return True

    @property
    def is_vacant(self) -> bool:
        """Whether it has nothing that anybody could come back for: no members, no positions."""
        return not self.member_count and not self.offsets.values and self.is_idle

    @property
    def _has_no_positions_under_way(self) -> bool:
        """Whether no position is being written, or waits for the end of a transaction."""
        return not self.offsets.in_flight_count and not self.offsets.pending

    @abstractmethod
    def die(self, wall_ms: int) -> None:
        """Take part in nothing from now on: it is deleted, or its partition moved away."""

    @abstractmethod
    def revive(self, wall_ms: int) -> None:
        """Be empty again: the deletion was not written."""

    def count_in(self, meter: PinnedBytes | None) -> None:
        """Count the group's bytes in another sum from now on, or in none."""
        if self._meter is not None:
            self._meter.total -= self.size_bytes
        self._meter = meter
        self.offsets.count_in(meter)
        if meter is not None:
            meter.total += self.size_bytes

    @property
    def has_unread_metadata(self) -> bool:
        """Whether this version cannot read a record of the group in full."""
        return any(isinstance(kept, UnreadRecord) for kept in self.metadata.values.values())

    def _pin(self, change_bytes: int) -> None:
        self.size_bytes += change_bytes
        if self._meter is not None:
            self._meter.total += change_bytes
