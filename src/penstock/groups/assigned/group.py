"""A group whose coordinator assigns: its records and tables, and what waits to be decided.

    AssignedGroup
      ├── consumer/group.py   ConsumerGroup   a partition has one reader (KIP-848)
      └── share/group.py      ShareGroup      a partition may have many (KIP-932)

All tables (tables.py) change in one place: when records are confirmed, or loaded (`GroupRecords`).
So a group that is loaded is the group that was. What a member waits for, and when topics were last
looked at, is not in the log and ends with the partition (batches.py).

Source: Kafka, ModernGroup.java.
"""

from collections.abc import Sequence
from typing import Any, Generic, TypeVar

from penstock.base.ids import MemberEpoch
from penstock.coordinator.records import UnreadRecord
from penstock.groups.assigned.messages import Beat
from penstock.groups.assigned.names import Kind, RecordName, encode_name
from penstock.groups.assigned.records import GroupRecords, memory_of
from penstock.groups.assigned.tables import AssignedTables
from penstock.groups.assigned.targets import GroupEpoch, Target, TargetEpoch
from penstock.groups.assigned.waiting import Asked, Waiting
from penstock.groups.group import BaseGroup

NOT_COMPARED = -1
"""No version of the cluster's topics."""

T = TypeVar("T", bound=AssignedTables[Any, Any])
R = TypeVar("R", bound=Beat)


class AssignedGroup(BaseGroup, Generic[T, R]):
    """One group. Only `GroupRecords` calls `take`; everything else reads."""

    __slots__ = (
        "_is_dead",
        "batch",
        "is_late",
        "leaving",
        "queue",
        "tables",
        "topics_checked_ms",
        "topics_version",
    )

    def __init__(self, group_id: str, partition: int, tables: T, *, wall_ms: int) -> None:
        super().__init__(group_id, partition, GroupRecords(self), wall_ms=wall_ms)
        self.tables = tables
        self._is_dead = False
        self.queue: Waiting[R] = Waiting(self._pin)
        """Requests that wait for the batch under way (batches.py)."""
        self.batch: list[Asked[R]] = []
        """Requests whose changes are being decided or written."""
        self.is_late = False
        """Whether that write takes so long that its requests were answered with an error."""
        self.leaving: Sequence[str] = ()
        """Members that the write under way removes."""
        self.topics_version = NOT_COMPARED
        """The version of the cluster's topics that the group was last compared with."""
        self.topics_checked_ms = 0

    @property
    def said(self) -> GroupEpoch:
        """The group epoch, and the topics that it is for."""
        return self.tables.said

    @property
    def target_said(self) -> TargetEpoch:
        """The epoch of the target assignment."""
        return self.tables.target_said

    @property
    def targets(self) -> dict[str, Target]:
        """What each member is to have."""
        return self.tables.targets

    @property
    def epoch(self) -> MemberEpoch:
        """The group epoch; never below another epoch of the group, even if its record is lost."""
        return max(self.said.epoch, self.target_said.epoch)

    @property
    def target_epoch(self) -> MemberEpoch:
        """The epoch of the target assignment."""
        return self.target_said.epoch

    @property
    def records(self) -> GroupRecords:
        """The group's own records."""
        assert isinstance(self.metadata, GroupRecords)
        return self.metadata

    @property
    def is_dead(self) -> bool:
        return self._is_dead

    @property
    def is_changing(self) -> bool:
        """Whether a batch is being decided, or written with an outcome not yet known."""
        return bool(self.batch) or bool(self.metadata.in_flight_count)

    @property
    def is_empty(self) -> bool:
        """As in BaseGroup. What waits, waits for a change under way."""
        return not self._is_dead and not self.tables.facts and not self.is_changing

    @property
    def is_idle(self) -> bool:
        return self.is_empty and self._has_no_positions_under_way

    @property
    def member_count(self) -> int:
        return len(self.tables.facts)

    @property
    def member_ids(self) -> list[str]:
        """The ids of its members, the oldest first."""
        return [*self.tables.facts]

    def die(self, wall_ms: int) -> None:
        """As in BaseGroup."""
        self._is_dead, self.state_since_ms = True, wall_ms

    def revive(self, wall_ms: int) -> None:
        """As in BaseGroup."""
        self._is_dead, self.state_since_ms = False, wall_ms

    def key(self, kind: Kind, about: str = "") -> bytes:
        """Return the key of one of its records."""
        return encode_name(RecordName(kind, self.group_id, about))

    def take(
        self, key: bytes, before: bytes | UnreadRecord | None, value: bytes | UnreadRecord | None
    ) -> None:
        """Replay one record in the place of another."""
        self._pin(memory_of(key, value) - memory_of(key, before))
        self.tables.take(key, value)
        self._changed()

    def replace_tables(self, tables: T, change_bytes: int) -> None:
        """Go by tables into which records were replayed already."""
        self._pin(change_bytes)
        self.tables = tables
        self._changed()

    def _changed(self) -> None:
        """Hook: the tables say something else now."""
