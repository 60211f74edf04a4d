"""Heartbeat 0-4: keeps a member alive and reports a rebalance. Version 3: static members.

Like the other heartbeats, it is answered from memory, so only while no other coordinator can be
active: a successor may have given to others what this one would confirm. Kafka's answers on.
"""

from penstock.broker.access import Operation
from penstock.groups.messages import Heartbeat
from penstock.kafka.context import RequestContext
from penstock.kafka.gate import told_group_error
from penstock.kafka.request import Reply, Request
from penstock.protocol.api_keys import ApiKey

KEY = ApiKey.HEARTBEAT
VERSIONS = range(5)


def handle(context: RequestContext, request: Request, reply: Reply) -> None:
    """Answer at once."""
    body = request.body
    if error := told_group_error(context, body.group_id, Operation.READ):
        reply({"error_code": error})
        return
    beat = Heartbeat(
        group_id=body.group_id,
        generation=body.generation_id,
        member_id=body.member_id,
        instance_id=getattr(body, "group_instance_id", None),
    )
    reply({"error_code": context.broker.groups.heartbeat(beat)})
