"""DescribeGroups 0-6: members, metadata and assignments of groups.

An unknown group is state Dead without an error; version 6 says GROUP_ID_NOT_FOUND as well.

Source: Kafka, KafkaApis.handleDescribeGroupsRequest; KIP-1043 for version 6.
"""

from penstock.broker.broker import Broker
from penstock.broker.groups.lease import knows_group
from penstock.groups.messages import GroupDescription
from penstock.kafka.answers.authorized_operations import NOT_ASKED_FOR, ON_GROUP
from penstock.kafka.front import KafkaFront
from penstock.kafka.request import Reply, Request
from penstock.protocol.api_keys import ApiKey
from penstock.protocol.error_codes import ErrorCode

KEY = ApiKey.DESCRIBE_GROUPS
VERSIONS = range(7)
SLICED_BY = (("groups",),)


def handle(front: KafkaFront, request: Request, reply: Reply) -> None:
    """Answer at once, each group once: an answer is much longer than its request."""
    body = request.body
    is_asked = getattr(body, "include_authorized_operations", False)
    operations = ON_GROUP if is_asked else NOT_ASKED_FOR
    found = [
        _describe(front.broker, group_id) for group_id in body.groups if request.is_first(group_id)
    ]
    reply({"groups": [_fields(group, request.api_version, operations) for group in found]})


def _describe(broker: Broker, group_id: str) -> GroupDescription:
    if not knows_group(broker, group_id):
        return GroupDescription(error=ErrorCode.NOT_COORDINATOR, group_id=group_id)
    return broker.groups.describe(group_id)


def _fields(group: GroupDescription, version: int, operations: int) -> dict[str, object]:
    error, message = group.error, None
    if error is ErrorCode.GROUP_ID_NOT_FOUND:
        message = f"Group {group.group_id} not found."
        error = error if version >= 6 else ErrorCode.NONE
    return {
        "error_code": error,
        "error_message": message,
        "group_id": group.group_id,
        "group_state": group.state,
        "protocol_type": group.protocol_type,
        "protocol_data": group.protocol_name,
        "authorized_operations": operations,
        "members": [
            {
                "member_id": member.member_id,
                "group_instance_id": member.instance_id,
                "client_id": member.client_id,
                "client_host": member.client_host,
                "member_metadata": member.metadata,
                "member_assignment": member.assignment,
            }
            for member in group.members
        ],
    }
