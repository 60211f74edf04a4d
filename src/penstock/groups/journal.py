"""The way from the coordinator to its durable log.

The port is one method: append some records of one group, and hear later whether they are durable
and replicated. `GroupWriter` stands between: it encodes, keeps the changes that are under way in
the group's maps, bounds how many there are, and counts bytes for the rewrites.

An error from the journal means: refused, or of unknown fate. After one of unknown fate (the log
was fenced, another broker became master) the owner unloads the partition and loads it again; until
then the live state holds only what was confirmed. A write that takes too long is answered and
stays under way: when it is confirmed in the end it counts, since a replay of the log would find it
(redpanda#31483: live state and replay must agree). One sync of a slow disk may confirm thousands of
writes: they end in portions, in the order of their confirmation.

Source: Kafka, GroupMetadataManager.storeGroup and storeOffsets.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from penstock.groups.classic.group import METADATA, Group
from penstock.groups.counters import GroupCounters
from penstock.groups.housekeeping import JournalRecord, RewriteTracker, records_bytes
from penstock.groups.portions import POSITIONS, TO_TELL, Portions, Steps
from penstock.groups.records import (
    NO_OFFSET,
    CommittedOffset,
    TopicKey,
    UnreadRecord,
    encode_group_key,
    encode_offset_key,
    encode_offset_value,
    says_position,
)
from penstock.groups.unwritten import Unwritten, told_of
from penstock.protocol.error_codes import ErrorCode

MEMBERS_WRITTEN = 4
"""Members that a record tells of for one unit of a portion."""

JournalDone = Callable[[Unwritten | None], None]
WriteDone = Callable[[ErrorCode | None], None]


class GroupJournal(Protocol):
    """The internal topic as the coordinator sees it."""

    def append(self, group_id: str, records: Sequence[JournalRecord], done: JournalDone) -> None:
        """Append the records, together and in order, to the partition of the group.

        Calls of one partition keep their order in the log. `done(None)` runs once they are durable
        and replicated, `done(reason)` when they are refused or lost; exactly one of them runs,
        possibly before `append` returns; `done(LATE)` may run once before it. A value
        of None is a tombstone.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupChanges:
    """What one write changes; None removes."""

    offsets: Mapping[TopicKey, CommittedOffset | None] = field(default_factory=dict)
    metadata: Mapping[str, bytes | UnreadRecord | None] = field(default_factory=dict)

    def records(self, group_id: str) -> list[JournalRecord]:
        """Return them as records of the internal topic."""
        records: list[JournalRecord] = []
        for key, offset in self.offsets.items():
            records += _offset_records(group_id, key, offset)
        records += [
            value if isinstance(value, UnreadRecord) else (encode_group_key(group_id), value)
            for value in self.metadata.values()
        ]
        return records


class GroupWriter:
    """Writes changes of groups; they show in the group's maps once they are durable."""

    __slots__ = (
        "_counters",
        "_in_flight",
        "_in_flight_max",
        "_journal",
        "_portions",
        "_record_bytes_max",
        "_rewrites",
    )

    def __init__(
        self,
        journal: GroupJournal,
        rewrites: RewriteTracker,
        counters: GroupCounters,
        portions: Portions,
        *,
        in_flight_max: int,
        record_bytes_max: int,
    ) -> None:
        self._journal = journal
        self._rewrites = rewrites
        self._counters = counters
        self._portions = portions
        self._in_flight = 0
        self._in_flight_max = in_flight_max
        self._record_bytes_max = record_bytes_max

    @property
    def in_flight_count(self) -> int:
        return self._in_flight

    def write_group(self, group: Group, parts: Iterable[bytes], done: WriteDone) -> None:
        """Append a group's metadata, which comes in parts."""
        for _ in self.group_steps(group, parts, done, is_over=lambda: False):
            pass

    def group_steps(
        self,
        group: Group,
        parts: Iterable[bytes],
        done: WriteDone,
        *,
        is_over: Callable[[], bool],
    ) -> Steps:
        """Do the same in portions; once it `is_over` nothing is written, and nobody is told.

        What is too large is refused before the rest of it is built.
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
            self.write(group, GroupChanges(metadata=metadata_change(bytes(value))), done)

    def write(self, group: Group, changes: GroupChanges, done: WriteDone) -> None:
        """Append the changes; `done` gets None or an error that a group's client understands."""
        records = changes.records(group.group_id)
        if not records:
            done(None)
            return
        if self._in_flight >= self._in_flight_max:
            done(ErrorCode.COORDINATOR_NOT_AVAILABLE)
            return
        self._in_flight += 1
        self._rewrites.appended(group.partition, records_bytes(records))
        offsets = group.offsets.begin(changes.offsets)
        metadata = group.metadata.begin(changes.metadata)

        is_answered = False

        def confirmed(reason: Unwritten | None) -> None:
            self._portions.begin(end(reason))

        def end(reason: Unwritten | None) -> Steps:
            nonlocal is_answered
            if reason is not Unwritten.LATE:
                self._in_flight -= 1
                settle(is_confirmed=reason is None)
            if not is_answered:
                is_answered = True
                self._counters.journal_errors += reason is not None
                done(None if reason is None else told_of(reason))
            yield TO_TELL + len(records) // POSITIONS

        def settle(*, is_confirmed: bool) -> None:
            if is_confirmed:
                group.offsets.confirm(offsets)
                group.metadata.confirm(metadata)
            else:
                group.offsets.refuse(offsets)
                group.metadata.refuse(metadata)

        self._journal.append(group.group_id, records, confirmed)


def _offset_records(
    group_id: str, key: TopicKey, offset: CommittedOffset | None
) -> list[JournalRecord]:
    """Return the record of a position; of one that can not be read, the one before it as well."""
    name = encode_offset_key(group_id, key)
    if offset is None:
        return [(name, None)]
    if offset.unread is None:
        return [(name, encode_offset_value(offset))]
    if offset.offset == NO_OFFSET or says_position(offset.unread.value):
        return [offset.unread]
    return [(name, encode_offset_value(offset)), offset.unread]


def live_records(group: Group, keys: Iterable[TopicKey]) -> list[JournalRecord]:
    """Return what a rewrite must write for some positions, as the journal has them now."""
    return GroupChanges(offsets=group.offsets.latest_of(keys)).records(group.group_id)


def live_metadata(group: Group) -> list[JournalRecord]:
    """Return what a rewrite must write for the group itself, as the journal has it now."""
    return GroupChanges(metadata=group.metadata.latest()).records(group.group_id)


def metadata_change(value: bytes | None) -> Mapping[str, bytes | None]:
    """Return the change that sets or removes a group's metadata record."""
    return {METADATA: value}
