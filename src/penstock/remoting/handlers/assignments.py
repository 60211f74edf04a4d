"""QUERY_ASSIGNMENT, SET_MESSAGE_REQUEST_MODE: which queues a member has, and whether it pops them.

    {"topic": …, "consumerGroup": …, "clientId": …, "strategyName": …, "messageModel": …}
    {"messageQueueAssignments": [{"messageQueue": {…}, "mode": "POP" | "PULL"}]}
    {"topic": …, "consumerGroup": …, "mode": "POP" | "PULL", "popShareQueueNum": …}

The mode is kept with the group, in the key `rmq.pop.topics`, so every node knows it.

Source: RocketMQ 5.3.3 `QueryAssignmentProcessor`, `MessageRequestModeManager`.
"""

from collections.abc import Sequence
from typing import Final, TypeVar

import msgspec

from penstock.base.ports import Buffer
from penstock.broker.access import Operation, Resource
from penstock.broker.submitting import submit
from penstock.configs.group_keys import POP_TOPICS
from penstock.controller.commands.command import (
    AlterConfigs,
    ConfigEdit,
    ConfigOperation,
    ResourceEdits,
)
from penstock.controller.errors import MetadataError
from penstock.controller.metadata.kinds import ResourceType
from penstock.remoting.errors import MalformedBody
from penstock.remoting.gate import check, find_topic
from penstock.remoting.later.group_topics import retry_group
from penstock.remoting.pop.assigning import ANY_QUEUE, queues_of_member
from penstock.remoting.pop.serving import serve
from penstock.remoting.queues import broker_name
from penstock.remoting.request import RemotingContext, Reply
from penstock.remoting.routes import encode_json
from penstock.remoting.wire.codes import RequestCode, ResponseCode
from penstock.remoting.wire.command import Command

CODES: Final = (RequestCode.QUERY_ASSIGNMENT, RequestCode.SET_MESSAGE_REQUEST_MODE)
_POP, _PULL, _BROADCASTING = "POP", "PULL", "BROADCASTING"
TOPICS_MAX: Final = 1_000
"""Topics that a group pops."""
ENCODED_AT_ONCE: Final = 500
"""Queues of an answer in one turn: a topic may have 10,000."""
NO_KEYS: Final = ""

T = TypeVar("T")


class _Asked(msgspec.Struct, frozen=True, rename="camel"):
    topic: str
    consumer_group: str
    client_id: str
    strategy_name: str = "AVG"
    message_model: str = "CLUSTERING"


class _Mode(msgspec.Struct, frozen=True, rename="camel"):
    topic: str
    consumer_group: str
    mode: str


_decode_asked: Final = msgspec.json.Decoder(_Asked)
_decode_mode: Final = msgspec.json.Decoder(_Mode)


def handle(context: RemotingContext, command: Command, reply: Reply) -> None:
    """Answer from the image, or once a mode is kept. Raises what is told to the client."""
    if command.code == RequestCode.QUERY_ASSIGNMENT:
        _assign(context, _read(_decode_asked, command.body), reply)
    else:
        _set_mode(context, _read(_decode_mode, command.body), reply)


def _read(decoder: msgspec.json.Decoder[T], body: Buffer) -> T:
    try:
        return decoder.decode(body)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        raise MalformedBody("a body that is not the JSON of this request") from error


def _assign(context: RemotingContext, asked: _Asked, reply: Reply) -> None:
    topic = find_topic(context, asked.topic, Operation.READ)
    check(context, Operation.READ, Resource.GROUP, asked.consumer_group)
    queues = context.front.queues_of(topic.topic_id, tuple(topic.placed))
    is_popped = asked.topic in popped_topics(context, asked.consumer_group)
    brokers = {broker_name(set_id): count for set_id, count in queues.counts().items()}
    every = [(name, queue) for name in sorted(brokers) for queue in range(brokers[name])]
    found: Sequence[tuple[str, int]] | None
    if is_popped and asked.message_model != _BROADCASTING:
        found = [(name, ANY_QUEUE) for name in brokers]
    elif asked.message_model == _BROADCASTING:
        found = every
    else:
        members = context.front.members.client_ids(asked.consumer_group)
        found = queues_of_member(asked.client_id, members, asked.strategy_name, every)
    if found is None:
        raise MalformedBody(f"no strategy is named {asked.strategy_name[:20]}: AVG, AVG_BY_CIRCLE")
    mode = _POP if is_popped and asked.message_model != _BROADCASTING else _PULL
    if len(found) <= ENCODED_AT_ONCE:
        reply(body=_encoded([_told(asked.topic, found, mode)]))
        return
    serve(context, "assignment", reply, _tell_many(context, reply, asked.topic, found, mode))


def _told(topic: str, queues: Sequence[tuple[str, int]], mode: str) -> bytes:
    """Return assignments in JSON, without the brackets around them."""
    told = [
        {"messageQueue": {"topic": topic, "brokerName": name, "queueId": queue}, "mode": mode}
        for name, queue in queues
    ]
    return encode_json(told)[1:-1]


def _encoded(parts: Sequence[bytes]) -> bytes:
    return b'{"messageQueueAssignments":[' + b",".join(parts) + b"]}"


async def _tell_many(
    context: RemotingContext, reply: Reply, topic: str, found: Sequence[tuple[str, int]], mode: str
) -> None:
    """Answer with thousands of queues, encoded some in a turn."""
    parts = []
    for at in range(0, len(found), ENCODED_AT_ONCE):
        await context.broker.turns.next()
        parts.append(_told(topic, found[at : at + ENCODED_AT_ONCE], mode))
    reply(body=_encoded(parts))


def popped_topics(context: RemotingContext, group: str) -> frozenset[str]:
    """Return the topics that a group pops, by what is set for it."""
    kept = context.broker.share_places.group_keys(group).get(POP_TOPICS, NO_KEYS)
    return frozenset(kept.split(",")) if kept else frozenset()


def _set_mode(context: RemotingContext, asked: _Mode, reply: Reply) -> None:
    check(context, Operation.ALTER_CONFIGS, Resource.CLUSTER)
    if retry_group(asked.topic) is not None:
        told = "retry topics are pulled, and not popped"
        reply(code=ResponseCode.NO_PERMISSION, remark=told)
        return
    if asked.mode not in {_POP, _PULL}:
        raise MalformedBody(f"no mode is named {asked.mode[:20]}: {_POP}, {_PULL}")
    find_topic(context, asked.topic, Operation.DESCRIBE)
    topics = popped_topics(context, asked.consumer_group)
    if (asked.topic in topics) == (asked.mode == _POP):
        reply()
        return
    if len(topics) >= TOPICS_MAX and asked.mode == _POP:
        raise MalformedBody(f"the group pops {TOPICS_MAX} topics already")
    serve(context, "mode of a group", reply, _keep(context, asked, reply))


async def _keep(context: RemotingContext, asked: _Mode, reply: Reply) -> None:
    operation = ConfigOperation.APPEND if asked.mode == _POP else ConfigOperation.SUBTRACT
    edit = ConfigEdit(key=POP_TOPICS, operation=operation, value=asked.topic)
    edits = ResourceEdits(
        resource_type=ResourceType.GROUP, resource_name=asked.consumer_group, edits=(edit,)
    )
    answer = await submit(context.broker, AlterConfigs(resources=(edits,)))
    error = answer if isinstance(answer, MetadataError) else answer[0].error
    if error is not None:
        raise error
    reply()
