"""SyncGroup 0-5: the leader sends the assignment, every member receives its part.

Version 3 adds static members, 5 checks the protocol type and name (KIP-559).
"""

from penstock.broker.access import Operation
from penstock.groups.messages import SyncGroup, SyncReply
from penstock.kafka.context import RequestContext
from penstock.kafka.gate import group_error
from penstock.kafka.request import Reply, Request
from penstock.protocol.api_keys import ApiKey
from penstock.protocol.error_codes import ErrorCode

KEY = ApiKey.SYNC_GROUP
VERSIONS = range(6)


def handle(context: RequestContext, request: Request, reply: Reply) -> None:
    """Pass the sync to the coordinator, which answers when the assignment is durable."""
    body = request.body
    if error := group_error(context, body.group_id, Operation.READ):
        reply({"error_code": error, "assignment": b""})
        return
    if len(body.assignments) > context.broker.groups.config.group_size_max:
        reply({"error_code": ErrorCode.INVALID_REQUEST, "assignment": b""})
        return
    sync = SyncGroup(
        group_id=body.group_id,
        generation=body.generation_id,
        member_id=body.member_id,
        instance_id=getattr(body, "group_instance_id", None),
        protocol_type=getattr(body, "protocol_type", None),
        protocol_name=getattr(body, "protocol_name", None),
        assignments={each.member_id: bytes(each.assignment) for each in body.assignments},
    )

    def answer(result: SyncReply) -> None:
        reply(
            {
                "error_code": result.error,
                "protocol_type": result.protocol_type,
                "protocol_name": result.protocol_name,
                "assignment": result.assignment,
            }
        )

    context.broker.groups.sync(sync, answer)
