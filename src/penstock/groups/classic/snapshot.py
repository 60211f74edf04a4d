"""From a live group to its metadata record, and back after a restart.

The record is written when an assignment is complete, so a loaded group with members is stable:
its members go on with their heartbeats and do not notice the restart. Of a member's protocols only
the elected one is in the record, as in Kafka.

Source: Kafka, GroupCoordinatorRecordHelpers.newGroupMetadataRecord and
GroupMetadata.loadGroup.
"""

from collections.abc import Iterator, Mapping

from penstock.coordinator.portions import Steps
from penstock.groups.classic.group import Group, GroupState
from penstock.groups.classic.member import Member
from penstock.groups.messages import OfferedProtocol
from penstock.groups.records import (
    GroupRecord,
    MemberRecord,
    encode_group_head,
    encode_member,
)

MEMBERS_READ = 2
"""Members read from a record per unit of cost (portions.py)."""


def record_parts(group: Group, assignments: Mapping[str, bytes]) -> Iterator[bytes]:
    """Yield a group's record with these assignments: its head, then one part for each member.

    Members left out get an empty assignment. The group must not change before the last part.
    """
    head = GroupRecord(
        protocol_type=group.protocol_type or "",
        generation=group.generation,
        protocol_name=group.protocol_name,
        leader_id=group.leader_id,
        state_timestamp_ms=group.state_since_ms,
        members=(),
    )
    yield encode_group_head(head, len(group.members))
    for member in [*group.members.values()]:
        yield encode_member(
            MemberRecord(
                member_id=member.member_id,
                instance_id=member.instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
                rebalance_timeout_ms=member.rebalance_timeout_ms,
                session_timeout_ms=member.session_timeout_ms,
                subscription=member.metadata_for(group.protocol_name),
                assignment=assignments.get(member.member_id, b""),
            )
        )


def restore_group(group: Group, record: GroupRecord, members: Iterator[MemberRecord]) -> Steps:
    """Fill a new group from its last record, whose members come one by one.

    If `members` raises, the group is incomplete and must be discarded.
    """
    assert group.state is GroupState.EMPTY, group.state
    group.generation = record.generation
    group.protocol_type = record.protocol_type or None
    group.state_since_ms = max(record.state_timestamp_ms, 0)
    for number, entry in enumerate(members):
        group.protocol_name = record.protocol_name or ""
        is_known = entry.member_id in group.members or entry.instance_id in group.static_members
        if not is_known:
            group.add(_restore_member(entry, record.protocol_name or ""), record.protocol_type)
        if number % MEMBERS_READ == 0:
            yield 1
    if not group.members:
        return
    if record.leader_id is None or record.leader_id in group.members:
        group.leader_id = record.leader_id
    group.state = GroupState.STABLE


def _restore_member(entry: MemberRecord, protocol_name: str) -> Member:
    return Member(
        member_id=entry.member_id,
        instance_id=entry.instance_id,
        client_id=entry.client_id,
        client_host=entry.client_host,
        session_timeout_ms=entry.session_timeout_ms,
        rebalance_timeout_ms=entry.rebalance_timeout_ms,
        protocols=(OfferedProtocol(protocol_name, entry.subscription),),
        assignment=entry.assignment,
    )
