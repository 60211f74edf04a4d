"""A share group whose shares an administrator changes: it is empty, and stays so meanwhile.

    hold ─► add what gets a share ─► (shares are moved where they are) ─────────────────► end
    hold ─► (shares are deleted where they are) ─► drop what has none any more ─────────► end

What may have a share is written before there is one, and forgotten after it has gone: so a change
that was broken off leaves nothing that DeleteGroups would not find.

Source: Kafka, GroupMetadataManager (alterShareGroupOffsets, sharePartitionsEligibleForOffset-
Deletion, completeDeleteShareGroupOffsets).
"""

from collections.abc import Iterable, Mapping

from penstock.base.ids import CoordinatorEpoch
from penstock.groups.assigned.names import Kind
from penstock.groups.context import Context
from penstock.groups.journal import GroupChanges, WriteDone
from penstock.groups.share.group import ShareGroup
from penstock.groups.share.records import Shared, SharedTopic
from penstock.groups.share.tables import said_bytes
from penstock.groups.table import GroupTable
from penstock.protocol.error_codes import ErrorCode


class HeldGroup:
    """A group in which no member can join until `end` is called, and no other change can begin."""

    __slots__ = ("_context", "_group", "_table", "coordinator_epoch")

    def __init__(
        self,
        context: Context,
        table: GroupTable,
        group: ShareGroup,
        coordinator_epoch: CoordinatorEpoch,
    ) -> None:
        assert group.is_empty, group.group_id
        self.coordinator_epoch = coordinator_epoch
        """By which masters tell this change from one of a later coordinator."""
        self._context = context
        self._table = table
        self._group = group
        group.is_held = True

    @property
    def shared(self) -> Shared:
        """What may have a share."""
        return self._group.shared

    def add(self, topics: Mapping[bytes, SharedTopic], done: WriteDone) -> None:
        """Note durably that these partitions may have shares, besides all others."""
        known = {**self.shared.topics}
        for topic_id, topic in topics.items():
            before = known.get(topic_id)
            numbers = topic.numbers if before is None else topic.numbers | before.numbers
            known[topic_id] = SharedTopic(topic.name, numbers)
        self._write(Shared(known), done)

    def drop(self, topic_ids: Iterable[bytes], done: WriteDone) -> None:
        """Note durably that no partition of these topics has a share."""
        gone = frozenset(topic_ids)
        topics = self.shared.topics.items()
        self._write(Shared({one: topic for one, topic in topics if one not in gone}), done)

    def end(self) -> None:
        """Let members join again; a group that was made for the change and not written is gone."""
        self._group.is_held = False
        self._forget_if_void()

    def _forget_if_void(self) -> None:
        group = self._group
        if not group.is_changing and not group.metadata.values:
            self._table.forget(group)

    def _write(self, shared: Shared, done: WriteDone) -> None:
        group = self._group

        def written(error: ErrorCode | None) -> None:
            self._forget_if_void()
            done(error)

        with self._context.outbox.holding():
            done = self._context.outbox.wrap(done)
            if self._table.groups.get(group.group_id) is not group:
                done(ErrorCode.NOT_COORDINATOR)
            elif shared == group.shared:
                done(None)
            else:
                changes = GroupChanges(metadata={group.key(Kind.SHARED): said_bytes(shared)})
                self._context.writer.write(group, changes, written)
