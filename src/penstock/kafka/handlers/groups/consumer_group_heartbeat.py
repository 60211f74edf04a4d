"""ConsumerGroupHeartbeat 0-1 (key 68): a member of a consumer group joins, stays or leaves.

Answered at once if nothing changes, else when the change is durable. Version 0 lets the coordinator
name a new member; from version 1 on members name themselves, and may subscribe by a regular
expression.

Source: Kafka, KafkaApis.handleConsumerGroupHeartbeat; KIP-848.
"""

import uuid
from collections.abc import Iterable
from typing import Any

from penstock.assignors.partitions import Partitions
from penstock.broker.access import Operation, Resource
from penstock.groups.assigned.messages import JOIN_EPOCH, HeartbeatReply
from penstock.groups.consumer.messages import ConsumerHeartbeat
from penstock.kafka.context import RequestContext
from penstock.kafka.gate import refusal, sight, told_group_error
from penstock.kafka.request import Reply, Request
from penstock.protocol.api_keys import ApiKey
from penstock.protocol.error_codes import ErrorCode

KEY = ApiKey.CONSUMER_GROUP_HEARTBEAT
VERSIONS = range(2)
TOPICS_MAX, PARTITIONS_MAX = 2_000, 20_000
"""Most topics that a member may name, and partitions that it may own. A member with more needs a
regular expression, or company."""

Fields = dict[str, object]


def handle(context: RequestContext, request: Request, reply: Reply) -> None:
    """Pass the heartbeat to the coordinator, which answers through `reply`."""
    body = request.body
    names, owned = body.subscribed_topic_names or (), body.topic_partitions or ()
    if len(names) > TOPICS_MAX or len(owned) > TOPICS_MAX or _count(owned) > PARTITIONS_MAX:
        text = f"At most {TOPICS_MAX} topics and {PARTITIONS_MAX} partitions may be named"
        reply(heartbeat_fields(HeartbeatReply(error=ErrorCode.INVALID_REQUEST, message=text)))
        return
    error = told_group_error(context, body.group_id, Operation.READ) or topic_error(context, names)
    if error:
        reply(heartbeat_fields(HeartbeatReply(error=error)))
        return
    groups = context.broker.groups
    member_id = body.member_id
    if not member_id and body.member_epoch == JOIN_EPOCH and request.api_version == 0:
        member_id = groups.consumers.new_member_id()
    beat = ConsumerHeartbeat(
        group_id=body.group_id,
        member_id=member_id,
        member_epoch=body.member_epoch,
        instance_id=body.instance_id,
        rack_id=body.rack_id,
        rebalance_timeout_ms=round(body.rebalance_timeout.total_seconds() * 1_000),
        topics=None if body.subscribed_topic_names is None else tuple(names),
        regex=getattr(body, "subscribed_topic_regex", None),
        assignor=body.server_assignor,
        owned=None if body.topic_partitions is None else _owned(owned),
        client_id=context.client_id or "",
        client_host=context.host,
        may_see=sight(context),
    )
    groups.consumers.heartbeat(beat, lambda answer: reply(heartbeat_fields(answer)))


def topic_error(context: RequestContext, names: Iterable[str]) -> ErrorCode:
    """Return the refusal if one of the topics may not be described."""
    for name in names:
        if refusal(context, Operation.DESCRIBE, Resource.TOPIC, name):
            return ErrorCode.TOPIC_AUTHORIZATION_FAILED
    return ErrorCode.NONE


def _count(owned: Iterable[Any]) -> int:
    return sum(len(topic.partitions) for topic in owned)


def _owned(topics: Iterable[Any]) -> Partitions:
    owned: dict[bytes, frozenset[int]] = {}
    for topic in topics:
        if topic.topic_id is not None and topic.partitions:
            before = owned.get(topic.topic_id.bytes, frozenset())
            owned[topic.topic_id.bytes] = before | frozenset(topic.partitions)
    return owned


def heartbeat_fields(answer: HeartbeatReply) -> Fields:
    """Return the answer of a heartbeat, of either kind of group."""
    return {
        "error_code": answer.error,
        "error_message": answer.message,
        "member_id": answer.member_id or None,
        "member_epoch": answer.member_epoch,
        "heartbeat_interval": answer.heartbeat_interval_ms,
        "assignment": None
        if answer.assignment is None
        else {"topic_partitions": partitions_told(answer.assignment)},
    }


def partitions_told(partitions: Partitions) -> list[Fields]:
    """Return partitions by topic id, as answers have them."""
    return [
        {"topic_id": uuid.UUID(bytes=topic_id), "partitions": sorted(numbers)}
        for topic_id, numbers in partitions.items()
    ]
