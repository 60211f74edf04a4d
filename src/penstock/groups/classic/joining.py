"""JoinGroup: which joins are accepted, refused, fenced, or given a member id first.

    no member id    static and known     the instance comes back: it gets a new id, the old one is
                                         fenced, and a stable group does not rebalance
                    static and new       joins at once
                    dynamic, v4+         gets an id and joins with it (otherwise every retry of a
                                         join whose answer was lost would add a dead member)
                    dynamic, older       joins at once
    member id       pending              joins
                    known                rejoins; if nothing changed it gets the generation
                    unknown              must start over without an id

Source: Kafka, GroupCoordinator.scala (doNewMemberJoinGroup, doCurrentMemberJoinGroup,
updateStaticMemberAndRebalance); KIP-345, KIP-394, KIP-814. Departure: a static member that comes
back with other topics triggers a rebalance, where Kafka keeps the old assignment.
"""

import logging

from penstock.groups.classic.group import Group, GroupState
from penstock.groups.classic.member import Member
from penstock.groups.classic.membership import is_fenced
from penstock.groups.classic.rebalance import Rebalances, joined_reply
from penstock.groups.classic.roll import members_for_leader
from penstock.groups.classic.snapshot import record_parts
from penstock.groups.classic.subscription import subscribed_topics
from penstock.groups.context import Context
from penstock.groups.deadlines import DeadlineKey, DeadlineKind
from penstock.groups.messages import (
    NO_MEMBER_ID,
    JoinCallback,
    JoinGroup,
    JoinReply,
    SyncReply,
)
from penstock.protocol.error_codes import ErrorCode

_log = logging.getLogger("penstock.groups")


class Joining:
    """Handles JoinGroup requests."""

    __slots__ = ("_context", "_rebalances")

    def __init__(self, context: Context, rebalances: Rebalances) -> None:
        self._context = context
        self._rebalances = rebalances

    def join(self, group: Group, request: JoinGroup, reply: JoinCallback) -> None:
        """Answer a join, now or when the rebalance completes."""
        error = self._refusal(group, request)
        if error is not None:
            reply(JoinReply(error=error, member_id=request.member_id))
        elif request.member_id == NO_MEMBER_ID:
            self._join_unknown(group, request, reply)
        elif request.member_id in group.pending and request.instance_id is None:
            self._add(group, request.member_id, request, reply)
        else:
            self._join_known(group, request, reply)

    def _refusal(self, group: Group, request: JoinGroup) -> ErrorCode | None:
        if group.state is GroupState.DEAD:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        if not self._has_room(group, request):
            return ErrorCode.GROUP_MAX_SIZE_REACHED
        if not _supports(group, request):
            return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        return None

    def _has_room(self, group: Group, request: JoinGroup) -> bool:
        """Return whether the group can take this join; a group loaded over its limit shrinks."""
        size_max = self._context.config.group_size_max
        if request.member_id in group.members:
            is_waiting = request.member_id in group.joined
            return is_waiting or len(group.joined) < size_max
        if request.member_id in group.pending or request.instance_id in group.static_members:
            return True
        return len(group.members) + len(group.pending) < size_max

    def _join_unknown(self, group: Group, request: JoinGroup, reply: JoinCallback) -> None:
        member_id = self._context.new_member_id(request.client_id, request.instance_id)
        old_id = group.static_members.get(request.instance_id or "")
        if request.instance_id is not None and old_id is not None:
            self._replace(group, group.members[old_id], member_id, request, reply)
        elif request.instance_id is None and request.member_id_required:
            self._require_id(group, member_id, request, reply)
        else:
            self._add(group, member_id, request, reply)

    def _require_id(
        self, group: Group, member_id: str, request: JoinGroup, reply: JoinCallback
    ) -> None:
        group.add_pending(member_id)
        group.newcomer_during_delay = True
        key = DeadlineKey(DeadlineKind.PENDING_MEMBER, group.group_id, member_id)
        at_ms = self._context.clock.monotonic_ms() + request.session_timeout_ms
        self._context.deadlines.set(key, at_ms)
        reply(JoinReply(error=ErrorCode.MEMBER_ID_REQUIRED, member_id=member_id))

    def _add(self, group: Group, member_id: str, request: JoinGroup, reply: JoinCallback) -> None:
        member = Member(
            member_id=member_id,
            instance_id=request.instance_id,
            client_id=request.client_id,
            client_host=request.client_host,
            session_timeout_ms=request.session_timeout_ms,
            rebalance_timeout_ms=request.rebalance_timeout_ms,
            protocols=request.protocols,
            is_new=True,
            is_gone=request.is_gone,
        )
        self._rebalances.add(group, member, request, reply)

    def _join_known(self, group: Group, request: JoinGroup, reply: JoinCallback) -> None:
        member = group.members.get(request.member_id)
        error = None
        if is_fenced(group, request.member_id, request.instance_id):
            error = ErrorCode.FENCED_INSTANCE_ID
        elif member is None or request.instance_id not in (None, member.instance_id):
            error = ErrorCode.UNKNOWN_MEMBER_ID
        if error is not None or member is None:
            assert error is not None
            reply(JoinReply(error=error, member_id=request.member_id))
            return
        is_leader_of_stable = (
            group.state is GroupState.STABLE and group.leader_id == member.member_id
        )
        is_changed = member.protocols != request.protocols
        if group.state is GroupState.PREPARING or is_leader_of_stable or is_changed:
            # A leader rejoins a stable group to trigger a rebalance, for example on new partitions.
            self._rebalances.update(group, member, request, reply)
            return
        self._rebalances.answering.keep_alive(group, member)
        reply(joined_reply(group)(member.member_id))

    def _replace(
        self,
        group: Group,
        member: Member,
        new_id: str,
        request: JoinGroup,
        reply: JoinCallback,
    ) -> None:
        """Give a static member's place to the instance that came back."""
        old_id, old_leader = member.member_id, group.leader_id
        fenced = ErrorCode.FENCED_INSTANCE_ID
        self._rebalances.answering.answer_join(
            group, member, JoinReply(error=fenced, member_id=old_id)
        )
        member.answer_sync(SyncReply(error=fenced))
        key = DeadlineKey(DeadlineKind.SESSION, group.group_id, old_id)
        self._context.deadlines.cancel(key)
        group.rename(old_id, new_id, client_id=request.client_id, client_host=request.client_host)
        old_metadata = member.metadata_for(group.protocol_name)
        group.offer(member, request.protocols)
        self._context.counters.static_members_replaced += 1
        _log.info(
            "group=%s instance=%s %s -> %s", group.group_id, member.instance_id, old_id, new_id
        )
        if group.state is GroupState.STABLE and self._keeps_assignment(group, member, old_metadata):
            member.session_timeout_ms = request.session_timeout_ms
            member.rebalance_timeout_ms = request.rebalance_timeout_ms
            self._rebalances.answering.keep_alive(group, member)
            self._resume(group, member, request, old_leader, reply)
        else:
            self._rebalances.update(group, member, request, reply)

    @staticmethod
    def _keeps_assignment(group: Group, member: Member, old_metadata: bytes) -> bool:
        """Return whether the assignment still fits: same elected protocol, same topics."""
        if group.choose_protocol() != group.protocol_name:
            return False
        new_metadata = member.metadata_for(group.protocol_name)
        return subscribed_topics(new_metadata) == subscribed_topics(old_metadata)

    def _resume(
        self,
        group: Group,
        member: Member,
        request: JoinGroup,
        old_leader: str | None,
        reply: JoinCallback,
    ) -> None:
        """Journal the new member id, then answer; nobody else has to rejoin."""
        answer = joined_reply(group)(member.member_id)
        is_leader = group.leader_id == member.member_id
        if is_leader and request.can_skip_assignment:
            answer = JoinReply(
                error=ErrorCode.NONE,
                member_id=member.member_id,
                generation=group.generation,
                protocol_type=group.protocol_type,
                protocol_name=group.protocol_name,
                leader_id=member.member_id,
                skip_assignment=True,
                members=members_for_leader(group),
            )
        elif is_leader:
            # An older client that took itself for the leader would compute an assignment, which
            # this generation does not accept any more; so it gets the leader's former id.
            answer = JoinReply(
                error=ErrorCode.NONE,
                member_id=member.member_id,
                generation=group.generation,
                protocol_type=group.protocol_type,
                protocol_name=group.protocol_name,
                leader_id=old_leader or "",
            )

        def done(error: ErrorCode | None) -> None:
            if error is None:
                reply(answer)
            else:
                reply(JoinReply(error=error, member_id=request.member_id))

        assignments = {m.member_id: m.assignment for m in group.members.values()}
        self._context.writer.write_group(group, record_parts(group, assignments), done)


def _supports(group: Group, request: JoinGroup) -> bool:
    """Return whether a client that offers these protocols can be a member."""
    if not request.protocol_type or not request.protocols:
        return False
    if not group.members:
        return True
    return request.protocol_type == group.protocol_type and any(
        group.offered.get(protocol.name) == len(group.members) for protocol in request.protocols
    )
