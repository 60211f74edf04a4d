"""JoinGroup 0-9: join a group, or rejoin it. Answered when the rebalance completes.

Version 0 has no rebalance timeout (the session timeout counts), 4 requires a member id (KIP-394), 5
adds static members, 7 the protocol type, 9 lets a returning leader skip the assignment. Versions 0
and 1 are kept: older librdkafka checks for them before it uses groups at all.
"""

from functools import partial
from typing import Any

from penstock.broker.access import Operation
from penstock.broker.turns import Pace
from penstock.groups.classic.roll import TOLD_AT_ONCE
from penstock.groups.messages import JoinedMember, JoinGroup, JoinReply, OfferedProtocol
from penstock.kafka.context import RequestContext
from penstock.kafka.gate import group_error
from penstock.kafka.request import Reply, Request
from penstock.protocol.api_keys import ApiKey
from penstock.protocol.error_codes import ErrorCode

KEY = ApiKey.JOIN_GROUP
VERSIONS = range(10)
PROTOCOLS_MAX = 1_000
"""Most protocols of a member: clients offer a handful, and each is kept as long as the member."""

Fields = dict[str, Any]


def handle(context: RequestContext, request: Request, reply: Reply) -> None:
    """Pass the join to the coordinator, which answers through `reply`."""
    body, version = request.body, request.api_version
    if error := group_error(context, body.group_id, Operation.READ):
        reply(_fields(version, JoinReply(error=error), []))
        return
    if len(body.protocols) > PROTOCOLS_MAX:
        reply({"error_code": ErrorCode.INCONSISTENT_GROUP_PROTOCOL, "members": ()})
        return
    rebalance_timeout = body.session_timeout if version < 1 else body.rebalance_timeout
    # Only the connection is kept with the member, not the bytes of the request.
    connection = request.connection
    join = JoinGroup(
        group_id=body.group_id,
        member_id=body.member_id,
        instance_id=getattr(body, "group_instance_id", None),
        client_id=context.client_id or "",
        client_host=context.host,
        session_timeout_ms=round(body.session_timeout.total_seconds() * 1_000),
        rebalance_timeout_ms=max(0, round(rebalance_timeout.total_seconds() * 1_000)),
        protocol_type=body.protocol_type,
        protocols=tuple(
            OfferedProtocol(protocol.name, bytes(protocol.metadata)) for protocol in body.protocols
        ),
        member_id_required=version >= 4,
        can_skip_assignment=version >= 9,
        reason=getattr(body, "reason", None) or "",
        is_gone=lambda: connection.is_closed,
    )
    context.broker.groups.join(join, partial(_answer, context, reply, version))


def _answer(context: RequestContext, reply: Reply, version: int, answer: JoinReply) -> None:
    if len(answer.members) > TOLD_AT_ONCE:
        context.front.tell_long(reply, partial(_fields_of_many, version, answer))
    else:
        reply(_fields(version, answer, [_member(member) for member in answer.members]))


async def _fields_of_many(version: int, answer: JoinReply, pace: Pace) -> Fields:
    members: list[Fields] = []
    for member in answer.members:
        await pace.step()
        members.append(_member(member))
    return _fields(version, answer, members)


def _fields(version: int, answer: JoinReply, members: list[Fields]) -> Fields:
    no_protocol = "" if version < 7 else None
    return {
        "error_code": answer.error,
        "generation_id": answer.generation,
        "protocol_type": answer.protocol_type,
        "protocol_name": no_protocol if answer.protocol_name is None else answer.protocol_name,
        "leader": answer.leader_id,
        "skip_assignment": answer.skip_assignment,
        "member_id": answer.member_id,
        "members": members,
    }


def _member(member: JoinedMember) -> Fields:
    return {
        "member_id": member.member_id,
        "group_instance_id": member.instance_id,
        "metadata": member.metadata,
    }
