"""The members of streams groups: which group a heartbeat is for.

Source: Kafka 4.2, GroupMetadataManager (getOrCreateStreamsGroup, castToStreamsGroup): an empty
classic group becomes a streams group and keeps its positions, so that an application is moved while
it is stopped (KAFKA-20254). A group of another kind is refused.
"""

from penstock.coordinator.portions import Steps
from penstock.groups.assigned.messages import (
    JOIN_EPOCH,
    HeartbeatCallback,
    HeartbeatReply,
    refused,
)
from penstock.groups.classic.group import Group
from penstock.groups.context import Context
from penstock.groups.kinds import change_kind
from penstock.groups.streams import inspection
from penstock.groups.streams.checks import invalid, invalid_regexes
from penstock.groups.streams.group import StreamsGroup, StreamsGroupState
from penstock.groups.streams.heartbeats import StreamsHeartbeats
from penstock.groups.streams.messages import StreamsGroupDescription, StreamsHeartbeat
from penstock.groups.table import GroupTable
from penstock.protocol.error_codes import ErrorCode


class StreamsMembership:
    """Finds and creates streams groups for their members."""

    __slots__ = ("_context", "_heartbeats", "_table")

    def __init__(self, context: Context, table: GroupTable, heartbeats: StreamsHeartbeats) -> None:
        self._context = context
        self._table = table
        self._heartbeats = heartbeats

    def heartbeat(self, request: StreamsHeartbeat, reply: HeartbeatCallback) -> None:
        """Answer a heartbeat: at once, or when the changes that it makes are durable."""
        with self._context.outbox.holding():
            reply = self._context.outbox.wrap(reply)
            error = self._table.refusal(request.group_id)
            bound = self._context.config.record_bytes_max
            answer = invalid(request, topology_bytes_max=bound)
            group = self._table.groups.get(request.group_id)
            topology = request.topology
            if error is not None:
                reply(HeartbeatReply(error=error))
            elif answer is not None:
                reply(answer)
            elif topology is not None and topology.regexes and not isinstance(group, StreamsGroup):
                self._context.portions.begin(self._with_regexes(request, reply))
            else:
                self._pass_on(request, reply)

    def describe(self, group_id: str) -> StreamsGroupDescription:
        """Return a group as administrators see it; GROUP_ID_NOT_FOUND if it is none of these."""
        error = self._table.refusal(group_id)
        if error is not None:
            return StreamsGroupDescription(error=error, group_id=group_id)
        group = self._table.groups.get(group_id)
        if isinstance(group, StreamsGroup):
            return inspection.describe(group)
        return StreamsGroupDescription(
            error=ErrorCode.GROUP_ID_NOT_FOUND,
            group_id=group_id,
            message=_not_found(group_id, is_other=group is not None),
            state=StreamsGroupState.DEAD.value,
        )

    def _with_regexes(self, request: StreamsHeartbeat, reply: HeartbeatCallback) -> Steps:
        """Pass a join on whose expressions are some; no group is made for others."""
        assert request.topology is not None, request
        answer = yield from invalid_regexes(request.topology)
        error = self._table.refusal(request.group_id)
        if error is not None or answer is not None:
            reply(answer or HeartbeatReply(error=error or ErrorCode.NONE))
        else:
            self._pass_on(request, reply)

    def _pass_on(self, request: StreamsHeartbeat, reply: HeartbeatCallback) -> None:
        found = self._find(request)
        if isinstance(found, StreamsGroup):
            self._heartbeats.heartbeat(found, request, reply)
        else:
            reply(found)

    def _find(self, request: StreamsHeartbeat) -> StreamsGroup | HeartbeatReply:
        """Return the group of a heartbeat, which a join may create, or why there is none."""
        group = self._table.groups.get(request.group_id)
        if group is not None and group.is_dead:
            return refused(ErrorCode.COORDINATOR_NOT_AVAILABLE, "The group is being deleted")
        if isinstance(group, StreamsGroup):
            return self._without_room(request, group) or group
        is_other = group is not None and not (isinstance(group, Group) and group.is_empty)
        if request.member_epoch != JOIN_EPOCH or is_other:
            text = _not_found(request.group_id, is_other=group is not None)
            return refused(ErrorCode.GROUP_ID_NOT_FOUND, text)
        no_room = self._without_room(request, None)
        if no_room is not None:
            return no_room
        created = self._table.new(request.group_id, StreamsGroup)
        if group is not None:
            change_kind(self._context, self._table, group, created)
        elif len(self._table.groups) >= self._context.config.groups_max:
            return refused(ErrorCode.POLICY_VIOLATION, "There are too many groups")
        else:
            self._table.adopt(created)
        return created

    def _without_room(
        self, request: StreamsHeartbeat, group: StreamsGroup | None
    ) -> HeartbeatReply | None:
        """Return the answer to a new member if groups have no memory left, else None."""
        if group is not None and request.member_id in group.facts:
            return None
        if self._table.bounded_bytes + request.said_bytes <= self._context.config.members_bytes_max:
            return None
        self._context.counters.joins_put_off += 1
        text = "Groups have no memory left here; try again later"
        return refused(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, text)


def _not_found(group_id: str, *, is_other: bool) -> str:
    if is_other:
        return f"Group {group_id} is not a streams group."
    return f"Group {group_id} not found."


def is_subscribed(group: StreamsGroup, topic: str) -> bool:
    """Return whether the application of a group with members reads a topic."""
    if not group.facts or group.tables.topology is None:
        return False
    configured = group.configured
    resolved = () if configured is None else configured.subtopologies
    return topic in group.tables.topology.source_topics or any(
        topic in one.sources for one in resolved
    )
