"""StreamsGroupDescribe: a streams group as administrators see it. Reads only.

Source: Kafka, StreamsGroup.asDescribedGroup.
"""

from collections.abc import Iterable, Iterator

from penstock.assignors.partitions import NOTHING
from penstock.groups.assigned.currents import NEW
from penstock.groups.assigned.targets import Target
from penstock.groups.streams.group import StreamsGroup
from penstock.groups.streams.messages import StreamsGroupDescription, StreamsMemberDescription
from penstock.protocol.error_codes import ErrorCode


def describe(group: StreamsGroup) -> StreamsGroupDescription:
    """Return a group with what each member has and is to have."""
    configured = group.configured
    is_ready = configured is not None and bool(configured.subtopologies)
    return StreamsGroupDescription(
        error=ErrorCode.NONE,
        group_id=group.group_id,
        state=group.state.value,
        epoch=group.epoch,
        target_epoch=group.target_epoch,
        topology=group.tables.topology,
        configured=configured if is_ready else None,
        members=_members(group, [*group.facts]),
    )


def _members(group: StreamsGroup, member_ids: Iterable[str]) -> Iterator[StreamsMemberDescription]:
    """Yield the members that are there when they are reached."""
    return (_member(group, member_id) for member_id in member_ids if member_id in group.facts)


def _member(group: StreamsGroup, member_id: str) -> StreamsMemberDescription:
    facts, current = group.facts[member_id], group.currents.get(member_id, NEW)
    return StreamsMemberDescription(
        member_id=member_id,
        member_epoch=current.epoch,
        instance_id=facts.instance_id,
        rack_id=facts.rack_id,
        client_id=facts.client_id,
        client_host=facts.client_host,
        topology_epoch=facts.topology_epoch,
        process_id=facts.process_id,
        endpoint=facts.endpoint,
        tags=facts.tags,
        assigned=current.assigned,
        target=group.targets.get(member_id, Target(NOTHING)).partitions,
    )
