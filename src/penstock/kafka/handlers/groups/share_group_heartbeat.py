"""ShareGroupHeartbeat 1 (key 76): a member of a share group joins, stays or leaves.

Answered at once if nothing changes, else when the change is durable. Members name themselves, and
subscribe by names.

Source: Kafka, KafkaApis.handleShareGroupHeartbeat; KIP-932. Version 0 was for trial and is over.
"""

from penstock.broker.access import Operation
from penstock.groups.assigned.messages import HeartbeatReply
from penstock.groups.share.messages import ShareHeartbeat
from penstock.kafka.context import RequestContext
from penstock.kafka.gate import told_group_error
from penstock.kafka.handlers.groups.consumer_group_heartbeat import (
    TOPICS_MAX,
    heartbeat_fields,
    topic_error,
)
from penstock.kafka.request import Reply, Request
from penstock.protocol.api_keys import ApiKey
from penstock.protocol.error_codes import ErrorCode

KEY = ApiKey.SHARE_GROUP_HEARTBEAT
VERSIONS = range(1, 2)


def handle(context: RequestContext, request: Request, reply: Reply) -> None:
    """Pass the heartbeat to the coordinator, which answers through `reply`."""
    body = request.body
    names = body.subscribed_topic_names or ()
    if len(names) > TOPICS_MAX:
        text = f"At most {TOPICS_MAX} topics may be named"
        reply(heartbeat_fields(HeartbeatReply(error=ErrorCode.INVALID_REQUEST, message=text)))
        return
    error = told_group_error(context, body.group_id, Operation.READ) or topic_error(context, names)
    if error:
        reply(heartbeat_fields(HeartbeatReply(error=error)))
        return
    beat = ShareHeartbeat(
        group_id=body.group_id,
        member_id=body.member_id,
        member_epoch=body.member_epoch,
        rack_id=body.rack_id,
        topics=None if body.subscribed_topic_names is None else tuple(names),
        client_id=context.client_id or "",
        client_host=context.host,
    )
    shares = context.broker.groups.shares
    shares.heartbeat(beat, lambda answer: reply(heartbeat_fields(answer)))
