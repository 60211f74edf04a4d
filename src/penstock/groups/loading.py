"""Rebuilding groups from a partition of the internal topic, record by record.

The log is read from its start to its end; the last record of each key counts. A record that cannot
be decoded does not keep the other groups of the partition from being served, and is not lost: a
newer version wrote it, and may come back. It is kept whole, counted and logged, and a rewrite of
the partition copies it as it is:

    what cannot be read             where it is kept                  until
    value of a known key            with the position or group        the next record of the key
    the same of a consumer or       with the group, even if there     the same
    share group                     is no room for others
    a value with unknown fields     the same; known fields are used   the same
    key of an unknown kind          in `UnreadRecords`                the same; a tombstone
    record without a key            in `UnreadRecords`                nothing
    the same in a transaction       in the log only: no rewrite       nothing

A position of a transaction waits for its marker (pending.py). If none comes to the end of the log,
the group has it, and waits.

If they exceed `unread_bytes_max`, they too stay in the log only, and it is not rewritten.

Source: Kafka, GroupMetadataManager.doLoadGroupsAndOffsets (it refuses to load such a partition).
"""

import logging
from collections.abc import Generator, Mapping
from itertools import islice

from penstock.base.ports import Clock
from penstock.coordinator.errors import MalformedRecord
from penstock.coordinator.pending import Pending, Writer
from penstock.coordinator.portions import POSITIONS, Steps
from penstock.coordinator.records import UnreadRecord
from penstock.coordinator.unread import IN_LOG_ONLY, UnreadRecords
from penstock.groups.assigned.names import (
    SHARE_KINDS,
    Kind,
    RecordName,
    decode_name,
    is_of_share_group,
)
from penstock.groups.assigned.tables import SaidBytes
from penstock.groups.classic.group import Group
from penstock.groups.classic.snapshot import restore_group
from penstock.groups.consumer.group import ConsumerGroup
from penstock.groups.consumer.records import decode_said
from penstock.groups.consumer.tables import said_bytes
from penstock.groups.counters import GroupCounters
from penstock.groups.group import BaseGroup
from penstock.groups.pinned import PinnedBytes
from penstock.groups.records import (
    NO_OFFSET,
    CommittedOffset,
    GroupKey,
    OffsetKey,
    TopicKey,
    decode_key,
    decode_offset_value,
    encode_group_key,
    encode_offset_value,
    read_group_value,
)
from penstock.groups.share.group import ShareGroup
from penstock.groups.share.records import decode_said as decode_share
from penstock.groups.share.tables import said_bytes as share_bytes
from penstock.groups.table import Groups

NOTES_MAX = 16
"""Log lines about single records per load of a partition; further records are only counted."""

GROUPS_TOGETHER = 4
"""Groups built per unit of cost (portions.py)."""
POSITIONS_TOGETHER = 500
RECORDS_TOGETHER = 2
"""Records of consumer and share groups decoded per unit of cost."""

_log = logging.getLogger("penstock.groups")


class GroupLoader:
    """Collects the latest record of each key of one partition."""

    __slots__ = (
        "_assigned",
        "_clock",
        "_counters",
        "_groups",
        "_metadata",
        "_meter",
        "_notes",
        "_offsets",
        "_order",
        "_pending",
        "partition",
        "unread",
    )

    def __init__(
        self,
        partition: int,
        unread: UnreadRecords,
        counters: GroupCounters,
        meter: PinnedBytes,
        clock: Clock,
    ) -> None:
        self.partition = partition
        self.unread = unread
        self._counters = counters
        self._meter = meter
        self._clock = clock
        self._groups = Groups()
        self._notes = 0
        self._offsets: dict[str, dict[TopicKey, CommittedOffset]] = {}
        self._pending: Pending[OffsetKey, CommittedOffset] = Pending()
        self._order = 0
        """Counts what was read of positions."""
        self._metadata: dict[str, UnreadRecord] = {}
        """Group id -> its newest record. Decoded only in `make`, when all records are loaded."""
        self._assigned: dict[str, dict[bytes, UnreadRecord]] = {}
        """The records of consumer and share groups: by group id, then by key. A group has one kind
        of them, or `_metadata`."""

    def load(self, record: UnreadRecord) -> None:
        """Take the next record in log order; a value of None is a tombstone."""
        name = self._name(record)
        if isinstance(name, OffsetKey):
            self._order += 1
            self._pending.drop(name, self._order)
            self._load_offset(name, record)
        elif isinstance(name, GroupKey):
            self._load_metadata(name, record)
        elif isinstance(name, RecordName):
            self._load_assigned(name, record)
        else:
            self.unread.put(record)

    def load_copy(self, record: UnreadRecord) -> None:
        """As in Loader: only positions are copied like this."""
        name = self._name(record)
        if isinstance(name, OffsetKey):
            self._load_offset(name, record)
        else:
            self.unread.put(record)

    def load_pending(self, writer: Writer, record: UnreadRecord) -> None:
        """As in Loader. Transactions write positions; other records of them stay in the log."""
        name = self._name(record)
        if not isinstance(name, OffsetKey) or record.value is None:
            self.leave_in_log(f"no position, in a transaction of producer {writer.producer_id}")
            return
        try:
            offset = decode_offset_value(record.value)
        except MalformedRecord as error:
            self.leave_in_log(f"in a transaction of producer {writer.producer_id}: {error.reason}")
            return
        if record.headers or encode_offset_value(offset) != record.value:
            self.leave_in_log("a position of a transaction says more than this version knows")
        self._order += 1
        self._pending.put(writer.producer_id, name, self._order, offset)

    def load_end(self, writer: Writer, *, is_commit: bool) -> None:
        """As in Loader."""
        for name, order, offset in self._pending.take(writer.producer_id):
            if is_commit:
                self._put_offset(name, offset)
                self._pending.drop(name, order)

    def leave_in_log(self, reason: str) -> None:
        """As in Loader."""
        self._counters.records_unread += 1
        self.unread.leave_in_log(reason)

    def make(self) -> Generator[int, None, Groups]:
        """Build the groups: first those with metadata, then those with positions only.

        Their memory is counted as they are built; they are complete after the last step.
        """
        groups, wall_ms = self._groups, self._clock.wall_ms()
        for number, (group_id, record) in enumerate(self._metadata.items()):
            group = groups[group_id] = yield from self._group(group_id, record, wall_ms)
            group.count_in(self._meter)
            if number % GROUPS_TOGETHER == 0:
                yield 1
        for group_id, records in self._assigned.items():
            groups[group_id] = yield from self._assigned_group(group_id, records, wall_ms)
        for number, (group_id, offsets) in enumerate(self._offsets.items()):
            yield from _restore_offsets(self._made(group_id, wall_ms), offsets)
            if number % GROUPS_TOGETHER == 0:
                yield 1
        yield from self._restore_pending(wall_ms)
        if self.unread.is_in_log_only:
            yield from _keep_no_records(groups)
        return groups

    def _made(self, group_id: str, wall_ms: int) -> BaseGroup:
        """Return a group that was made, or a new one that has positions only."""
        known = self._groups.get(group_id)
        if known is None:
            known = self._groups[group_id] = self._new_group(group_id, wall_ms)
            known.count_in(self._meter)
        return known

    def _restore_pending(self, wall_ms: int) -> Steps:
        """Give groups the positions of transactions that are open, in the order of the log."""
        for number, (name, producer_id, _, offset) in enumerate(sorted(self._pending, key=_order)):
            group = self._made(name.group_id, wall_ms)
            key = TopicKey(name.topic, name.partition)
            group.offsets.restore({key: offset}, producer_id)
            self._groups.writers.setdefault(producer_id, {})[name.group_id] = None
            if number % POSITIONS == 0:
                yield 1

    def discard(self) -> Steps:
        """As in Loader: these groups were never visible."""
        while self._groups:
            self._groups.popitem()[1].count_in(None)
            if len(self._groups) % GROUPS_TOGETHER == 0:
                yield 1

    def _name(self, record: UnreadRecord) -> OffsetKey | GroupKey | RecordName | None:
        """Return the decoded key of a record; None, with a log line, if it is unknown."""
        if record.key is None:
            self._note_unread("a record without a key")
            return None
        try:
            name = decode_key(record.key) or decode_name(record.key)
        except MalformedRecord as error:
            self._note_unread(error.reason)
            return None
        if name is None:
            self._note_unread("key of an unknown kind")
        return name

    def _load_offset(self, name: OffsetKey, record: UnreadRecord) -> None:
        before = self._offsets.get(name.group_id, {}).get(TopicKey(name.topic, name.partition))
        if record.value is None:
            self._put_offset(name, None)
        else:
            self._put_offset(name, self._offset(record, record.value, before))

    def _put_offset(self, name: OffsetKey, offset: CommittedOffset | None) -> None:
        """Note the newest position of a key; the positions of a group are in their order."""
        key = TopicKey(name.topic, name.partition)
        offsets = self._offsets.setdefault(name.group_id, {})
        before = offsets.pop(key, None)
        if before is not None and before.unread is not None:
            self.unread.drop(before.unread)
        if offset is not None:
            offsets[key] = offset
        elif not offsets:
            del self._offsets[name.group_id]

    def _offset(
        self, record: UnreadRecord, value: bytes, before: CommittedOffset | None
    ) -> CommittedOffset:
        """Return the position, together with the record if that has unknown fields.

        If the record cannot be read, the position before it is used: consumers then read some
        records twice, and miss none.
        """
        try:
            offset = decode_offset_value(value)
        except MalformedRecord as error:
            self._note_unread(error.reason)
            offset = (before or CommittedOffset(NO_OFFSET))._replace(unread=None)
        else:
            if not record.headers and encode_offset_value(offset) == value:
                return offset
        return offset._replace(unread=self.unread.keep(record))

    def _load_metadata(self, name: GroupKey, record: UnreadRecord) -> None:
        self._metadata.pop(name.group_id, None)
        if record.value is not None:
            self._metadata[name.group_id] = record
            self._assigned.pop(name.group_id, None)

    def _load_assigned(self, name: RecordName, record: UnreadRecord) -> None:
        """Note the newest record of a key; a group that changed its kind is of the newer one."""
        assert record.key is not None, "it was decoded"
        records = self._assigned.setdefault(name.group_id, {})
        records.pop(record.key, None)
        if record.value is not None:
            is_share = is_of_share_group(record.key)
            if records and is_of_share_group(next(iter(records))) is not is_share:
                records.clear()
            records[record.key] = record
            self._metadata.pop(name.group_id, None)
        elif not records:
            del self._assigned[name.group_id]

    def _assigned_group(
        self, group_id: str, records: Mapping[bytes, UnreadRecord], wall_ms: int
    ) -> Generator[int, None, BaseGroup]:
        """Return the group that these records make; what cannot be read of them is kept."""
        # Since when it has been empty is not in the log: positions are kept longer, not shorter.
        kind = ShareGroup if is_of_share_group(next(iter(records))) else ConsumerGroup
        group = kind(group_id, self.partition, wall_ms=wall_ms)
        group.count_in(self._meter)
        for number, (key, record) in enumerate(records.items()):
            group.metadata.restore({key: self._assigned_value(key, record)})
            if number % RECORDS_TOGETHER == 0:
                yield 1
        return group

    def _assigned_value(self, key: bytes, record: UnreadRecord) -> bytes | UnreadRecord:
        """Return the value, or the whole record if it says more than this version knows."""
        name = decode_name(key)
        assert name is not None, "it was decoded"
        assert record.value is not None, "a tombstone is no record"
        try:
            said = _said(name.kind, record.value)
        except MalformedRecord as error:
            self._note_unread(error.reason)
        else:
            if said == record.value and not record.headers:
                return said
        self.unread.keep(record)
        return record

    def _new_group(self, group_id: str, wall_ms: int) -> Group:
        group = Group(group_id, self.partition, wall_ms=wall_ms)
        # For a group without readable metadata the times of its offsets decide about expiry.
        group.state_since_ms = 0
        return group

    def _group(
        self, group_id: str, record: UnreadRecord, wall_ms: int
    ) -> Generator[int, None, Group]:
        """Return the group in a record; an empty one, with the record, if it cannot be read."""
        assert record.value is not None, "a tombstone is no group"
        group = self._new_group(group_id, wall_ms)
        try:
            yield from restore_group(group, *read_group_value(record.value))
        except MalformedRecord as error:
            self._note_unread(error.reason)
            group = self._new_group(group_id, wall_ms)
            is_kept = True
        else:
            is_kept = bool(record.headers)
        kept = self.unread.keep(record) if is_kept else record.value
        group.metadata.restore({encode_group_key(group_id): kept})
        return group

    def _note_unread(self, reason: str) -> None:
        self._counters.records_unread += 1
        self._notes += 1
        if self._notes <= NOTES_MAX:
            _log.warning("internal partition=%d record not understood: %s", self.partition, reason)


def _restore_offsets(group: BaseGroup, offsets: Mapping[TopicKey, CommittedOffset]) -> Steps:
    left = iter(offsets.items())
    while some := dict(islice(left, POSITIONS_TOGETHER)):
        group.offsets.restore(some)
        yield len(some) // POSITIONS


def _said(kind: Kind, value: bytes) -> SaidBytes:
    """Return the value as this version writes it. Raises MalformedRecord."""
    if kind in SHARE_KINDS:
        return share_bytes(decode_share(kind, value))
    return said_bytes(decode_said(kind, value))


def _order(one: tuple[OffsetKey, int, int, CommittedOffset]) -> int:
    return one[2]


def _keep_no_records(groups: Mapping[str, BaseGroup]) -> Steps:
    """Replace unreadable records by IN_LOG_ONLY: they stay in the log only."""
    for number, group in enumerate(groups.values()):
        if isinstance(group, Group) and group.has_unread_metadata:
            group.metadata.restore({encode_group_key(group.group_id): IN_LOG_ONLY})
        left = iter([*group.offsets.values.items()])
        while some := [*islice(left, POSITIONS_TOGETHER)]:
            group.offsets.restore({key: _without_record(offset) for key, offset in some})
            yield len(some) // POSITIONS
        if number % GROUPS_TOGETHER == 0:
            yield 1


def _without_record(offset: CommittedOffset) -> CommittedOffset:
    return offset if offset.unread is None else offset._replace(unread=IN_LOG_ONLY)
