"""A classic group ends here: its partition moves away, or it becomes a group of another kind.

Source: Kafka, GroupCoordinator.scala (onGroupUnloaded); ClassicGroup.completeAllJoinFutures.
"""

from collections.abc import Container

from penstock.coordinator.portions import TO_TELL, Steps
from penstock.groups.classic.group import Group
from penstock.groups.context import Context
from penstock.groups.deadlines import DeadlineKey, DeadlineKind
from penstock.groups.messages import JoinReply, SyncReply
from penstock.protocol.error_codes import ErrorCode

MEMBERS_TOGETHER = 4
"""Members whose sessions begin or end per unit of cost (portions.py)."""


def let_go(
    context: Context, group: Group, refused: ErrorCode, *, stay: Container[str] = ()
) -> Steps:
    """Answer parked requests, and cancel deadlines; the sessions of those that `stay` go on."""

    def cancel(kind: DeadlineKind, member_id: str = "") -> None:
        context.deadlines.cancel(DeadlineKey(kind, group.group_id, member_id))

    cancel(DeadlineKind.JOIN)
    cancel(DeadlineKind.SYNC)
    for number, member in enumerate([*group.members.values()]):
        context.newcomers.pop(member, None)
        was_told = member.answer_join(JoinReply(error=refused, member_id=member.member_id))
        was_told |= member.answer_sync(SyncReply(error=refused))
        if member.member_id not in stay:
            cancel(DeadlineKind.SESSION, member.member_id)
        if was_told or number % MEMBERS_TOGETHER == 0:
            yield TO_TELL if was_told else 1
    for number, member_id in enumerate([*group.pending]):
        cancel(DeadlineKind.PENDING_MEMBER, member_id)
        if number % MEMBERS_TOGETHER == 0:
            yield 1
