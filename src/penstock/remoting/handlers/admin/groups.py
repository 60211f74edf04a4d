"""Who consumes and who produces, as the heartbeats to this node say.

    GET_CONSUMER_CONNECTION_LIST  members of a group, and what it wants; CONSUMER_NOT_ONLINE
    GET_PRODUCER_CONNECTION_LIST  producers of a group; SYSTEM_ERROR if there are none
    GET_ALL_PRODUCER_INFO         producers of all groups, with the time of the last heartbeat
    QUERY_TOPIC_CONSUME_BY_WHO    groups with members that want a topic
    GET_SUBSCRIPTIONGROUP_CONFIG  what is set for a group (group_settings.py)

Clients send heartbeats to every node that they have a route to. Groups that pop over gRPC, and
those of Kafka's clients, are not told.

Source: RocketMQ 5.3.3 `AdminBrokerProcessor`, `ConsumerConnection`, `ProducerConnection`,
`GroupList`, `ProducerTableInfo`. Departure: an address has no port.
"""

from collections.abc import Sequence
from functools import partial
from typing import Final

from penstock.broker.access import Operation, Resource
from penstock.broker.turns import Pace
from penstock.net.connection import Connection
from penstock.remoting.fields import text
from penstock.remoting.gate import check, find_topic
from penstock.remoting.handlers.admin.group_settings import told_settings
from penstock.remoting.handlers.admin.long_answers import answer_long
from penstock.remoting.heartbeat import ConsumerGroup, Subscription
from penstock.remoting.request import RemotingContext, Reply
from penstock.remoting.routes import encode_json
from penstock.remoting.wire.codes import RequestCode, ResponseCode
from penstock.remoting.wire.command import Command

CODES: Final = (
    RequestCode.GET_CONSUMER_CONNECTION_LIST,
    RequestCode.GET_PRODUCER_CONNECTION_LIST,
    RequestCode.GET_ALL_PRODUCER_INFO,
    RequestCode.QUERY_TOPIC_CONSUME_BY_WHO,
    RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG,
)
_BY_TAGS: Final = "TAG"


def handle(context: RemotingContext, command: Command, reply: Reply) -> None:
    """Answer from memory. Raises what is told to the client."""
    match command.code:
        case RequestCode.GET_CONSUMER_CONNECTION_LIST:
            group = text(command, "consumerGroup")
            check(context, Operation.DESCRIBE, Resource.GROUP, group)
            if not context.front.members.client_ids(group):
                told = f"the consumer group[{group}] not online"
                reply(code=ResponseCode.CONSUMER_NOT_ONLINE, remark=told)
                return
            answer_long(context, "members of a group", reply, partial(_consumers, context, group))
        case RequestCode.GET_PRODUCER_CONNECTION_LIST:
            check(context, Operation.DESCRIBE, Resource.CLUSTER)
            _tell_producers(context, text(command, "producerGroup"), reply)
        case RequestCode.GET_ALL_PRODUCER_INFO:
            check(context, Operation.DESCRIBE, Resource.CLUSTER)
            answer_long(context, "all producers", reply, partial(_all_producers, context))
        case RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG:
            group = text(command, "group")
            check(context, Operation.DESCRIBE, Resource.GROUP, group)
            reply(body=encode_json(told_settings(context, group)))
        case _:
            name = text(command, "topic")
            find_topic(context, name, Operation.DESCRIBE)
            answer_long(context, "groups of a topic", reply, partial(_groups, context, name))


async def _consumers(context: RemotingContext, group: str, pace: Pace) -> bytes:
    connections, newest = [], ConsumerGroup(group)
    wanted: dict[str, Subscription] = {}
    for client_id, connection, newest in context.front.members.members(group):
        await pace.step(1 + len(newest.subscriptions))
        connections.append(_connection(client_id, connection))
        wanted.update({one.topic: one for one in newest.subscriptions})
    told = {
        "connectionSet": connections,
        "consumeFromWhere": newest.consume_from_where,
        "consumeType": newest.consume_type,
        "messageModel": newest.message_model,
        "subscriptionTable": {topic: _subscription(one) for topic, one in wanted.items()},
    }
    return encode_json(told)


def _subscription(one: Subscription) -> dict[str, object]:
    return {
        "classFilterMode": False,
        "codeSet": (),
        "expressionType": one.expression_type or _BY_TAGS,
        "subString": one.sub_string,
        "subVersion": one.sub_version,
        "tagsSet": _tags(one),
        "topic": one.topic,
    }


def _tags(one: Subscription) -> Sequence[str]:
    if (one.expression_type or _BY_TAGS) != _BY_TAGS or one.sub_string == "*":
        return ()
    return [tag for part in one.sub_string.split("||") if (tag := part.strip())]


def _tell_producers(context: RemotingContext, group: str, reply: Reply) -> None:
    producers = context.front.asker.producers.connections(group)
    if not producers:
        told = f"the producer group[{group}] not exist"
        reply(code=ResponseCode.SYSTEM_ERROR, remark=told)
        return

    async def connections(pace: Pace) -> bytes:
        told = []
        for client_id, connection in producers:
            await pace.step()
            told.append(_connection(client_id, connection))
        return encode_json({"connectionSet": told})

    answer_long(context, "producers of a group", reply, connections)


async def _all_producers(context: RemotingContext, pace: Pace) -> bytes:
    clock, found = context.broker.clock, dict[str, list[dict[str, object]]]()
    began_ms = clock.wall_ms() - clock.monotonic_ms()
    for group, client_id, connection, seen_ms in context.front.asker.producers.everybody():
        await pace.step()
        client: RemotingContext = connection.state
        told = {
            "clientId": client_id,
            "language": client.language,
            "lastUpdateTimestamp": began_ms + seen_ms,
            "remoteIP": connection.client_host,
            "version": client.version,
        }
        found.setdefault(group, []).append(told)
    return encode_json({"data": found})


def _connection(client_id: str, connection: Connection) -> dict[str, object]:
    context: RemotingContext = connection.state
    return {
        "clientAddr": connection.client_host,
        "clientId": client_id,
        "language": context.language,
        "version": context.version,
    }


async def _groups(context: RemotingContext, topic: str, pace: Pace) -> bytes:
    authoriser, members = context.broker.authoriser, context.front.members
    found = []
    for group in members.group_names():
        await pace.step()
        wanted = (one.topic for _, _, of in members.members(group) for one in of.subscriptions)
        if topic in wanted and (
            authoriser.permits_all
            or authoriser.permits(context, Operation.DESCRIBE, Resource.GROUP, group)
        ):
            found.append(group)
    return encode_json({"groupList": found})
