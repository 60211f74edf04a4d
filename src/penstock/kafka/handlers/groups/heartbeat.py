"""Heartbeat 0-4: keeps a member alive and reports a rebalance. Version 3: static members."""

from penstock.broker.access import Operation
from penstock.groups.messages import Heartbeat
from penstock.kafka.context import RequestContext
from penstock.kafka.gate import group_error
from penstock.kafka.request import Reply, Request
from penstock.protocol.api_keys import ApiKey

KEY = ApiKey.HEARTBEAT
VERSIONS = range(5)


def handle(context: RequestContext, request: Request, reply: Reply) -> None:
    """Answer at once."""
    body = request.body
    if error := group_error(context, body.group_id, Operation.READ):
        reply({"error_code": error})
        return
    beat = Heartbeat(
        group_id=body.group_id,
        generation=body.generation_id,
        member_id=body.member_id,
        instance_id=getattr(body, "group_instance_id", None),
    )
    reply({"error_code": context.broker.groups.heartbeat(beat)})
