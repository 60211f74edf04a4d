"""DeleteGroups: empty groups are deleted with all that they have.

A share group's shares are elsewhere, with their data: they go first, and the group's records only
when none is left. So a deletion that fails in between can be asked for again.

Source: Kafka, GroupCoordinatorShard.deleteGroups, GroupCoordinatorService.deleteShareGroups.
"""

from collections.abc import Callable, Iterable

from penstock.coordinator.portions import Steps
from penstock.groups import expiry
from penstock.groups.context import Context
from penstock.groups.group import BaseGroup
from penstock.groups.share.group import ShareGroup
from penstock.groups.share.masters import ShareMasters
from penstock.groups.table import GroupTable
from penstock.protocol.error_codes import ErrorCode

Finished = Callable[[str, ErrorCode | None], None]
"""Gets the id of a group, and why it was not deleted."""


class Deletions:
    """Deletes groups, in portions."""

    __slots__ = ("_context", "_masters", "_table")

    def __init__(self, context: Context, table: GroupTable, masters: ShareMasters) -> None:
        self._context = context
        self._table = table
        self._masters = masters

    def delete(self, group_ids: Iterable[str], finished: Finished) -> Steps:
        """Delete them one after the other; `finished` is called once for each."""
        for group_id in group_ids:
            yield 1
            yield from self._delete_one(group_id, finished)

    def _delete_one(self, group_id: str, finished: Finished) -> Steps:
        error = self._table.refusal(group_id, is_empty_id_allowed=True)
        group = self._table.groups.get(group_id)
        if error is None and (group is None or group.is_dead):
            error = ErrorCode.GROUP_ID_NOT_FOUND
        elif isinstance(group, ShareGroup) and group.is_held:
            error = ErrorCode.COORDINATOR_NOT_AVAILABLE
        elif error is None and group is not None and not group.is_empty:
            error = ErrorCode.NON_EMPTY_GROUP
        if error is not None or group is None:
            finished(group_id, error)
        elif isinstance(group, ShareGroup) and group.shared.partitions:
            self._delete_shares(group, finished)
        else:
            yield from self._delete_records(group, finished)

    def _delete_records(self, group: BaseGroup, finished: Finished) -> Steps:
        group_id = group.group_id
        return expiry.delete_group(
            self._context, self._table, group, lambda error: finished(group_id, error)
        )

    def _delete_shares(self, group: ShareGroup, finished: Finished) -> None:
        """Delete the shares of a group, then its records. Until then no member can join."""
        group.die(self._context.clock.wall_ms())

        def deleted(error: ErrorCode | None) -> None:
            if error is None:
                self._context.portions.begin(self._delete_records(group, finished))
                return
            with self._context.outbox.holding():
                if self._table.groups.get(group.group_id) is group:
                    group.revive(self._context.clock.wall_ms())
                finished(group.group_id, error)

        self._masters.delete(group.group_id, group.shared.partitions, deleted)
