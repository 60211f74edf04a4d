"""GET_ROUTEINFO_BY_TOPIC, GET_BROKER_CLUSTER_INFO: what clients ask a name server.

Every broker answers them from the image. A topic that is missing is created first where topics are
created on demand, as Kafka's Metadata does, where it is the retry topic of a group with members, or
the topic to which clients send traces; TBW102, by whose route clients create topics in RocketMQ,
never has one.

Source: RocketMQ `ClientRequestProcessor`, `DefaultRequestProcessor`; `AsyncTraceDispatcher`, and
`TopicConfigManager` for `traceTopicEnable`.
"""

from typing import Final

from penstock.broker.access import Operation, Resource
from penstock.broker.metering import owe_mutations, spend_mutations
from penstock.controller.commands.command import NewTopic
from penstock.controller.commands.topic_names import (
    INTERNAL_TOPICS,
    PLACED_CONFIGS,
    check_topic_name,
)
from penstock.controller.errors import InvalidTopicName, UnknownTopic
from penstock.remoting.fields import text
from penstock.remoting.gate import check, find_topic, may_create
from penstock.remoting.later.group_topics import retry_group, stored_name
from penstock.remoting.request import RemotingContext, Reply
from penstock.remoting.routes import cluster_info, topic_route
from penstock.remoting.wire.codes import RequestCode, ResponseCode
from penstock.remoting.wire.command import Command

CODES: Final = (RequestCode.GET_ROUTEINFO_BY_TOPIC, RequestCode.GET_BROKER_CLUSTER_INFO)
AUTO_CREATE_TOPIC: Final = "TBW102"
CLIENT_TRACES: Final = "RMQ_SYS_TRACE_TOPIC"
"""Where clients with `enableTrace` send what they did with their messages."""
QUEUES_MAX: Final = 8
"""Of a retry topic, and of that of traces, as its first client asks for its route; one for each
set, up to so many. A retry topic gets more as messages of other sets are sent back, and clients
find these with their next route."""


def handle(context: RemotingContext, command: Command, reply: Reply) -> None:
    """Answer from the image, or once a topic is created. Raises what is told to the client."""
    if command.code == RequestCode.GET_BROKER_CLUSTER_INFO:
        check(context, Operation.DESCRIBE, Resource.CLUSTER)
        front = context.front
        reply(body=cluster_info(front.set_members(), context.broker.metadata.cluster_id))
        return
    name = text(command, "topic")
    try:
        _tell(context, name, reply)
    except UnknownTopic:
        if not _is_created(context, name):
            raise
        spend_mutations(context.broker, context, 1)
        context.front.spawn("topic of a route", _create(context, name, reply))


def _tell(context: RemotingContext, name: str, reply: Reply) -> None:
    topic = find_topic(context, name, Operation.DESCRIBE)
    queues = context.front.queues_of(topic.topic_id, tuple(topic.placed))
    cluster = context.broker.metadata.cluster_id
    route = topic_route(queues, context.front.set_members(), cluster)
    if route is None:
        reply(code=ResponseCode.TOPIC_NOT_EXIST, remark=f"no broker of {name} is reached")
    else:
        reply(body=route)


def _is_created(context: RemotingContext, name: str) -> bool:
    """Whether a missing topic is created as it is asked for.

    The retry topic of a group with members is, whatever is set for topics of clients: those that
    keep the order of queues send their dead letters there, and never send back. So is that of
    traces: a client drops them, without a word, where it has no route.
    """
    group = retry_group(name)
    has_members = group is not None and context.front.members.client_ids(group)
    is_needed = has_members or name == CLIENT_TRACES
    if not (context.broker.config.auto_create_topics or is_needed) or name == AUTO_CREATE_TOPIC:
        return False
    stored = stored_name(name)
    try:
        check_topic_name(stored)
    except InvalidTopicName:
        return False
    if group is not None:
        return True  # it may be consumed with, as find_topic has seen
    return stored not in INTERNAL_TOPICS and may_create(context, stored)


async def _create(context: RemotingContext, name: str, reply: Reply) -> None:
    new = NewTopic(name=name)
    if retry_group(name) is not None or name == CLIENT_TRACES:
        count = min(len(context.broker.metadata.replica_sets), QUEUES_MAX)
        new = NewTopic(name=stored_name(name), partition_count=count, configs=PLACED_CONFIGS)
    await context.front.on_demand.create([new])
    made = context.broker.metadata.topics_by_name.get(new.name)
    owe_mutations(context.broker, context, 0 if made is None else len(made.partitions) - 1)
    try:
        _tell(context, name, reply)
    except UnknownTopic as error:
        reply.fail(error)
