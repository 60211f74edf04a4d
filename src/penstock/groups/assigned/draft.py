"""Changes of a group that are being decided: what the group will be once they are written.

A draft lies over the confirmed group and is the only place where decisions are made. It becomes one
write; if that is not confirmed, the draft is dropped and the group is as it was.

Source: Kafka, the records that a CoordinatorResult collects; there they change the live state at
once and are taken back if the write fails.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any, ClassVar, Generic, TypeVar

from penstock.groups.assigned.group import AssignedGroup
from penstock.groups.assigned.names import Kind
from penstock.groups.assigned.tables import SaidBytes
from penstock.groups.assigned.targets import Target

G = TypeVar("G", bound=AssignedGroup[Any, Any])
F = TypeVar("F")
"""What a member says of itself."""
C = TypeVar("C")
"""What a member has."""


class AssignedDraft(ABC, Generic[G, F, C]):
    """The group with some changes."""

    __slots__ = ("_currents", "_facts", "_group", "changes", "epoch", "is_bumped")

    MEMBER: ClassVar[Kind]
    TARGET: ClassVar[Kind]
    CURRENT: ClassVar[Kind]

    def __init__(self, group: G) -> None:
        self._group = group
        self.changes: dict[bytes, SaidBytes | None] = {}
        """Records by key, in the order in which they were first changed; None is a tombstone."""
        self._facts: dict[str, F | None] = {}
        self._currents: dict[str, C | None] = {}
        self.epoch = group.epoch
        self.is_bumped = False
        """Whether members or their subscriptions have changed, so that the epoch must grow."""

    def facts(self, member_id: str) -> F | None:
        """Return what a member says of itself; None if there is no such member."""
        if member_id in self._facts:
            return self._facts[member_id]
        found: F | None = self._group.tables.facts.get(member_id)
        return found

    def current(self, member_id: str) -> C | None:
        """Return what a member has."""
        if member_id in self._currents:
            return self._currents[member_id]
        found: C | None = self._group.tables.currents.get(member_id)
        return found

    @property
    def member_count(self) -> int:
        """How many members the group will have."""
        there = self._group.tables.facts
        count = len(there)
        for member_id, facts in self._facts.items():
            count += (facts is not None) - (member_id in there)
        return count

    @property
    def leaving(self) -> list[str]:
        """Members that the group will not have any more."""
        return [member_id for member_id, facts in self._facts.items() if facts is None]

    def members(self) -> Iterator[tuple[str, F]]:
        """Yield all members, the oldest first."""
        there: dict[str, F] = self._group.tables.facts
        for member_id, facts in there.items():
            kept = self._facts.get(member_id, facts)
            if kept is not None:
                yield member_id, kept
        for member_id, added in self._facts.items():
            if added is not None and member_id not in there:
                yield member_id, added

    def put(self, kind: Kind, about: str, said: object) -> None:
        """Change one record; None removes it."""
        key = self._group.key(kind, about)
        if said is None and key not in self._group.metadata.values:
            self.changes.pop(key, None)
            return
        self.changes[key] = None if said is None else self._encode(said)

    def put_facts(self, member_id: str, facts: F | None) -> None:
        """Change what a member says of itself."""
        self._facts[member_id] = facts
        self.put(self.MEMBER, member_id, facts)

    def put_current(self, member_id: str, current: C | None) -> None:
        """Change what a member has."""
        self._currents[member_id] = current
        self.put(self.CURRENT, member_id, current)

    def put_target(self, member_id: str, target: Target | None) -> None:
        """Change what a member is to have."""
        self.put(self.TARGET, member_id, target)

    def remove(self, member_id: str) -> None:
        """Remove a member with all that it has; the assignment must be computed anew."""
        self.put_current(member_id, None)
        self.put_target(member_id, None)
        self.put_facts(member_id, None)
        self.is_bumped = True

    def target(self, member_id: str) -> Target | None:
        """Return what a member is to have."""
        key = self._group.key(self.TARGET, member_id)
        if key in self.changes:
            value = self.changes[key]
            return None if value is None or not isinstance(value.said, Target) else value.said
        return self._group.targets.get(member_id)

    @staticmethod
    @abstractmethod
    def _encode(said: Any) -> SaidBytes:
        """Return the value of a record that says this."""
