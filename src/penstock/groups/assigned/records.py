"""The records of a group whose coordinator assigns: what is confirmed goes on to its tables.

Source: ours; Kafka changes its maps before a write, and takes the changes back if it fails.
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Protocol

from penstock.coordinator.confirmed_map import ConfirmedMap
from penstock.coordinator.portions import POSITIONS, Steps
from penstock.coordinator.records import UnreadRecord
from penstock.groups.assigned.tables import AssignedTables, SaidBytes

NO_TICKET = 0
RECORD_OVERHEAD_BYTES = 600
"""Memory of a record besides its key and value: about what its decoded form takes."""
NAME_BYTES = 55
"""Memory of the name of a topic that a member says, besides its characters."""
REPLAY_BYTES = 800
"""Bytes of records replayed per unit of cost (portions.py)."""
REPLAY_HEAD_BYTES = 100
"""What the head of a record counts for besides: it takes as long as so many bytes of partitions."""
REPLAY_TOGETHER = 10 * REPLAY_BYTES
FREED_TOGETHER = 100
"""Replaced records freed in one step."""

Changes = Mapping[bytes, bytes | UnreadRecord | None]


class Replayed(Protocol):
    """The group of the records."""

    tables: Any

    def take(self, key: bytes, before: bytes | UnreadRecord | None, value: Any) -> None:
        """Replay one record in the place of another."""

    def replace_tables(self, tables: Any, change_bytes: int) -> None:
        """Go by tables into which records were replayed already."""


class _Ready(NamedTuple):
    """Changes that are replayed already, into a copy of the tables."""

    changes: Changes
    tables: AssignedTables[Any, Any]
    size_bytes: int
    """By how much the memory of the group changes."""


class GroupRecords(ConfirmedMap[bytes, bytes | UnreadRecord]):
    """The records of one group by key. A confirmed change goes on to the group's tables.

    A write of a large group has thousands of records. All of it becomes visible in one turn of the
    event loop, so it is replayed by `prepare` before it is written, and what it replaces is freed
    afterwards, by `let_go`; both in portions.
    """

    __slots__ = ("_group", "_ready", "_replaced", "on_settled")

    def __init__(self, group: Replayed) -> None:
        super().__init__()
        self._group = group
        self._ready: _Ready | None = None
        self._replaced: list[bytes | UnreadRecord] = []
        self.on_settled: Callable[[], None] = lambda: None
        """Called when no write of the group is under way any more."""

    def prepare(self, changes: Changes) -> Steps:
        """Replay changes that are about to be written; no others may begin meanwhile."""
        if not changes:
            return
        assert not self.in_flight_count, "one batch of a group is decided at a time"
        tables, size_bytes, spent = self._group.tables.copy(), 0, 0
        replaced: list[bytes | UnreadRecord] = []
        for key, value in changes.items():
            before = self.values.get(key)
            tables.take(key, value)
            size_bytes += memory_of(key, value) - memory_of(key, before)
            if before is not None:
                replaced.append(before)
            spent += REPLAY_HEAD_BYTES + _length(value) + _length(before)
            if spent >= REPLAY_TOGETHER:
                yield spent // REPLAY_BYTES
                spent = 0
        self._ready, self._replaced = _Ready(changes, tables, size_bytes), replaced

    def let_go(self) -> Steps:
        """Forget what was prepared, and return the steps that free what it replaced."""
        self._ready, replaced = None, self._replaced
        self._replaced = []
        return _freed(replaced)

    def begin(self, changes: Changes) -> int:
        """As in ConfirmedMap; a write of positions alone is none of the group's records."""
        return super().begin(changes) if changes else NO_TICKET

    def confirm(self, ticket: int) -> None:
        """As in ConfirmedMap."""
        if ticket == NO_TICKET:
            return
        if self._ready is not None:
            changes, tables, size_bytes = self._ready
            assert self._in_flight[ticket] is changes, "no other write began meanwhile"
            self._group.replace_tables(tables, size_bytes)
        super().confirm(ticket)
        self._settled()

    def refuse(self, ticket: int) -> None:
        """As in ConfirmedMap."""
        if ticket != NO_TICKET:
            super().refuse(ticket)
            self._settled()

    def _settled(self) -> None:
        if not self.in_flight_count:
            self.on_settled()

    def _change(self, key: bytes, value: bytes | UnreadRecord | None) -> None:
        if self._ready is None:
            self._group.take(key, self.values.get(key), value)
        super()._change(key, value)


def _freed(replaced: list[bytes | UnreadRecord]) -> Steps:
    while replaced:
        del replaced[-FREED_TOGETHER:]
        yield FREED_TOGETHER // POSITIONS


def memory_of(key: bytes, value: bytes | UnreadRecord | None) -> int:
    """Return the approximate memory of a record, in bytes, with the names of topics in it."""
    if value is None:
        return 0
    said = value.said if isinstance(value, SaidBytes) else None
    names = len(getattr(said, "topics", ()))
    return RECORD_OVERHEAD_BYTES + len(key) + _length(value) + NAME_BYTES * names


def _length(value: bytes | UnreadRecord | None) -> int:
    said = value.value if isinstance(value, UnreadRecord) else value
    return 0 if said is None else len(said)
