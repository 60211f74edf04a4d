"""Whether a request may act for a member.

Source: Kafka, GroupMetadata.validateMember (the order of the checks); KIP-345 for static members,
whose former ids are fenced.
"""

from penstock.groups.classic.group import Group, GroupState
from penstock.protocol.error_codes import ErrorCode


def membership_error(
    group: Group, member_id: str, instance_id: str | None, generation: int
) -> ErrorCode | None:
    """Return why a request may not act for a member of this generation, or None."""
    if group.state is GroupState.DEAD:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    if is_fenced(group, member_id, instance_id):
        return ErrorCode.FENCED_INSTANCE_ID
    member = group.members.get(member_id)
    if member is None or (instance_id is not None and member.instance_id != instance_id):
        return ErrorCode.UNKNOWN_MEMBER_ID
    if generation != group.generation:
        return ErrorCode.ILLEGAL_GENERATION
    return None


def is_fenced(group: Group, member_id: str, instance_id: str | None) -> bool:
    """Return whether the instance id belongs to another member id by now."""
    owner = group.static_members.get(instance_id) if instance_id is not None else None
    return owner is not None and owner != member_id
