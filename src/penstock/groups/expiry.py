"""How groups are deleted: by DeleteGroups, or after the retention time without activity.

Offsets never expire while a group has members, and never one by one: a group is deleted as a whole
when it has been empty, without commits, for the retention time. So a consumer that was down over a
long weekend still finds its position. One without positions has nothing to be found: it is deleted
after seconds, since clients that use each group id once would leave thousands of them.

While the tombstones are under way the group is Dead: requests for it are told to retry, and a new
group of that name begins after the old one's last record. For a group with very many positions the
tombstones are several batches, the one with the group itself last. If a batch fails, the positions
deleted before it stay deleted.

All of this is done in portions (portions.py): there may be 100,000 groups, and as many positions.

Source: KIP-211, with its per-partition expiry of subscribed groups left out on purpose
(librdkafka#1442, pykafka#504: committed offsets that expired while a consumer was down); Kafka,
GroupMetadataManager.cleanupGroupMetadata.
"""

from collections.abc import Generator, Iterator
from itertools import islice

from penstock.coordinator.portions import POSITIONS, TO_WRITE, Steps
from penstock.coordinator.records import UnreadRecord
from penstock.groups.config import NEVER_EXPIRE_MS
from penstock.groups.context import Context
from penstock.groups.group import BaseGroup
from penstock.groups.journal import GroupChanges, WriteDone
from penstock.groups.records import CommittedOffset, TopicKey
from penstock.groups.table import GroupTable
from penstock.protocol.error_codes import ErrorCode

TOGETHER = 500
"""Tombstones in one batch, and positions examined in one step."""
VACANT_MS = 10_000
"""How long a group without members and positions stays, so that a restart of its only consumer that
commits nothing is not the end of it."""


class _Deletion:
    """The deletion of one group: how many batches are not confirmed yet, and whom to call back."""

    __slots__ = ("_context", "_done", "_group", "_left", "_table", "is_over")

    def __init__(
        self, context: Context, table: GroupTable, group: BaseGroup, batches: int, done: WriteDone
    ) -> None:
        self._context, self._table, self._group, self._done = context, table, group, done
        self._left = batches
        self.is_over = False

    def written(self, error: ErrorCode | None) -> None:
        """Take the outcome of one batch: the first refused batch, or the last one, ends this."""
        self._left -= 1
        if self.is_over or (error is None and self._left):
            return
        self.is_over = True
        if error is None:
            self._table.forget(self._group)
        elif self._group.is_dead:
            self._group.revive(self._context.clock.wall_ms())
        self._done(error)


def delete_group(context: Context, table: GroupTable, group: BaseGroup, done: WriteDone) -> Steps:
    """Write tombstones for all of an empty group's records, then remove it and call `done`."""
    group.die(context.clock.wall_ms())
    batches = [*_tombstones(group)]
    deletion = _Deletion(context, table, group, len(batches), done)
    for changes in batches:
        if deletion.is_over:
            return
        if table.groups.get(group.group_id) is not group:
            # The partition moved away. A group of this id now, even here again, is another one.
            deletion.written(ErrorCode.NOT_COORDINATOR)
            return
        context.writer.write(group, changes, deletion.written)
        yield TO_WRITE + len(changes.offsets) // POSITIONS


def _tombstones(group: BaseGroup) -> Iterator[GroupChanges]:
    """Yield tombstones for all records of a group, those not confirmed yet included."""
    offsets: dict[TopicKey, CommittedOffset | None] = dict.fromkeys(group.offsets.keys())
    metadata: dict[bytes, bytes | UnreadRecord | None] = dict.fromkeys(group.metadata.keys())
    keys = iter(offsets)
    while len(some := dict.fromkeys(islice(keys, TOGETHER))) == TOGETHER:
        yield GroupChanges(offsets=some)
    yield GroupChanges(offsets=some, metadata=metadata)


def expire_groups(context: Context, table: GroupTable, *, wall_ms: int) -> Steps:
    """Delete every idle group that is expired at `wall_ms`, the oldest first."""
    retention_ms = context.config.offsets_retention_ms
    for number, group in enumerate([*table.groups.values()]):
        is_there = table.groups.get(group.group_id) is group
        if is_there and (yield from _is_expired(group, wall_ms=wall_ms, retention_ms=retention_ms)):
            context.counters.groups_expired += 1
            yield from delete_group(context, table, group, lambda _: None)
        elif number % POSITIONS == 0:
            yield 1


def expire_vacant(context: Context, table: GroupTable, group: BaseGroup) -> Steps:
    """Delete a group that has had neither members nor positions for a while, if that is so now.

    If it can not be written the group is vacant anew, and this is tried again.
    """
    if table.groups.get(group.group_id) is not group or not group.is_vacant or not _may_go(group):
        return
    context.counters.groups_expired += 1
    yield from delete_group(context, table, group, lambda _: None)


def _is_expired(group: BaseGroup, *, wall_ms: int, retention_ms: int) -> Generator[int, None, bool]:
    """Return whether a group is idle and has no offsets, or no commits for the retention time.

    A group with records that this version cannot read stays: they may be a reason to keep it. So
    does a group that was used again while its positions were examined.
    """
    if not _may_go(group):
        return False
    if not group.offsets.values:
        return True
    if retention_ms == NEVER_EXPIRE_MS:
        return False
    change_count = group.offsets.change_count
    last_commit_ms = 0
    positions = iter([*group.offsets.values.values()])
    while some := [*islice(positions, TOGETHER)]:
        if any(offset.unread is not None for offset in some):
            return False
        last_commit_ms = max(last_commit_ms, *(offset.commit_timestamp_ms for offset in some))
        yield len(some) // POSITIONS
    if not _may_go(group) or group.offsets.change_count != change_count:
        return False
    return wall_ms - max(last_commit_ms, group.state_since_ms) > retention_ms


def _may_go(group: BaseGroup) -> bool:
    return group.expires and group.is_idle and not group.has_unread_metadata
