"""A consumer group of KIP-848: what its confirmed records say, indexed.

    members ─► facts, target, current          who is in it, what each is to have and has
    owners  ─► member of each partition        a partition that is to be given up has an owner still
    epoch, target_epoch, resolved topics

All of this (tables.py) changes in one place: when records are confirmed, or loaded
(`GroupRecords`). So a group that is loaded is the group that was. What a member waits for, and when
topics were last looked at, is not in the log and ends with the partition (`heartbeats.py`).

    Empty ─ first member ─► Assigning ─ target known ─► Reconciling ─ all have it ─► Stable

The state is derived: Empty without members, Assigning while the epoch is above that of the target,
Reconciling while a member is not stable in the target's epoch.

Source: KIP-848; Kafka, ConsumerGroup.java and ModernGroup.java.
"""

from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import NamedTuple

from penstock.coordinator.confirmed_map import ConfirmedMap
from penstock.coordinator.portions import POSITIONS, Steps
from penstock.coordinator.records import UnreadRecord
from penstock.groups.consumer.owners import Owners
from penstock.groups.consumer.records import (
    Current,
    GroupEpoch,
    Kind,
    MemberFacts,
    MemberState,
    RecordName,
    Resolved,
    Target,
    TargetEpoch,
    encode_name,
)
from penstock.groups.consumer.tables import Tables
from penstock.groups.consumer.waiting import Asked, Waiting
from penstock.groups.group import BaseGroup

LEFT_EPOCH, LEFT_STATIC_EPOCH = -1, -2
"""Epochs with which a member leaves: for good, or as a static member that will be back."""
NOT_COMPARED = -1
"""No version of the cluster's topics."""
NO_TICKET = 0
RECORD_OVERHEAD_BYTES = 600
"""Memory of a record besides its key and value: about what its decoded form takes."""
REPLAY_BYTES = 800
"""Bytes of records replayed per unit of cost (portions.py)."""
REPLAY_HEAD_BYTES = 100
"""What the head of a record counts for besides: it takes as long as so many bytes of partitions."""
REPLAY_TOGETHER = 10 * REPLAY_BYTES
FREED_TOGETHER = 100
"""Replaced records freed in one step."""


class ConsumerGroupState(StrEnum):
    """The values are the names administrators see."""

    EMPTY = "Empty"
    ASSIGNING = "Assigning"
    RECONCILING = "Reconciling"
    STABLE = "Stable"
    DEAD = "Dead"


Changes = Mapping[bytes, bytes | UnreadRecord | None]


class _Ready(NamedTuple):
    """Changes that are replayed already, into a copy of the tables."""

    changes: Changes
    tables: Tables
    size_bytes: int
    """By how much the memory of the group changes."""


class GroupRecords(ConfirmedMap[bytes, bytes | UnreadRecord]):
    """The records of one group by key. A confirmed change goes on to the group's tables.

    A write of a large group has thousands of records. All of it becomes visible in one turn of the
    event loop, so it is replayed by `prepare` before it is written, and what it replaces is freed
    afterwards, by `let_go`; both in portions.
    """

    __slots__ = ("_group", "_ready", "_replaced", "on_settled")

    def __init__(self, group: "ConsumerGroup") -> None:
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
            size_bytes += _memory(key, value) - _memory(key, before)
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


class ConsumerGroup(BaseGroup):
    """One group. Only `GroupRecords` calls `take`; everything else reads."""

    __slots__ = (
        "_is_dead",
        "_state",
        "batch",
        "is_late",
        "queue",
        "tables",
        "topics_checked_ms",
        "topics_version",
        "watched",
    )

    def __init__(self, group_id: str, partition: int, *, wall_ms: int) -> None:
        super().__init__(group_id, partition, GroupRecords(self), wall_ms=wall_ms)
        self.tables = Tables(group_id)
        self._is_dead = False
        self._state: ConsumerGroupState | None = None

        self.queue = Waiting(self._pin)
        """Requests that wait for the batch under way (heartbeats.py)."""
        self.batch: list[Asked] = []
        """Requests whose changes are being decided or written."""
        self.watched: dict[str, Current] = {}
        """Members that have to give partitions up, with what their deadline was set for."""
        self.is_late = False
        """Whether that write takes so long that its requests were answered with an error."""
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
    def facts(self) -> dict[str, MemberFacts]:
        """What each member has said of itself."""
        return self.tables.facts

    @property
    def static_members(self) -> dict[str, str]:
        """Instance id -> member id."""
        return self.tables.static_members

    @property
    def targets(self) -> dict[str, Target]:
        """What each member is to have."""
        return self.tables.targets

    @property
    def currents(self) -> dict[str, Current]:
        """What each member has."""
        return self.tables.currents

    @property
    def resolved(self) -> dict[str, Resolved]:
        """Regular expression -> its topics."""
        return self.tables.resolved

    @property
    def owners(self) -> Owners:
        """Topic id -> partition -> member id."""
        return self.tables.owners

    @property
    def epoch(self) -> int:
        """The group epoch; never below another epoch of the group, even if its record is lost."""
        return max(self.said.epoch, self.target_said.epoch)

    @property
    def target_epoch(self) -> int:
        """The epoch of the target assignment."""
        return self.target_said.epoch

    @property
    def records(self) -> GroupRecords:
        """The group's own records."""
        assert isinstance(self.metadata, GroupRecords)
        return self.metadata

    @property
    def state(self) -> ConsumerGroupState:
        """The state that administrators see."""
        if self._is_dead:
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
        return self.state is ConsumerGroupState.EMPTY and not self.is_changing

    @property
    def is_idle(self) -> bool:
        return self.is_empty and self._has_no_positions_under_way

    @property
    def member_count(self) -> int:
        return len(self.facts)

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
        self._pin(_memory(key, value) - _memory(key, before))
        self._state = None
        self.tables.take(key, value)

    def replace_tables(self, tables: Tables, change_bytes: int) -> None:
        """Go by tables into which records were replayed already."""
        self._pin(change_bytes)
        self._state, self.tables = None, tables


def _freed(replaced: list[bytes | UnreadRecord]) -> Steps:
    while replaced:
        del replaced[-FREED_TOGETHER:]
        yield FREED_TOGETHER // POSITIONS


def _memory(key: bytes, value: bytes | UnreadRecord | None) -> int:
    return 0 if value is None else RECORD_OVERHEAD_BYTES + len(key) + _length(value)


def _length(value: bytes | UnreadRecord | None) -> int:
    said = value.value if isinstance(value, UnreadRecord) else value
    return 0 if said is None else len(said)
