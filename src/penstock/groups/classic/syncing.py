"""SyncGroup and Heartbeat: handing out assignments, and keeping members alive.

The leader's assignment is journaled first and handed out when it is durable: a member never works
on partitions that a restarted coordinator would not know of. If the group moves on while the write
is under way (a member joins), the result of the write is ignored.

Source: Kafka, GroupCoordinator.scala (doSyncGroup, handleHeartbeat); KIP-559 (protocol type and
name in SyncGroup 5). Departure: a leader that repeats its sync while its first assignment is being
written does not replace it; otherwise the journal could keep another assignment than was handed
out.
"""

import logging
from collections.abc import Callable
from functools import partial

from penstock.groups.classic.group import Group, GroupState
from penstock.groups.classic.membership import membership_error
from penstock.groups.classic.rebalance import Rebalances
from penstock.groups.classic.snapshot import record_parts
from penstock.groups.context import Context
from penstock.groups.deadlines import DeadlineKey, DeadlineKind
from penstock.groups.messages import Heartbeat, SyncCallback, SyncGroup, SyncReply
from penstock.protocol.error_codes import ErrorCode

_log = logging.getLogger("penstock.groups")


class Syncing:
    """Hands out assignments."""

    __slots__ = ("_answering", "_context", "_rebalances")

    def __init__(self, context: Context, rebalances: Rebalances) -> None:
        self._context = context
        self._rebalances = rebalances
        self._answering = rebalances.answering

    def heartbeat(self, group: Group, request: Heartbeat) -> ErrorCode:
        """Keep a member alive, and tell it when a rebalance needs it."""
        error = membership_error(group, request.member_id, request.instance_id, request.generation)
        if error is not None:
            return error
        self._answering.keep_alive(group, group.members[request.member_id])
        if group.state is GroupState.PREPARING:
            return ErrorCode.REBALANCE_IN_PROGRESS
        return ErrorCode.NONE

    def sync(self, group: Group, request: SyncGroup, reply: SyncCallback) -> None:
        """Answer a sync, now or when the assignment is durable."""
        error = self._refusal(group, request)
        if error is not None:
            reply(SyncReply(error=error))
            return
        member = group.members[request.member_id]
        group.awaiting_sync.pop(request.member_id, None)
        if not group.awaiting_sync:
            self._context.deadlines.cancel(DeadlineKey(DeadlineKind.SYNC, group.group_id))
        if group.state is GroupState.STABLE:
            self._answering.keep_alive(group, member)
            reply(_assigned(group)(assignment=member.assignment))
            return
        member.park_sync(reply)
        self._answering.keep_alive(group, member)
        if request.member_id == group.leader_id and not group.is_assignment_in_flight:
            self._journal_assignment(group, request)

    @staticmethod
    def _refusal(group: Group, request: SyncGroup) -> ErrorCode | None:
        error = membership_error(group, request.member_id, request.instance_id, request.generation)
        if error is not None:
            return error
        for theirs, ours in (
            (request.protocol_type, group.protocol_type),
            (request.protocol_name, group.protocol_name),
        ):
            if theirs is not None and theirs != ours:
                return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        if group.state is GroupState.PREPARING:
            return ErrorCode.REBALANCE_IN_PROGRESS
        return None

    def _journal_assignment(self, group: Group, request: SyncGroup) -> None:
        """Write the leader's assignment; members it left out get an empty one."""
        generation = group.generation
        assignments = {
            member_id: request.assignments.get(member_id, b"") for member_id in group.members
        }
        group.is_assignment_in_flight = True

        def done(error: ErrorCode | None) -> None:
            if group.state is not GroupState.COMPLETING or group.generation != generation:
                return
            group.is_assignment_in_flight = False
            if error is None:
                self._hand_out(group, assignments)
            else:
                _log.warning(
                    "group=%s generation=%d assignment not journaled: %s",
                    group.group_id,
                    generation,
                    error.name,
                )
                self._answering.fail_syncs(group, error)
                self._rebalances.prepare(group, "assignment could not be journaled")

        def is_over() -> bool:
            return group.state is not GroupState.COMPLETING or group.generation != generation

        parts = record_parts(group, assignments)
        steps = self._context.writer.group_steps(group, parts, done, is_over=is_over)
        self._context.portions.begin(steps)

    def _hand_out(self, group: Group, assignments: dict[str, bytes]) -> None:
        assert assignments.keys() == group.members.keys(), "members changed within a generation"
        group.transition(GroupState.STABLE, self._context.clock.wall_ms())
        group.assign(assignments)
        self._answering.answer_syncs(group, _assigned(group))


def _assigned(group: Group) -> Callable[..., SyncReply]:
    return partial(
        SyncReply,
        error=ErrorCode.NONE,
        protocol_type=group.protocol_type,
        protocol_name=group.protocol_name,
    )
