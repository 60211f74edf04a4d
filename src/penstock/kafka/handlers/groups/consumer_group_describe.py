"""ConsumerGroupDescribe 0-1 (key 69): epochs, members and assignments of consumer groups.

A group of another kind, or none, is GROUP_ID_NOT_FOUND; tools then ask by DescribeGroups. A group
whose members have a topic that the client may not describe is refused as a whole.

Source: Kafka, KafkaApis.handleConsumerGroupDescribe; KIP-848, KIP-1043.
"""

from collections.abc import Mapping
from functools import partial
from typing import Any
from uuid import UUID

from penstock.assignors.partitions import Partitions
from penstock.base.errors import PlatformError
from penstock.broker.access import Operation, Resource
from penstock.broker.errors import NotAuthorised
from penstock.broker.turns import Pace
from penstock.groups.consumer.messages import ConsumerGroupDescription, ConsumerMemberDescription
from penstock.kafka.answers.assigned_groups import Fields, each_group, group_fields
from penstock.kafka.answers.authorized_operations import NOT_ASKED_FOR, operations_for
from penstock.kafka.context import RequestContext
from penstock.kafka.error_map import error_code_of
from penstock.kafka.gate import told_group_error, topic_with_id
from penstock.kafka.request import Request
from penstock.protocol.api_keys import ApiKey

KEY = ApiKey.CONSUMER_GROUP_DESCRIBE
VERSIONS = range(2)
SLICED_BY = (("group_ids",),)
IS_LONG = True
CLASSIC_MEMBER, CONSUMER_MEMBER = 0, 1


async def handle(context: RequestContext, request: Request) -> Mapping[str, object]:
    """Answer with each group once, its members in slices."""
    return await each_group(request, partial(_told, context, request))


async def _told(context: RequestContext, request: Request, group_id: str, pace: Pace) -> Fields:
    if error := told_group_error(context, group_id, Operation.DESCRIBE):
        return _group(ConsumerGroupDescription(error=error, group_id=group_id), NOT_ASKED_FOR, [])
    operations = operations_for(context, request.body, Resource.GROUP, group_id)
    found = context.broker.groups.consumers.describe(group_id)
    members: list[Fields] = []
    try:
        for member in found.members:
            members.append(_member(context, member))
            await pace.step(1 + sum(map(len, member.assigned.values())))
    except NotAuthorised as refused:
        error = error_code_of(refused)
        return _group(ConsumerGroupDescription(error=error, group_id=group_id), operations, [])
    return _group(found, operations, members)


def _group(group: ConsumerGroupDescription, operations: int, members: list[Fields]) -> Fields:
    return {**group_fields(group, operations, members), "assignor_name": group.assignor}


def _member(context: RequestContext, member: ConsumerMemberDescription) -> Fields:
    return {
        "member_id": member.member_id,
        "instance_id": member.instance_id,
        "rack_id": member.rack_id,
        "member_epoch": member.member_epoch,
        "client_id": member.client_id,
        "client_host": member.client_host,
        "subscribed_topic_names": member.topics,
        "subscribed_topic_regex": member.regex,
        "assignment": {"topic_partitions": named_partitions(context, member.assigned)},
        "target_assignment": {"topic_partitions": named_partitions(context, member.target)},
        "member_type": CLASSIC_MEMBER if member.is_classic else CONSUMER_MEMBER,
    }


def named_partitions(context: RequestContext, partitions: Partitions) -> list[dict[str, Any]]:
    """Return partitions with the names of their topics; deleted topics are left out."""
    told: list[dict[str, Any]] = []
    for topic_id, numbers in partitions.items():
        try:
            topic = topic_with_id(context, topic_id, Operation.DESCRIBE)
        except NotAuthorised:
            raise
        except PlatformError:
            continue
        told.append(
            {
                "topic_id": UUID(bytes=topic_id),
                "topic_name": topic.name,
                "partitions": sorted(numbers),
            }
        )
    return told
