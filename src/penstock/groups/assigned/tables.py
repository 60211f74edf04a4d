"""What the confirmed records of a group say, indexed; what is common to consumer and share groups.

    take(key, value) ─► facts, targets, currents, ...      one record is replayed

The live state and loading are both made by `take`. A write of a large group has thousands of
records: they are replayed into a copy beforehand, in portions, and the copy takes the place of the
tables when the write is confirmed (`GroupRecords`). A copy shares what it does not change.

Source: Kafka, ModernGroup.java, whose timeline maps keep older versions too.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, Generic, Self, TypeVar

from penstock.base.ids import MemberEpoch
from penstock.coordinator.errors import MalformedRecord
from penstock.coordinator.records import UnreadRecord
from penstock.groups.assigned.names import Kind, about_at, named_by
from penstock.groups.assigned.targets import GroupEpoch, Target, TargetEpoch

NO_EPOCH = MemberEpoch(0)

F = TypeVar("F")
"""What a member says of itself."""
C = TypeVar("C")
"""What a member has."""


class SaidBytes(bytes):
    """The value of a record together with what it says, so that it is not decoded again."""

    said: object


class AssignedTables(ABC, Generic[F, C]):
    """The tables of one group. Only `take` changes them."""

    __slots__ = (
        "_about_at",
        "_group_id",
        "currents",
        "facts",
        "said",
        "target_said",
        "targets",
    )

    def __init__(self, group_id: str) -> None:
        self._group_id = group_id
        self._about_at = about_at(group_id)
        self.said = GroupEpoch(NO_EPOCH)
        self.target_said = TargetEpoch(NO_EPOCH)
        self.facts: dict[str, F] = {}
        self.targets: dict[str, Target] = {}
        self.currents: dict[str, C] = {}

    def copy(self) -> Self:
        """Return a copy to replay records into, which leaves these tables as they are."""
        made = type(self)(self._group_id)
        made.said, made.target_said = self.said, self.target_said
        made.facts = {**self.facts}
        made.targets, made.currents = {**self.targets}, {**self.currents}
        return made

    def take(self, key: bytes, value: bytes | UnreadRecord | None) -> None:
        """Replay one record: None removes what its key names. Unreadable ones say nothing."""
        kind, about = named_by(key, self._about_at)
        self._take(kind, about, what_is_said(self._decode, kind, value))

    @staticmethod
    @abstractmethod
    def _decode(kind: Kind, value: bytes) -> object:
        """Return what a value says. Raises MalformedRecord."""

    @abstractmethod
    def _take(self, kind: Kind, about: str, said: object) -> None:
        """Note what is said now; None: nothing any more."""


def what_is_said(
    decode: Callable[[Kind, bytes], object], kind: Kind, value: bytes | UnreadRecord | None
) -> object:
    """Return what a record says; None if it says nothing, or can not be read."""
    if isinstance(value, SaidBytes):
        return value.said
    raw = value.value if isinstance(value, UnreadRecord) else value
    if raw is None:
        return None
    try:
        return decode(kind, raw)
    except MalformedRecord:
        return None


def put(table: dict[str, Any], key: str, value: object) -> None:
    """Set an entry; None removes it."""
    if value is None:
        table.pop(key, None)
    else:
        table[key] = value
