"""DescribeGroups 0-6: members, metadata and assignments of groups.

An unknown group is state Dead without an error; version 6 adds GROUP_ID_NOT_FOUND.

Source: Kafka, KafkaApis.handleDescribeGroupsRequest; KIP-1043 for version 6.
"""

from collections.abc import Mapping
from typing import Any

from penstock.broker.access import Operation, Resource
from penstock.broker.turns import SLICE, Pace
from penstock.groups.classic.roll import TOLD_AT_ONCE
from penstock.groups.messages import GroupDescription, MemberDescription
from penstock.kafka.answers.authorized_operations import NOT_ASKED_FOR, operations_for
from penstock.kafka.context import RequestContext
from penstock.kafka.gate import told_group_error
from penstock.kafka.request import Reply, Request
from penstock.protocol.api_keys import ApiKey
from penstock.protocol.error_codes import ErrorCode

KEY = ApiKey.DESCRIBE_GROUPS
VERSIONS = range(7)
SLICED_BY = (("groups",),)
Fields = dict[str, object]


def handle(context: RequestContext, request: Request, reply: Reply) -> None:
    """Answer at once, each group once, as an answer is much longer than its request."""
    found = [_describe(context, group_id) for group_id in _once(request)]
    reply({"groups": [_fields(context, request, group) for group in found]})


def is_much(context: RequestContext, body: Any) -> bool:
    """Whether the groups have more members than one loop iteration may encode."""
    count = context.broker.groups.reading.member_count
    return sum(map(count, dict.fromkeys(body.groups))) > TOLD_AT_ONCE


async def handle_much(context: RequestContext, request: Request) -> Mapping[str, object]:
    """Describe each group in an iteration of its own, and its members in slices."""
    pace = Pace(request.turns)
    told: list[Fields] = []
    for group_id in _once(request):
        await pace.step(SLICE)
        group = _describe(context, group_id)
        members: list[Fields] = []
        for at in range(0, len(group.members), SLICE):
            await pace.step(SLICE)
            members += map(_member, group.members[at : at + SLICE])
        told.append(_fields(context, request, group, members))
    return {"groups": told}


def _once(request: Request) -> list[str]:
    return [group_id for group_id in request.body.groups if request.is_first(group_id)]


def _describe(context: RequestContext, group_id: str) -> GroupDescription:
    if error := told_group_error(context, group_id, Operation.DESCRIBE):
        return GroupDescription(error=error, group_id=group_id)
    return context.broker.groups.reading.describe(group_id)


def _fields(
    context: RequestContext,
    request: Request,
    group: GroupDescription,
    members: list[Fields] | None = None,
) -> Fields:
    error, message, operations = group.error, None, NOT_ASKED_FOR
    if error is not ErrorCode.GROUP_AUTHORIZATION_FAILED:
        operations = operations_for(context, request.body, Resource.GROUP, group.group_id)
    if error is ErrorCode.GROUP_ID_NOT_FOUND:
        message = f"Group {group.group_id} not found."
        error = error if request.api_version >= 6 else ErrorCode.NONE
    return {
        "error_code": error,
        "error_message": message,
        "group_id": group.group_id,
        "group_state": group.state,
        "protocol_type": group.protocol_type,
        "protocol_data": group.protocol_name,
        "authorized_operations": operations,
        "members": [*map(_member, group.members)] if members is None else members,
    }


def _member(member: MemberDescription) -> Fields:
    return {
        "member_id": member.member_id,
        "group_instance_id": member.instance_id,
        "client_id": member.client_id,
        "client_host": member.client_host,
        "member_metadata": member.metadata,
        "member_assignment": member.assignment,
    }
