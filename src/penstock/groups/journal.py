"""Changes of groups as records of the internal topic.

`GroupWriter` encodes them and hands them to the coordinator's `Writes`, which track them until they
are confirmed; then they become visible in the maps of their group.

Source: Kafka, GroupMetadataManager.storeGroup and storeOffsets.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from penstock.base.ids import ProducerId
from penstock.coordinator.pending import Writer
from penstock.coordinator.portions import Steps
from penstock.coordinator.records import JournalRecord, UnreadRecord, as_copy
from penstock.coordinator.unwritten import Unwritten
from penstock.coordinator.writes import Change, Writes
from penstock.groups.counters import GroupCounters
from penstock.groups.group import BaseGroup
from penstock.groups.records import (
    NO_OFFSET,
    CommittedOffset,
    TopicKey,
    encode_group_key,
    encode_offset_key,
    encode_offset_value,
    says_position,
)
from penstock.protocol.error_codes import ErrorCode

MEMBERS_WRITTEN = 4
"""Members written to a record per unit of cost (portions.py)."""

WriteDone = Callable[[ErrorCode | None], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupChanges:
    """The changes of one write; None removes an entry."""

    offsets: Mapping[TopicKey, CommittedOffset | None] = field(default_factory=dict)
    metadata: Mapping[bytes, bytes | UnreadRecord | None] = field(default_factory=dict)
    """The group's own records by key."""
    encoded: Mapping[TopicKey, JournalRecord] = field(default_factory=dict)
    """Records of offsets that were encoded ahead (`encode_position`); perhaps of others, too."""

    def records(self, group_id: str) -> list[JournalRecord]:
        """Return the changes as records of the internal topic, with values of the type `bytes`."""
        records: list[JournalRecord] = []
        encoded = self.encoded
        for key, offset in self.offsets.items():
            if key in encoded:
                records.append(encoded[key])
            else:
                records += _offset_records(group_id, key, offset)
        records += [
            value if isinstance(value, UnreadRecord) else (key, value and bytes(value))
            for key, value in self.metadata.items()
        ]
        return records


class _Write:
    """A Change of one group (penstock.coordinator.writes)."""

    __slots__ = ("_changes", "_group", "_metadata", "_offsets", "records")

    def __init__(self, group: BaseGroup, changes: GroupChanges) -> None:
        self.records = changes.records(group.group_id)
        self._group = group
        self._changes = changes

    def begin(self) -> None:
        self._offsets = self._group.offsets.begin(self._changes.offsets)
        self._metadata = self._group.metadata.begin(self._changes.metadata)

    def confirm(self) -> None:
        self._group.offsets.confirm(self._offsets)
        self._group.metadata.confirm(self._metadata)

    def refuse(self) -> None:
        self._group.offsets.refuse(self._offsets)
        self._group.metadata.refuse(self._metadata)


class _PendingWrite:
    """A Change of one group's positions in a transaction: they wait for its end."""

    __slots__ = ("_changes", "_group", "_producer_id", "_ticket", "records")

    def __init__(self, group: BaseGroup, changes: GroupChanges, writer: Writer) -> None:
        assert not changes.metadata, "transactions write positions only"
        self.records = changes.records(group.group_id)
        self._group = group
        self._changes = changes
        self._producer_id = writer.producer_id

    def begin(self) -> None:
        offsets = self._group.offsets
        self._ticket = offsets.begin_pending(self._producer_id, self._changes.offsets)

    def confirm(self) -> None:
        self._group.offsets.confirm(self._ticket)

    def refuse(self) -> None:
        self._group.offsets.refuse(self._ticket)


class _Ending:
    """A Change that a marker makes: the end of a transaction in several groups."""

    __slots__ = ("_groups", "_is_commit", "_on_ended", "_producer_id", "_tickets", "records")

    def __init__(
        self,
        groups: Iterable[BaseGroup],
        producer_id: ProducerId,
        on_ended: Callable[[BaseGroup], None],
        *,
        is_commit: bool,
    ) -> None:
        self.records: list[JournalRecord] = []
        self._groups = [*groups]
        self._producer_id = producer_id
        self._on_ended = on_ended
        self._is_commit = is_commit

    def begin(self) -> None:
        self._tickets = [
            group.offsets.begin_ending(self._producer_id, is_commit=self._is_commit)
            for group in self._groups
        ]

    def confirm(self) -> None:
        for group, ticket in zip(self._groups, self._tickets, strict=True):
            group.offsets.confirm(ticket)
            self._on_ended(group)

    def refuse(self) -> None:
        for group, ticket in zip(self._groups, self._tickets, strict=True):
            group.offsets.refuse(ticket)


class GroupWriter:
    """Writes changes of groups; they become visible in the group's maps once durable."""

    __slots__ = (
        "_counters",
        "_on_vacant",
        "_record_bytes_max",
        "_writes",
        "on_transaction_ended",
    )

    def __init__(
        self,
        writes: Writes,
        counters: GroupCounters,
        *,
        record_bytes_max: int,
        on_vacant: Callable[[str], None],
    ) -> None:
        """`on_vacant` gets the id of a group that is vacant when a write of it has ended."""
        self._on_vacant = on_vacant
        self.on_transaction_ended: Callable[[BaseGroup], None] = _ignore
        """Gets each group in which a transaction has ended."""
        self._writes = writes
        self._counters = counters
        self._record_bytes_max = record_bytes_max

    @property
    def in_flight_count(self) -> int:
        return self._writes.in_flight

    def write_group(self, group: BaseGroup, parts: Iterable[bytes], done: WriteDone) -> None:
        """Append a group's metadata, given in parts."""
        for _ in self.group_steps(group, parts, done, is_over=lambda: False):
            pass

    def group_steps(
        self,
        group: BaseGroup,
        parts: Iterable[bytes],
        done: WriteDone,
        *,
        is_over: Callable[[], bool],
    ) -> Steps:
        """Do the same in portions. Once `is_over()`, nothing is written and `done` is not called.

        A record that is too large is refused before the rest of it is built.
        """
        value = bytearray()
        for number, part in enumerate(parts):
            if is_over():
                return
            value += part
            if len(value) > self._record_bytes_max:
                done(ErrorCode.MESSAGE_TOO_LARGE)
                return
            if number % MEMBERS_WRITTEN == 0:
                yield 1
        if not is_over():
            key = encode_group_key(group.group_id)
            self.write(group, GroupChanges(metadata={key: bytes(value)}), done)

    def ending(self, groups: Iterable[BaseGroup], writer: Writer, *, is_commit: bool) -> Change:
        """Return the change that a marker makes in these groups."""
        return _Ending(groups, writer.producer_id, self._ended, is_commit=is_commit)

    def _ended(self, group: BaseGroup) -> None:
        self.on_transaction_ended(group)
        if group.is_vacant:
            self._on_vacant(group.group_id)

    def write(
        self,
        group: BaseGroup,
        changes: GroupChanges,
        done: WriteDone,
        writer: Writer | None = None,
    ) -> None:
        """Append the changes; `done` gets None or an error code for the client.

        With a writer they are positions of its transaction.
        """
        write = _Write(group, changes) if writer is None else _PendingWrite(group, changes, writer)
        if not write.records:
            done(None)
            return
        self.append(group, write, done, writer)

    def append(
        self, group: BaseGroup, change: Change, done: WriteDone, writer: Writer | None = None
    ) -> None:
        """Append a change with records, of this group or of two of its id; `done` as in `write`."""

        def ended(error: ErrorCode | None) -> None:
            done(error)
            if group.is_vacant:
                self._on_vacant(group.group_id)

        if self._writes.is_full:
            ended(ErrorCode.COORDINATOR_NOT_AVAILABLE)
            return

        def told(reason: Unwritten | None) -> None:
            self._counters.journal_errors += reason is not None
            ended(None if reason is None else told_of(reason))

        self._writes.append(group.partition, change, told, writer)


def _ignore(_: BaseGroup) -> None:
    """What an owner has not set."""


def encode_position(group_id: str, key: TopicKey, offset: CommittedOffset) -> JournalRecord:
    """Return the record of a position that a client commits."""
    return encode_offset_key(group_id, key), encode_offset_value(offset)


def _offset_records(
    group_id: str, key: TopicKey, offset: CommittedOffset | None
) -> list[JournalRecord]:
    """Return the record of a position; for an unreadable one, also the last readable one."""
    name = encode_offset_key(group_id, key)
    if offset is None:
        return [(name, None)]
    if offset.unread is None:
        return [(name, encode_offset_value(offset))]
    if offset.offset == NO_OFFSET or says_position(offset.unread.value):
        return [offset.unread]
    return [(name, encode_offset_value(offset)), offset.unread]


def live_records(group: BaseGroup, keys: Iterable[TopicKey]) -> list[JournalRecord]:
    """Return the records of some positions for a rewrite, as the journal has them now.

    What an open transaction has written is not among them: it stays in the log.
    """
    offsets = group.offsets.latest_of(keys)
    waiting = group.offsets.latest_pending_of(offsets)
    plain = {key: offset for key, offset in offsets.items() if key not in waiting}
    records = GroupChanges(offsets=plain).records(group.group_id)
    overwritten = {key: offsets[key] for key in waiting}
    copies = GroupChanges(offsets=overwritten).records(group.group_id)
    return [*records, *map(as_copy, copies)]


def live_metadata(group: BaseGroup, keys: Iterable[bytes]) -> list[JournalRecord]:
    """Return some records of the group itself for a rewrite, as the journal has them now."""
    return GroupChanges(metadata=group.metadata.latest_of(keys)).records(group.group_id)


def told_of(reason: Unwritten) -> ErrorCode:
    """Return the error code for the client: to find the coordinator again, or to retry.

    Source: Kafka, the error mapping of GroupMetadataManager.storeGroup and storeOffsets.
    """
    return _TOLD.get(reason, ErrorCode.COORDINATOR_NOT_AVAILABLE)


_TOLD = {
    Unwritten.OVERTAKEN: ErrorCode.NOT_COORDINATOR,
    Unwritten.TOO_LARGE: ErrorCode.MESSAGE_TOO_LARGE,
    Unwritten.FENCED: ErrorCode.INVALID_PRODUCER_EPOCH,
    Unwritten.NOT_IN_TRANSACTION: ErrorCode.INVALID_TXN_STATE,
}
