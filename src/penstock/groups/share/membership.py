"""Share groups for their members and administrators: which group a request is for.

A share group never becomes one of another kind, nor the other way round, not even an empty one: the
positions of a consumer group mean nothing to shares.

Source: Kafka, GroupMetadataManager (getOrMaybeCreateShareGroup, shareGroup).
"""

from penstock.groups.assigned.messages import (
    JOIN_EPOCH,
    HeartbeatCallback,
    HeartbeatReply,
    refused,
)
from penstock.groups.context import Context
from penstock.groups.share import inspection
from penstock.groups.share.administration import HeldGroup
from penstock.groups.share.checks import invalid
from penstock.groups.share.group import ShareGroup, ShareGroupState
from penstock.groups.share.heartbeats import ShareHeartbeats
from penstock.groups.share.masters import ShareMasters
from penstock.groups.share.messages import ShareGroupDescription, ShareHeartbeat
from penstock.groups.share.records import Shared
from penstock.groups.table import GroupTable
from penstock.protocol.error_codes import ErrorCode


class ShareMembership:
    """Finds and creates share groups."""

    __slots__ = ("_context", "_heartbeats", "_table", "masters")

    def __init__(
        self,
        context: Context,
        table: GroupTable,
        heartbeats: ShareHeartbeats,
        masters: ShareMasters,
    ) -> None:
        self._context = context
        self._table = table
        self._heartbeats = heartbeats
        self.masters = masters
        """For administrators, who ask where shares are and move them."""

    def heartbeat(self, request: ShareHeartbeat, reply: HeartbeatCallback) -> None:
        """Answer a heartbeat: at once, or when the changes that it makes are durable."""
        with self._context.outbox.holding():
            reply = self._context.outbox.wrap(reply)
            error = self._table.refusal(request.group_id)
            if error is not None:
                reply(HeartbeatReply(error=error))
                return
            bound = self._context.config.member_metadata_bytes_max
            found = invalid(request, metadata_bytes_max=bound) or self._find(request)
            if isinstance(found, ShareGroup):
                self._heartbeats.heartbeat(found, request, reply)
            else:
                reply(found)

    def describe(self, group_id: str) -> ShareGroupDescription:
        """Return a group as administrators see it; GROUP_ID_NOT_FOUND if it is none of these."""
        error = self._table.refusal(group_id)
        if error is not None:
            return ShareGroupDescription(error=error, group_id=group_id)
        group = self._table.groups.get(group_id)
        if isinstance(group, ShareGroup):
            return inspection.describe(group)
        return ShareGroupDescription(
            error=ErrorCode.GROUP_ID_NOT_FOUND,
            group_id=group_id,
            message=_not_found(group_id, is_other=group is not None),
            state=ShareGroupState.DEAD.value,
        )

    def shared(self, group_id: str) -> Shared | ErrorCode:
        """Return what may have a share of a group, or why that can not be told."""
        error = self._table.refusal(group_id)
        if error is not None:
            return error
        group = self._table.groups.get(group_id)
        return group.shared if isinstance(group, ShareGroup) else ErrorCode.GROUP_ID_NOT_FOUND

    def beginning(self, group_id: str) -> Shared | ErrorCode:
        """Return where shares of a group may begin now: nowhere while its shares are changed."""
        group = self._table.groups.get(group_id)
        if isinstance(group, ShareGroup) and (group.is_dead or group.is_held):
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        return self.shared(group_id)

    def hold(self, group_id: str, *, creates: bool = False) -> HeldGroup | ErrorCode:
        """Keep members out of an empty group, for a change of its shares; the caller ends that.

        With `creates` there need not be such a group: one is made, which goes again if nothing
        is written of it. As it has no members, it has the memory of a group of positions alone.
        """
        error = self._table.refusal(group_id)
        if error is not None:
            return error
        group = self._table.groups.get(group_id)
        if group is None and creates:
            group, error = self._table.create_memberless(group_id, ShareGroup)
            if error is not None:
                return error
        if not isinstance(group, ShareGroup):
            return ErrorCode.GROUP_ID_NOT_FOUND
        if group.is_dead or group.is_held:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        if not group.is_empty:
            return ErrorCode.NON_EMPTY_GROUP
        return HeldGroup(self._context, self._table, group, self.masters.epoch_of(group_id))

    def _find(self, request: ShareHeartbeat) -> ShareGroup | HeartbeatReply:
        """Return the group of a heartbeat, which a join may create, or why there is none."""
        group = self._table.groups.get(request.group_id)
        if group is not None and group.is_dead:
            return refused(ErrorCode.COORDINATOR_NOT_AVAILABLE, "The group is being deleted")
        if isinstance(group, ShareGroup):
            return self._without_room(request, group) or group
        if request.member_epoch != JOIN_EPOCH or group is not None:
            text = _not_found(request.group_id, is_other=group is not None)
            return refused(ErrorCode.GROUP_ID_NOT_FOUND, text)
        no_room = self._without_room(request, None)
        if no_room is not None:
            return no_room
        if len(self._table.groups) >= self._context.config.groups_max:
            return refused(ErrorCode.POLICY_VIOLATION, "There are too many groups")
        created = self._table.new(request.group_id, ShareGroup)
        self._table.adopt(created)
        return created

    def _without_room(
        self, request: ShareHeartbeat, group: ShareGroup | None
    ) -> HeartbeatReply | None:
        """Return the answer to a new member if groups have no memory left, else None."""
        if group is not None and request.member_id in group.facts:
            return None
        total = self._table.bounded_bytes + request.said_bytes
        if total <= self._context.config.members_bytes_max:
            return None
        self._context.counters.joins_put_off += 1
        text = "Groups have no memory left here; try again later"
        return refused(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, text)


def _not_found(group_id: str, *, is_other: bool) -> str:
    kind = "is not a share group" if is_other else "not found"
    return f"Group {group_id} {kind}."
