"""ConsumerGroupDescribe: a consumer group as administrators see it. Reads only.

Source: Kafka, ConsumerGroup.asDescribedGroup.
"""

from collections.abc import Iterable, Iterator

from penstock.assignors.partitions import NOTHING
from penstock.groups.assigned.currents import NEW
from penstock.groups.assigned.targets import Target
from penstock.groups.consumer.group import ConsumerGroup
from penstock.groups.consumer.messages import ConsumerGroupDescription, ConsumerMemberDescription
from penstock.groups.consumer.retarget import chosen_assignor
from penstock.protocol.error_codes import ErrorCode


def describe(group: ConsumerGroup) -> ConsumerGroupDescription:
    """Return a group with what each member has and is to have."""
    return ConsumerGroupDescription(
        error=ErrorCode.NONE,
        group_id=group.group_id,
        state=group.state.value,
        epoch=group.epoch,
        target_epoch=group.target_epoch,
        assignor=chosen_assignor(group),
        members=_members(group, [*group.facts]),
    )


def _members(
    group: ConsumerGroup, member_ids: Iterable[str]
) -> Iterator[ConsumerMemberDescription]:
    """Yield the members that are there when they are reached: there may be thousands."""
    return (_member(group, member_id) for member_id in member_ids if member_id in group.facts)


def _member(group: ConsumerGroup, member_id: str) -> ConsumerMemberDescription:
    facts, current = group.facts[member_id], group.currents.get(member_id, NEW)
    return ConsumerMemberDescription(
        member_id=member_id,
        instance_id=facts.instance_id,
        rack_id=facts.rack_id,
        member_epoch=current.epoch,
        client_id=facts.client_id,
        client_host=facts.client_host,
        topics=facts.topics,
        regex=facts.regex,
        is_classic=facts.classic is not None,
        assigned=current.assigned,
        target=group.targets.get(member_id, Target(NOTHING)).partitions,
    )
