"""Rebuilding groups from a partition of the internal topic, record by record.

The log is read from its start to its end; the last record of each key counts. What can not be
understood is no reason to keep every other group of the partition away from its clients, and no
reason to lose it: a newer version wrote it, and may come back. So it is kept whole, counted and
logged, and a rewrite of the partition writes it again as it was:

    what can not be read            where it is kept                  what ends it
    value of a known key            with the position or group        the next record of the key
    a known value that says more    the same; what is known is used   the same
    key of an unknown kind          in `UnreadRecords`                the same; a tombstone
    record without a key            in `UnreadRecords`                nothing
    batch of a transaction          in the log alone: no rewrite      nothing

More of them than `unread_bytes_max` stay in the log alone as well, and hold it as it is.

Source: Kafka, GroupMetadataManager.doLoadGroupsAndOffsets (it refuses to load such a partition).
"""

import logging
from collections.abc import Generator, Mapping
from itertools import islice

from penstock.base.ports import Clock
from penstock.coordinator.portions import POSITIONS, Steps
from penstock.coordinator.records import UnreadRecord
from penstock.coordinator.unread import IN_LOG_ONLY, UnreadRecords
from penstock.groups.classic.group import METADATA, Group
from penstock.groups.classic.snapshot import restore_group
from penstock.groups.counters import GroupCounters
from penstock.groups.errors import MalformedGroupRecord
from penstock.groups.pinned import PinnedBytes
from penstock.groups.records import (
    NO_OFFSET,
    CommittedOffset,
    GroupKey,
    OffsetKey,
    TopicKey,
    decode_key,
    decode_offset_value,
    encode_offset_value,
    read_group_value,
)

NOTES_MAX = 16
"""Log lines of one loading about single records; the rest is counted."""

GROUPS_TOGETHER = 4
"""Groups that are made for one unit of a portion."""
POSITIONS_TOGETHER = 500

_log = logging.getLogger("penstock.groups")


class GroupLoader:
    """Collects the latest record of each key of one partition."""

    __slots__ = (
        "_clock",
        "_counters",
        "_groups",
        "_metadata",
        "_meter",
        "_notes",
        "_offsets",
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
        self._groups: dict[str, Group] = {}
        self._notes = 0
        self._offsets: dict[str, dict[TopicKey, CommittedOffset]] = {}
        self._metadata: dict[str, UnreadRecord] = {}
        """Only the newest record of each group is looked into, when all are here."""

    def load(self, record: UnreadRecord) -> None:
        """Take the next record in log order; a value of None is a tombstone."""
        name = self._name(record)
        if isinstance(name, OffsetKey):
            self._load_offset(name, record)
        elif isinstance(name, GroupKey):
            self._load_metadata(name, record)
        else:
            self.unread.put(record)

    def leave_in_log(self, reason: str) -> None:
        """As in Loader."""
        self._counters.records_unread += 1
        self.unread.leave_in_log(reason)

    def make(self) -> Generator[int, None, dict[str, Group]]:
        """Make the groups: first those with metadata, then those with positions alone.

        They count in memory from when they are made; they are whole when all steps are done.
        """
        groups, wall_ms = self._groups, self._clock.wall_ms()
        for number, (group_id, record) in enumerate(self._metadata.items()):
            group = groups[group_id] = yield from self._group(group_id, record, wall_ms)
            group.count_in(self._meter)
            if number % GROUPS_TOGETHER == 0:
                yield 1
        for number, (group_id, offsets) in enumerate(self._offsets.items()):
            known = groups.get(group_id)
            if known is None:
                known = groups[group_id] = self._new_group(group_id, wall_ms)
                known.count_in(self._meter)
            yield from _restore_offsets(known, offsets)
            if number % GROUPS_TOGETHER == 0:
                yield 1
        if self.unread.is_in_log_only:
            yield from _keep_no_records(groups)
        return groups

    def discard(self) -> Steps:
        """As in Loader: nobody has seen these groups."""
        while self._groups:
            self._groups.popitem()[1].count_in(None)
            if len(self._groups) % GROUPS_TOGETHER == 0:
                yield 1

    def _name(self, record: UnreadRecord) -> OffsetKey | GroupKey | None:
        """Return what the record is of, or None after saying why that is unknown."""
        if record.key is None:
            self._note_unread("a record without a key")
            return None
        try:
            name = decode_key(record.key)
        except MalformedGroupRecord as error:
            self._note_unread(error.reason)
            return None
        if name is None:
            self._note_unread("key of an unknown kind")
        return name

    def _load_offset(self, name: OffsetKey, record: UnreadRecord) -> None:
        key = TopicKey(name.topic, name.partition)
        offsets = self._offsets.setdefault(name.group_id, {})
        before = offsets.pop(key, None)
        if before is not None and before.unread is not None:
            self.unread.drop(before.unread)
        if record.value is not None:
            offsets[key] = self._offset(record, record.value, before)
        elif not offsets:
            del self._offsets[name.group_id]

    def _offset(
        self, record: UnreadRecord, value: bytes, before: CommittedOffset | None
    ) -> CommittedOffset:
        """Return the position, with the record where it says more than a position.

        Where it can not be read, the position before it is the best there is: its readers read
        some records twice, and miss none.
        """
        try:
            offset = decode_offset_value(value)
        except MalformedGroupRecord as error:
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

    def _new_group(self, group_id: str, wall_ms: int) -> Group:
        group = Group(group_id, self.partition, wall_ms=wall_ms)
        # Of a group without readable metadata its offsets' own times decide about expiry.
        group.state_since_ms = 0
        return group

    def _group(
        self, group_id: str, record: UnreadRecord, wall_ms: int
    ) -> Generator[int, None, Group]:
        """Return the group of a record; of one that can not be read nothing is taken."""
        assert record.value is not None, "a tombstone is no group"
        group = self._new_group(group_id, wall_ms)
        try:
            yield from restore_group(group, *read_group_value(record.value))
        except MalformedGroupRecord as error:
            self._note_unread(error.reason)
            group = self._new_group(group_id, wall_ms)
            is_kept = True
        else:
            is_kept = bool(record.headers)
        kept = self.unread.keep(record) if is_kept else record.value
        group.metadata.restore({METADATA: kept})
        return group

    def _note_unread(self, reason: str) -> None:
        self._counters.records_unread += 1
        self._notes += 1
        if self._notes <= NOTES_MAX:
            _log.warning("internal partition=%d record not understood: %s", self.partition, reason)


def _restore_offsets(group: Group, offsets: Mapping[TopicKey, CommittedOffset]) -> Steps:
    left = iter(offsets.items())
    while some := dict(islice(left, POSITIONS_TOGETHER)):
        group.offsets.restore(some)
        yield len(some) // POSITIONS


def _keep_no_records(groups: Mapping[str, Group]) -> Steps:
    """Leave what could not be read in the log alone; that it is there is remembered."""
    for number, group in enumerate(groups.values()):
        if group.has_unread_metadata:
            group.metadata.restore({METADATA: IN_LOG_ONLY})
        left = iter([*group.offsets.values.items()])
        while some := [*islice(left, POSITIONS_TOGETHER)]:
            group.offsets.restore({key: _without_record(offset) for key, offset in some})
            yield len(some) // POSITIONS
        if number % GROUPS_TOGETHER == 0:
            yield 1


def _without_record(offset: CommittedOffset) -> CommittedOffset:
    return offset if offset.unread is None else offset._replace(unread=IN_LOG_ONLY)
