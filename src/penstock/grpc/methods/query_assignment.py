"""QueryAssignment: from where a push consumer is to receive.

One queue for each node that leads a part of the topic, of the number -1: any queue of that node. So
each consumer of a group has all of it, and one that hangs has nothing to itself.

Source: RocketMQ's proxy `RouteActivity.queryAssignment`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from penstock.grpc.call import Call, Method
from penstock.grpc.errors import Refused
from penstock.grpc.gate import group_name, popped_topic, topic_name
from penstock.grpc.proto.messages import (
    Assignment,
    QueryAssignmentRequest,
    QueryAssignmentResponse,
    Status,
)
from penstock.grpc.routes import leading_queue
from penstock.grpc.statuses import Code
from penstock.protobuf.codec import decode

if TYPE_CHECKING:
    from penstock.base.ids import BrokerId

ANY_QUEUE: Final = -1


def _handle(call: Call, message: bytes) -> None:
    request = decode(QueryAssignmentRequest, message)
    client, name = call.client, topic_name(request.topic)
    topic = popped_topic(client, group_name(client, request.group), name)
    sets = client.broker.metadata.replica_sets
    placed = dict.fromkeys(topic.placed)
    leaders: dict[BrokerId, None] = dict.fromkeys(sets[one].master for one in placed if one in sets)
    assignments = []
    for leader in leaders:
        endpoints = client.front.endpoints(leader)
        if endpoints is not None:
            queue = leading_queue(name, leader, endpoints, ANY_QUEUE)
            assignments.append(Assignment(message_queue=queue))
    if not assignments:
        told = f"no node is reached that leads a part of {name}: is grpc.port set on all of them?"
        raise Refused(Code.HA_NOT_AVAILABLE, told)
    status = Status(code=Code.OK, message="OK")
    call.reply(QueryAssignmentResponse(status=status, assignments=assignments))


METHOD: Final = Method("QueryAssignment", _handle)
