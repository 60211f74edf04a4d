"""DescribeGroups: a classic group as administrators see it. Reads only.

Source: Kafka, GroupMetadata.summary.
"""

from penstock.groups.classic.group import Group, GroupState
from penstock.groups.classic.member import Member
from penstock.groups.messages import GroupDescription, MemberDescription
from penstock.protocol.error_codes import ErrorCode


def describe(group: Group) -> GroupDescription:
    """Return a group's members; metadata and assignments only when it is stable."""
    is_stable = group.state is GroupState.STABLE
    return GroupDescription(
        error=ErrorCode.NONE,
        group_id=group.group_id,
        state=group.state.value,
        protocol_type=group.protocol_type or "",
        protocol_name=(group.protocol_name or "") if is_stable else "",
        members=tuple(
            _describe_member(member, group.protocol_name if is_stable else None)
            for member in group.members.values()
        ),
    )


def _describe_member(member: Member, protocol_name: str | None) -> MemberDescription:
    return MemberDescription(
        member_id=member.member_id,
        instance_id=member.instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        metadata=b"" if protocol_name is None else member.metadata_for(protocol_name),
        assignment=b"" if protocol_name is None else member.assignment,
    )
