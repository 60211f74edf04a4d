"""A consumer group of KIP-848: what its confirmed records say, indexed.

    members ─► facts, target, current          who is in it, what each is to have and has
    owners  ─► member of each partition        a partition that is to be given up has an owner still
    epoch, target_epoch, resolved topics

All of this changes in one place: when a record is confirmed, or loaded (`GroupRecords`). So a group
that is loaded is the group that was. What a member waits for, and when topics were last looked at,
is not in the log and ends with the partition (`heartbeats.py`).

    Empty ─ first member ─► Assigning ─ target known ─► Reconciling ─ all have it ─► Stable

The state is derived: Empty without members, Assigning while the epoch is above that of the target,
Reconciling while a member is not stable in the target's epoch.

Source: KIP-848; Kafka, ConsumerGroup.java and ModernGroup.java.
"""

from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Any

from penstock.coordinator.confirmed_map import ConfirmedMap
from penstock.coordinator.records import UnreadRecord
from penstock.groups.consumer.owners import Owners, drop_unowned, move
from penstock.groups.consumer.records import (
    Current,
    GroupEpoch,
    Kind,
    MemberFacts,
    MemberState,
    RecordName,
    Resolved,
    Said,
    Target,
    TargetEpoch,
    about_at,
    decode_said,
    encode_name,
    encode_said,
    named_by,
)
from penstock.groups.consumer.waiting import Asked, Waiting
from penstock.groups.errors import MalformedGroupRecord
from penstock.groups.group import BaseGroup

NO_EPOCH = 0
LEFT_EPOCH, LEFT_STATIC_EPOCH = -1, -2
"""Epochs with which a member leaves: for good, or as a static member that will be back."""
NOT_COMPARED = -1
"""No version of the cluster's topics."""
NO_TICKET = 0
RECORD_OVERHEAD_BYTES = 600
"""Memory of a record besides its key and value: about what its decoded form takes."""


class ConsumerGroupState(StrEnum):
    """The values are the names administrators see."""

    EMPTY = "Empty"
    ASSIGNING = "Assigning"
    RECONCILING = "Reconciling"
    STABLE = "Stable"
    DEAD = "Dead"


class SaidBytes(bytes):
    """The value of a record together with what it says, so that it is not decoded again."""

    said: Said


def said_bytes(said: Said) -> SaidBytes:
    """Return the value of a record that says this."""
    value = SaidBytes(encode_said(said))
    value.said = said
    return value


class GroupRecords(ConfirmedMap[bytes, bytes | UnreadRecord]):
    """The records of one group by key. A confirmed change goes on to the group's tables."""

    __slots__ = ("_group", "on_settled")

    def __init__(self, group: "ConsumerGroup") -> None:
        super().__init__()
        self._group = group
        self.on_settled: Callable[[], None] = lambda: None
        """Called when no write of the group is under way any more."""

    def begin(self, changes: Mapping[bytes, bytes | UnreadRecord | None]) -> int:
        """As in ConfirmedMap; a write of positions alone is none of the group's records."""
        return super().begin(changes) if changes else NO_TICKET

    def confirm(self, ticket: int) -> None:
        """As in ConfirmedMap."""
        if ticket != NO_TICKET:
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
        self._group.take(key, self.values.get(key), value)
        super()._change(key, value)


class ConsumerGroup(BaseGroup):
    """One group. Only `GroupRecords` calls `take`; everything else reads."""

    __slots__ = (
        "_about_at",
        "_is_dead",
        "_state",
        "batch",
        "currents",
        "facts",
        "is_late",
        "owners",
        "queue",
        "resolved",
        "said",
        "static_members",
        "target_said",
        "targets",
        "topics_checked_ms",
        "topics_version",
        "watched",
    )

    def __init__(self, group_id: str, partition: int, *, wall_ms: int) -> None:
        super().__init__(group_id, partition, GroupRecords(self), wall_ms=wall_ms)
        self.said = GroupEpoch(NO_EPOCH)
        self.target_said = TargetEpoch(NO_EPOCH)
        self.facts: dict[str, MemberFacts] = {}
        self.static_members: dict[str, str] = {}
        """Instance id -> member id."""
        self.targets: dict[str, Target] = {}
        self.currents: dict[str, Current] = {}
        self.resolved: dict[str, Resolved] = {}
        """Regular expression -> its topics."""
        self.owners: Owners = {}
        self._about_at = about_at(group_id)
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
        return self.is_empty and not self.offsets.in_flight_count

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
        """Replay one record: None removes what its key names. Unreadable ones say nothing."""
        self._pin(_memory(key, value) - _memory(key, before))
        kind, about = named_by(key, self._about_at)
        self._state = None
        said = _what_is_said(kind, value)
        match kind:
            case Kind.GROUP:
                self.said = said if isinstance(said, GroupEpoch) else GroupEpoch(NO_EPOCH)
            case Kind.TARGET_EPOCH:
                self.target_said = said if isinstance(said, TargetEpoch) else TargetEpoch(NO_EPOCH)
            case Kind.MEMBER:
                self._take_facts(about, said if isinstance(said, MemberFacts) else None)
            case Kind.TARGET:
                _put(self.targets, about, said if isinstance(said, Target) else None)
            case Kind.CURRENT:
                self._take_current(about, said if isinstance(said, Current) else None)
            case Kind.REGEX:
                _put(self.resolved, about, said if isinstance(said, Resolved) else None)

    def _take_facts(self, member_id: str, facts: MemberFacts | None) -> None:
        before = self.facts.get(member_id)
        instance_id = None if before is None else before.instance_id
        if instance_id is not None and self.static_members.get(instance_id) == member_id:
            del self.static_members[instance_id]
        if facts is not None and facts.instance_id is not None:
            self.static_members[facts.instance_id] = member_id
        _put(self.facts, member_id, facts)

    def _take_current(self, member_id: str, current: Current | None) -> None:
        before = self.currents.get(member_id)
        move(self.owners, member_id, before, current)
        drop_unowned(self.owners, before)
        _put(self.currents, member_id, current)


def _what_is_said(kind: Kind, value: bytes | UnreadRecord | None) -> Said | None:
    if isinstance(value, SaidBytes):
        return value.said
    raw = value.value if isinstance(value, UnreadRecord) else value
    if raw is None:
        return None
    try:
        return decode_said(kind, raw)
    except MalformedGroupRecord:
        return None


def _put(table: dict[str, Any], key: str, value: object) -> None:
    if value is None:
        table.pop(key, None)
    else:
        table[key] = value


def _memory(key: bytes, value: bytes | UnreadRecord | None) -> int:
    if value is None:
        return 0
    size = len(value.value or b"") if isinstance(value, UnreadRecord) else len(value)
    return RECORD_OVERHEAD_BYTES + len(key) + size
