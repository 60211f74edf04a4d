"""ShareGroupDescribe: a share group as administrators see it. Reads only.

Source: Kafka, ShareGroup.asDescribedGroup.
"""

from collections.abc import Iterable, Iterator

from penstock.assignors.partitions import NOTHING
from penstock.assignors.share import NAME
from penstock.groups.assigned.messages import JOIN_EPOCH
from penstock.groups.share.group import ShareGroup
from penstock.groups.share.messages import ShareGroupDescription, ShareMemberDescription
from penstock.groups.share.records import ShareCurrent
from penstock.protocol.error_codes import ErrorCode

_NEW = ShareCurrent(JOIN_EPOCH, JOIN_EPOCH, NOTHING)


def describe(group: ShareGroup) -> ShareGroupDescription:
    """Return a group with what each member was told that it has."""
    return ShareGroupDescription(
        error=ErrorCode.NONE,
        group_id=group.group_id,
        state=group.state.value,
        epoch=group.epoch,
        target_epoch=group.target_epoch,
        assignor=NAME,
        members=_members(group, group.member_ids),
    )


def _members(group: ShareGroup, member_ids: Iterable[str]) -> Iterator[ShareMemberDescription]:
    """Yield the members that are there when they are reached."""
    return (_member(group, member_id) for member_id in member_ids if member_id in group.facts)


def _member(group: ShareGroup, member_id: str) -> ShareMemberDescription:
    facts, current = group.facts[member_id], group.currents.get(member_id, _NEW)
    return ShareMemberDescription(
        member_id=member_id,
        rack_id=facts.rack_id,
        member_epoch=current.epoch,
        client_id=facts.client_id,
        client_host=facts.client_host,
        topics=facts.topics,
        assigned=current.assigned,
    )
