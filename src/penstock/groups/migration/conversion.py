"""A group becomes one of the other kind, with all its members, by one write.

    tombstones of the old kind, records of the new one ─► one batch ─► confirmed: the new one is
                                                                        shown, the old one is Dead

Both groups are told of their part, as of any write. While it is under way the new group waits as
the `successor` of the old one, so that a rewrite finds its records.

Source: Kafka, GroupMetadataManager (convertToConsumerGroup, convertToClassicGroup), which changes
its state before the write; here the state changes when it is confirmed (ADR 0087).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from penstock.coordinator.records import JournalRecord, UnreadRecord
from penstock.groups.group import BaseGroup
from penstock.groups.journal import GroupChanges
from penstock.groups.kinds import replace
from penstock.groups.table import GroupTable

Records = Mapping[bytes, bytes | UnreadRecord | None]


@dataclass(slots=True, kw_only=True, eq=False)
class Conversion:
    """A Change (penstock.coordinator.writes) of two groups of one id."""

    table: GroupTable
    old: BaseGroup
    new: BaseGroup
    gone: Records
    """The records of the old group: all of them, each with None."""
    made: Records
    wall_ms: Callable[[], int]
    on_confirmed: Callable[[], None]
    """Called when the new group has taken the place of the old one."""
    on_refused: Callable[[], None] = lambda: None
    """Called when the old group stays, and was not hidden meanwhile."""
    is_begun: bool = False
    records: list[JournalRecord] = field(init=False)
    """As in Change."""
    _old_ticket: int = 0
    _new_ticket: int = 0

    def __post_init__(self) -> None:
        """List the records: the tombstones first, so that the loader sees one kind at a time."""
        group_id = self.old.group_id
        tombstones = GroupChanges(metadata=self.gone).records(group_id)
        self.records = tombstones + GroupChanges(metadata=self.made).records(group_id)

    def begin(self) -> None:
        """As in Change."""
        self.is_begun = True
        self._old_ticket = self.old.metadata.begin(self.gone)
        self._new_ticket = self.new.metadata.begin(self.made)
        self.table.successors[self.old.group_id] = self.new

    def confirm(self) -> None:
        """As in Change."""
        is_there = self._is_there
        if is_there:
            self.old.die(self.wall_ms())
            replace(self.table, self.old, self.new)
        self._end()
        self.old.metadata.confirm(self._old_ticket)
        self.new.metadata.confirm(self._new_ticket)
        if is_there:
            self.on_confirmed()

    def refuse(self) -> None:
        """As in Change."""
        self._end()
        self.new.metadata.refuse(self._new_ticket)
        self.old.metadata.refuse(self._old_ticket)
        if self._is_there:
            self.on_refused()

    @property
    def _is_there(self) -> bool:
        """Whether the old group is shown: its partition may have moved away, or come back."""
        return self.table.groups.get(self.old.group_id) is self.old

    def _end(self) -> None:
        if self.table.successors.get(self.old.group_id) is self.new:
            del self.table.successors[self.old.group_id]
