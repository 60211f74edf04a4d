"""LeaveGroup: members leave, or are removed by an operator.

Source: Kafka, GroupCoordinator.scala (handleLeaveGroup); KIP-345 for batches and for removal by
instance id alone.
"""

from penstock.groups.classic.group import Group, GroupState
from penstock.groups.classic.membership import is_fenced
from penstock.groups.classic.rebalance import Rebalances
from penstock.groups.messages import NO_MEMBER_ID, LeaveReply, LeftMember, MemberIdentity
from penstock.protocol.error_codes import ErrorCode


def leave(
    rebalances: Rebalances, group: Group, identities: tuple[MemberIdentity, ...]
) -> LeaveReply:
    """Remove the given members, one after the other, and return the outcome for each."""
    if group.state is GroupState.DEAD:
        return LeaveReply(error=ErrorCode.COORDINATOR_NOT_AVAILABLE)
    left = tuple(
        LeftMember(identity, _leave_one(rebalances, group, identity)) for identity in identities
    )
    return LeaveReply(error=ErrorCode.NONE, members=left)


def _leave_one(rebalances: Rebalances, group: Group, identity: MemberIdentity) -> ErrorCode:
    member_id, instance_id, reason = identity
    if member_id != NO_MEMBER_ID and is_fenced(group, member_id, instance_id):
        return ErrorCode.FENCED_INSTANCE_ID
    if member_id in group.pending and instance_id is None:
        rebalances.remove_pending(group, member_id)
        return ErrorCode.NONE
    if instance_id is not None:
        member_id = group.static_members.get(instance_id, NO_MEMBER_ID)
    member = group.members.get(member_id)
    if member is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    rebalances.remove(group, member, f"left: {reason or 'no reason given'}")
    return ErrorCode.NONE
