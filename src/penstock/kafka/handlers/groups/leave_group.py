"""LeaveGroup 0-5: members leave, or an operator removes them.

Before version 3 one member leaves, and its error is that of the answer; later versions have a list
of members with an error for each. Version 5 adds a reason for the log.
"""

from penstock.broker.access import Operation
from penstock.groups.messages import MemberIdentity
from penstock.kafka.context import RequestContext
from penstock.kafka.gate import group_error
from penstock.kafka.request import Reply, Request
from penstock.protocol.api_keys import ApiKey
from penstock.protocol.error_codes import ErrorCode

KEY = ApiKey.LEAVE_GROUP
VERSIONS = range(6)
SLICED_BY = (("members",),)


def handle(context: RequestContext, request: Request, reply: Reply) -> None:
    """Answer at once."""
    body = request.body
    if error := group_error(context, body.group_id, Operation.READ):
        reply({"error_code": error, "members": []})
        return
    identities: tuple[MemberIdentity, ...]
    if request.api_version < 3:
        identities = (MemberIdentity(body.member_id),)
    else:
        identities = tuple(
            MemberIdentity(
                each.member_id, each.group_instance_id, getattr(each, "reason", None) or ""
            )
            for each in body.members
        )
    result = context.broker.groups.leave(body.group_id, identities)
    error = result.error
    if request.api_version < 3 and error is ErrorCode.NONE:
        error = result.members[0].error
    reply(
        {
            "error_code": error,
            "members": [
                {
                    "member_id": left.identity.member_id,
                    "group_instance_id": left.identity.instance_id,
                    "error_code": left.error,
                }
                for left in result.members
            ],
        }
    )
