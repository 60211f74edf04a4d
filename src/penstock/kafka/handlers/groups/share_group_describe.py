"""ShareGroupDescribe 1 (key 77): epochs, members and assignments of share groups.

A group of another kind, or none, is GROUP_ID_NOT_FOUND. A group whose members have a topic that the
client may not describe is refused as a whole.

Source: Kafka, KafkaApis.handleShareGroupDescribe; KIP-932.
"""

from collections.abc import Mapping
from functools import partial

from penstock.assignors.partitions import count_of
from penstock.broker.access import Operation, Resource
from penstock.broker.errors import NotAuthorised
from penstock.broker.turns import Pace
from penstock.groups.share.messages import ShareGroupDescription, ShareMemberDescription
from penstock.kafka.answers.assigned_groups import Fields, each_group, group_fields
from penstock.kafka.answers.authorized_operations import NOT_ASKED_FOR, operations_for
from penstock.kafka.context import RequestContext
from penstock.kafka.error_map import error_code_of
from penstock.kafka.gate import told_group_error
from penstock.kafka.handlers.groups.consumer_group_describe import named_partitions
from penstock.kafka.request import Request
from penstock.protocol.api_keys import ApiKey

KEY = ApiKey.SHARE_GROUP_DESCRIBE
VERSIONS = range(1, 2)
SLICED_BY = (("group_ids",),)
IS_LONG = True


async def handle(context: RequestContext, request: Request) -> Mapping[str, object]:
    """Answer with each group once, its members in slices."""
    return await each_group(request, partial(_told, context, request))


async def _told(context: RequestContext, request: Request, group_id: str, pace: Pace) -> Fields:
    if error := told_group_error(context, group_id, Operation.DESCRIBE):
        return _group(ShareGroupDescription(error=error, group_id=group_id), NOT_ASKED_FOR, [])
    operations = operations_for(context, request.body, Resource.GROUP, group_id)
    found = context.broker.groups.shares.describe(group_id)
    members: list[Fields] = []
    try:
        for member in found.members:
            members.append(_member(context, member))
            await pace.step(1 + count_of(member.assigned))
    except NotAuthorised as refused:
        error = error_code_of(refused)
        return _group(ShareGroupDescription(error=error, group_id=group_id), operations, [])
    return _group(found, operations, members)


def _group(group: ShareGroupDescription, operations: int, members: list[Fields]) -> Fields:
    return {**group_fields(group, operations, members), "assignor_name": group.assignor}


def _member(context: RequestContext, member: ShareMemberDescription) -> Fields:
    return {
        "member_id": member.member_id,
        "rack_id": member.rack_id,
        "member_epoch": member.member_epoch,
        "client_id": member.client_id,
        "client_host": member.client_host,
        "subscribed_topic_names": member.topics,
        "assignment": {"topic_partitions": named_partitions(context, member.assigned)},
    }
