"""LOCK_BATCH_MQ, UNLOCK_BATCH_MQ: queues that one client of a group consumes alone.

    {"consumerGroup": …, "clientId": …, "mqSet": [{"topic": …, "brokerName": …, "queueId": …}]}
    {"lockOKMQSet": […]}    those that the client has now

A queue that is not led here is not among them. Only members of the group have queues.

Source: RocketMQ `AdminBrokerProcessor.lockBatchMQ`, `LockBatchRequestBody`.
"""

from typing import Final

import msgspec

from penstock.base.errors import PlatformError
from penstock.broker.access import Operation, Resource
from penstock.remoting.errors import MalformedBody
from penstock.remoting.gate import check, find_topic, led_queue
from penstock.remoting.locks import LockedQueue
from penstock.remoting.request import RemotingContext, Reply
from penstock.remoting.routes import encode_json
from penstock.remoting.wire.codes import RequestCode
from penstock.remoting.wire.command import Command

CODES: Final = (RequestCode.LOCK_BATCH_MQ, RequestCode.UNLOCK_BATCH_MQ)
QUEUES_MAX: Final = 2_000
"""Of one request: some milliseconds."""


class _MessageQueue(msgspec.Struct, frozen=True, rename="camel"):
    topic: str
    broker_name: str
    queue_id: int


class _Asked(msgspec.Struct, frozen=True, rename="camel"):
    consumer_group: str
    client_id: str
    queues: tuple[_MessageQueue, ...] = msgspec.field(default=(), name="mqSet")


_decode: Final = msgspec.json.Decoder(_Asked).decode


def handle(context: RemotingContext, command: Command, reply: Reply) -> None:
    """Answer from memory. Raises what is told to the client."""
    asked = _read(command)
    check(context, Operation.READ, Resource.GROUP, asked.consumer_group)
    locks, now_ms = context.front.locks, context.broker.clock.monotonic_ms()
    is_member = asked.client_id in context.front.members.client_ids(asked.consumer_group)
    if command.code == RequestCode.UNLOCK_BATCH_MQ:
        for one in asked.queues:
            queue = _queue(context, asked, one)
            if queue is not None:
                locks.unlock(queue, asked.client_id)
        reply()
        return
    locked = []
    for one in asked.queues if is_member else ():
        queue = _queue(context, asked, one)
        if queue is not None and locks.lock(queue, asked.client_id, now_ms):
            locked.append(one)
    reply(body=encode_json({"lockOKMQSet": locked}))


def _read(command: Command) -> _Asked:
    try:
        asked = _decode(command.body)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        raise MalformedBody("a body that is not the JSON of locks") from error
    if len(asked.queues) > QUEUES_MAX:
        raise MalformedBody(f"locks of {len(asked.queues)} queues, at most {QUEUES_MAX}")
    return asked


def _queue(context: RemotingContext, asked: _Asked, one: _MessageQueue) -> LockedQueue | None:
    """Return a queue; None if it is not led here, or the client may not read it."""
    try:
        topic = find_topic(context, one.topic, Operation.READ)
        found = led_queue(context, topic, one.broker_name, one.queue_id)
    except PlatformError:
        return None
    return LockedQueue(asked.consumer_group, topic.topic_id, found.hosted.partition)
