"""LOCK_BATCH_MQ, UNLOCK_BATCH_MQ: queues that one client of a group consumes alone.

    {"consumerGroup": …, "clientId": …, "mqSet": [{"topic": …, "brokerName": …, "queueId": …}]}
    {"lockOKMQSet": […]}    those that the client has now

A queue that is not led here is not among them. Only members of the group have queues.

Source: RocketMQ `AdminBrokerProcessor.lockBatchMQ`, `LockBatchRequestBody`.
"""

from collections.abc import Generator, Sequence
from typing import Final

import msgspec

from penstock.base.errors import PlatformError
from penstock.broker.access import Operation, Resource
from penstock.broker.partitions import HostedTopic
from penstock.remoting.config import LISTENER_NAME
from penstock.remoting.errors import MalformedBody
from penstock.remoting.gate import check, find_topic, led_queue
from penstock.remoting.locks import LockedQueue
from penstock.remoting.pop.serving import serve
from penstock.remoting.request import RemotingContext, Reply
from penstock.remoting.routes import encode_json
from penstock.remoting.wire.codes import RequestCode
from penstock.remoting.wire.command import Command

CODES: Final = (RequestCode.LOCK_BATCH_MQ, RequestCode.UNLOCK_BATCH_MQ)
QUEUES_MAX: Final = 2_000
"""Of one request. Each topic is looked for once."""
SLICE: Final = 200
"""Of these in one turn: a millisecond."""


class _MessageQueue(msgspec.Struct, frozen=True, rename="camel"):
    topic: str
    broker_name: str
    queue_id: int


class _Asked(msgspec.Struct, frozen=True, rename="camel"):
    consumer_group: str
    client_id: str
    queues: tuple[_MessageQueue, ...] = msgspec.field(default=(), name="mqSet")


_Work = Generator[None, None, Sequence[_MessageQueue] | None]
_decode: Final = msgspec.json.Decoder(_Asked).decode


def handle(context: RemotingContext, command: Command, reply: Reply) -> None:
    """Answer from memory, many in slices. Raises what is told to the client."""
    asked = _read(command)
    check(context, Operation.READ, Resource.GROUP, asked.consumer_group)
    is_lock = command.code == RequestCode.LOCK_BATCH_MQ
    is_member = asked.client_id in context.front.members.client_ids(asked.consumer_group)
    work = _work(context, asked, is_lock=is_lock, is_member=is_member)
    if len(asked.queues) > SLICE:
        serve(context, "locks", reply, _in_turns(context, command, reply, work))
        return
    try:
        while True:
            next(work)
    except StopIteration as end:
        _tell(reply, end.value)


async def _in_turns(context: RemotingContext, command: Command, reply: Reply, work: _Work) -> None:
    broker = context.broker
    turns = broker.stats.turns_of(LISTENER_NAME, RequestCode(command.code).name)
    _tell(reply, await broker.turns.run(work, turns.note))


def _tell(reply: Reply, locked: Sequence[_MessageQueue] | None) -> None:
    if locked is None:
        reply()
    else:
        reply(body=encode_json({"lockOKMQSet": locked}))


def _work(context: RemotingContext, asked: _Asked, *, is_lock: bool, is_member: bool) -> _Work:
    """Lock or unlock, a slice at a time; return what is locked, None if nothing was to be."""
    locks, now_ms = context.front.locks, context.broker.clock.monotonic_ms()
    topics: dict[str, HostedTopic | None] = {}
    locked: list[_MessageQueue] = []
    for at, one in enumerate(asked.queues if is_member or not is_lock else ()):
        if at and not at % SLICE:
            yield
        queue = _queue(context, asked, one, topics)
        if queue is None:
            continue
        if not is_lock:
            locks.unlock(queue, asked.client_id)
        elif locks.lock(queue, asked.client_id, now_ms, context.user):
            locked.append(one)
    return locked if is_lock else None


def _read(command: Command) -> _Asked:
    try:
        asked = _decode(command.body)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        raise MalformedBody("a body that is not the JSON of locks") from error
    if len(asked.queues) > QUEUES_MAX:
        raise MalformedBody(f"locks of {len(asked.queues)} queues, at most {QUEUES_MAX}")
    return asked


def _queue(
    context: RemotingContext,
    asked: _Asked,
    one: _MessageQueue,
    topics: dict[str, HostedTopic | None],
) -> LockedQueue | None:
    """Return a queue; None if it is not led here, or the client may not read it.

    `topics` are those that were looked for.
    """
    if one.topic not in topics:
        try:
            topics[one.topic] = find_topic(context, one.topic, Operation.READ)
        except PlatformError:
            topics[one.topic] = None
    topic = topics[one.topic]
    if topic is None:
        return None
    try:
        found = led_queue(context, topic, one.broker_name, one.queue_id)
    except PlatformError:
        return None
    return LockedQueue(asked.consumer_group, topic.topic_id, found.hosted.partition)
