"""Answers to parked joins and syncs, and the sessions that run again behind them.

A member's session does not run while its join or sync is parked. It starts when the member is
answered, which in a group of thousands may be some turns of the loop later.

Source: Kafka, GroupCoordinator.scala (completeAndScheduleNextHeartbeatExpiration,
resetAndPropagateAssignmentError, propagateAssignment).
"""

from collections.abc import Callable
from functools import partial

from penstock.coordinator.portions import TO_TELL, Steps
from penstock.groups.classic.group import Group, GroupState
from penstock.groups.classic.member import Member
from penstock.groups.context import Context
from penstock.groups.deadlines import DeadlineKey, DeadlineKind
from penstock.groups.messages import JoinReply, SyncCallback, SyncReply
from penstock.protocol.error_codes import ErrorCode


class Answering:
    """Answers members of groups, and keeps their sessions."""

    __slots__ = ("_context",)

    def __init__(self, context: Context) -> None:
        self._context = context

    def keep_alive(self, group: Group, member: Member) -> None:
        """Restart the member's session, or suspend it while a request of it is parked."""
        key = DeadlineKey(DeadlineKind.SESSION, group.group_id, member.member_id)
        if member.is_new:
            timeout_ms = self._context.config.new_member_join_timeout_ms
        elif member.awaits_join or member.awaits_sync:
            self._context.deadlines.cancel(key)
            return
        else:
            timeout_ms = member.session_timeout_ms
        self._context.deadlines.set(key, self._context.clock.monotonic_ms() + timeout_ms)

    def fail_syncs(self, group: Group, error: ErrorCode) -> None:
        """Answer every parked sync with an error; assignments of this generation are void."""
        group.assign({})
        self.answer_syncs(group, partial(SyncReply, error=error))

    def answer_syncs(self, group: Group, answer: Callable[..., SyncReply]) -> None:
        """Answer every parked sync with the member's assignment.

        The answers are fixed here, even those sent in a later iteration of the loop: by then the
        group may have moved on, and parked syncs may be of another generation.
        """
        parked = [
            (member, reply, member.assignment)
            for member in group.members.values()
            if (reply := member.take_sync()) is not None
        ]
        self._context.portions.begin(self._tell_synced(group, parked, answer))

    def _tell_synced(
        self,
        group: Group,
        parked: list[tuple[Member, SyncCallback, bytes]],
        answer: Callable[..., SyncReply],
    ) -> Steps:
        for member, reply, assignment in parked:
            reply(answer(assignment=assignment))
            self.keep_alive_if_there(group, member)
            yield TO_TELL

    def keep_alive_if_there(self, group: Group, member: Member) -> None:
        """Restart the session of a member that was answered, unless it has left meanwhile."""
        if group.state is not GroupState.DEAD and group.members.get(member.member_id) is member:
            self.keep_alive(group, member)

    def answer_join(self, group: Group, member: Member, answer: JoinReply) -> bool:
        """Answer a member's parked join, if there is one."""
        group.joined.pop(member.member_id, None)
        return member.answer_join(answer)
