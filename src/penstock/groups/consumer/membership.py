"""The members of consumer groups: which group a heartbeat, a commit or a fetch is for.

Source: Kafka, GroupMetadataManager (getOrMaybeCreateConsumerGroup), ConsumerGroup
(validateOffsetCommit, validateOffsetFetch, throwIfMemberEpochIsInvalid).
"""

from functools import partial

from penstock.base.ids import MemberEpoch
from penstock.coordinator.portions import PORTION, Steps
from penstock.groups.assigned.messages import JOIN_EPOCH, HeartbeatCallback, HeartbeatReply, refused
from penstock.groups.classic.group import Group
from penstock.groups.consumer import inspection
from penstock.groups.consumer.checks import invalid, invalid_regex
from penstock.groups.consumer.group import ConsumerGroup, ConsumerGroupState
from penstock.groups.consumer.heartbeats import Heartbeats
from penstock.groups.consumer.messages import ConsumerGroupDescription, ConsumerHeartbeat
from penstock.groups.context import Context
from penstock.groups.group import BaseGroup
from penstock.groups.kinds import change_kind
from penstock.groups.migration.upgrade import Upgrades
from penstock.groups.share.group import ShareGroup
from penstock.groups.streams.group import StreamsGroup
from penstock.groups.table import GroupTable
from penstock.protocol.error_codes import ErrorCode

_BEING_CHANGED = "The group is being deleted, or becomes one of another kind; try again"


class ConsumerMembership:
    """Finds and creates consumer groups for their members."""

    __slots__ = ("_context", "_heartbeats", "_table", "_upgrades")

    def __init__(
        self, context: Context, table: GroupTable, heartbeats: Heartbeats, upgrades: Upgrades
    ) -> None:
        self._context = context
        self._table = table
        self._heartbeats = heartbeats
        self._upgrades = upgrades

    def new_member_id(self) -> str:
        """Return the id of a member that does not name itself."""
        return self._context.new_suffix()

    def heartbeat(self, request: ConsumerHeartbeat, reply: HeartbeatCallback) -> None:
        """Answer a heartbeat: at once, or when the changes that it makes are durable."""
        with self._context.outbox.holding():
            reply = self._context.outbox.wrap(reply)
            error = self._table.refusal(request.group_id)
            if error is not None:
                reply(HeartbeatReply(error=error))
                return
            bound = self._context.config.member_metadata_bytes_max
            answer = invalid(request, metadata_bytes_max=bound)
            group = self._table.groups.get(request.group_id)
            if answer is not None:
                reply(answer)
            elif request.regex and not isinstance(group, ConsumerGroup):
                self._context.portions.begin(self._with_regex(request, reply))
            else:
                self._pass_on(request, reply)

    def describe(self, group_id: str) -> ConsumerGroupDescription:
        """Return a group as administrators see it; GROUP_ID_NOT_FOUND if it is none of these."""
        error = self._table.refusal(group_id)
        if error is not None:
            return ConsumerGroupDescription(error=error, group_id=group_id)
        group = self._table.groups.get(group_id)
        if isinstance(group, ConsumerGroup):
            return inspection.describe(group)
        return ConsumerGroupDescription(
            error=ErrorCode.GROUP_ID_NOT_FOUND,
            group_id=group_id,
            message=_not_found(group_id, is_other=group is not None),
            state=ConsumerGroupState.DEAD.value,
        )

    def _with_regex(self, request: ConsumerHeartbeat, reply: HeartbeatCallback) -> Steps:
        """Pass a join on whose expression is one; no group is made for another."""
        assert request.regex is not None, request
        answer = invalid_regex(request.regex)
        yield PORTION
        if answer is not None:
            reply(answer)
        else:
            self._pass_on(request, reply)

    def _pass_on(self, request: ConsumerHeartbeat, reply: HeartbeatCallback) -> None:
        error = self._table.refusal(request.group_id)
        found = self._find(request) if error is None else HeartbeatReply(error=error)
        if isinstance(found, HeartbeatReply):
            reply(found)
            return
        again = partial(self._pass_on, request, reply)
        if isinstance(found, ConsumerGroup):
            found.note_sight(request)
            self._heartbeats.heartbeat(found, request, reply, again)
        else:
            self._upgrades.begin(found, reply, again)

    def _find(self, request: ConsumerHeartbeat) -> ConsumerGroup | Group | HeartbeatReply:
        """Return the group of a heartbeat, which a join may create, or why there is none.

        A classic group is one that the join may convert.
        """
        group = self._table.groups.get(request.group_id)
        if group is not None and group.is_dead:
            return refused(ErrorCode.COORDINATOR_NOT_AVAILABLE, _BEING_CHANGED)
        if isinstance(group, ConsumerGroup):
            return self._without_room(request, group) or group
        if request.member_epoch != JOIN_EPOCH or isinstance(group, ShareGroup | StreamsGroup):
            text = _not_found(request.group_id, is_other=group is not None)
            return refused(ErrorCode.GROUP_ID_NOT_FOUND, text)
        no_room = self._without_room(request, None)
        if no_room is not None:
            return no_room
        if not isinstance(group, Group) or group.is_empty:
            return self._created(request.group_id, group)
        return group

    def _created(self, group_id: str, before: BaseGroup | None) -> ConsumerGroup | HeartbeatReply:
        """Return a new group, perhaps in the place of an empty one of another kind."""
        created = self._table.new(group_id, ConsumerGroup)
        if before is not None:
            change_kind(self._context, self._table, before, created)
        elif len(self._table.groups) >= self._context.config.groups_max:
            return refused(ErrorCode.POLICY_VIOLATION, "There are too many groups")
        else:
            self._table.adopt(created)
        return created

    def _without_room(
        self, request: ConsumerHeartbeat, group: ConsumerGroup | None
    ) -> HeartbeatReply | None:
        """Return the answer to a new member if groups have no memory left, else None."""
        is_back = group is not None and (request.instance_id or "") in group.static_members
        if is_back or (group is not None and request.member_id in group.facts):
            return None
        said = sum(map(len, request.topics or ())) + len(request.regex or "")
        if self._table.bounded_bytes + said <= self._context.config.members_bytes_max:
            return None
        self._context.counters.joins_put_off += 1
        text = "Groups have no memory left here; try again later"
        return refused(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, text)


def _not_found(group_id: str, *, is_other: bool) -> str:
    if is_other:
        return f"Group {group_id} is not a consumer group: its members use another protocol."
    return f"Group {group_id} not found."


def commit_refusal(
    group: ConsumerGroup | StreamsGroup,
    member_id: str,
    instance_id: str | None,
    epoch: MemberEpoch,
    *,
    is_by_epoch: bool,
) -> ErrorCode | None:
    """Return why a commit may not be made, or None.

    `is_by_epoch`: the version of the request has member epochs (OffsetCommit 9). Members of the
    classic protocol commit with their generation, by any version.
    """
    if epoch < 0 and not group.facts:
        return None
    facts = group.facts.get(member_id)
    if facts is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    if instance_id is not None and facts.instance_id != instance_id:
        return ErrorCode.FENCED_INSTANCE_ID
    if not is_by_epoch and not _is_classic(group, member_id):
        return ErrorCode.UNSUPPORTED_VERSION
    return _epoch_refusal(group, member_id, epoch)


def fetch_refusal(
    group: ConsumerGroup | StreamsGroup, member_id: str | None, epoch: MemberEpoch
) -> ErrorCode | None:
    """Return why a member may not fetch positions, or None; who is no member may always."""
    if member_id is None and epoch < 0:
        return None
    if member_id is None or member_id not in group.facts:
        return ErrorCode.UNKNOWN_MEMBER_ID
    return _epoch_refusal(group, member_id, epoch)


def is_subscribed(group: ConsumerGroup, topic: str) -> bool:
    """Return whether any member subscribes to a topic, by name or by regular expression."""
    return any(topic in one.topics for one in group.facts.values()) or any(
        topic in one.topics for one in group.resolved.values()
    )


def _epoch_refusal(
    group: ConsumerGroup | StreamsGroup, member_id: str, epoch: MemberEpoch
) -> ErrorCode | None:
    current = group.currents.get(member_id)
    if current is not None and current.epoch == epoch:
        return None
    is_classic = _is_classic(group, member_id)
    return ErrorCode.ILLEGAL_GENERATION if is_classic else ErrorCode.STALE_MEMBER_EPOCH


def _is_classic(group: ConsumerGroup | StreamsGroup, member_id: str) -> bool:
    return isinstance(group, ConsumerGroup) and group.facts[member_id].classic is not None
