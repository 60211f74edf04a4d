"""Topics as those who operate a cluster see them.

    GET_ALL_TOPIC_LIST_FROM_NAMESERVER  names of those that the client may describe
    GET_TOPIC_STATS_INFO                first offset, end and last time of each queue led here
    GET_TOPIC_CONFIG                    how many queues are led here, and who may use them

Names are those that clients use: `%RETRY%GROUP` for `rmq.retry.GROUP`. Internal topics are left
out of the list.

Source: RocketMQ 5.3.3 `DefaultRequestProcessor.getAllTopicListFromNameserver`,
`AdminBrokerProcessor.getTopicStatsInfo`, `getTopicConfig`. Departures: rates are 0, since they are
measured by metrics alone; the last time is the latest of a queue's records.
"""

from functools import partial
from typing import Final

from penstock.broker.access import Operation, Resource
from penstock.broker.partitions import HostedTopic
from penstock.broker.tier.reach import known_first_offset
from penstock.broker.turns import Pace
from penstock.configs.message_types import MIXED
from penstock.controller.commands.topic_names import INTERNAL_TOPICS
from penstock.remoting.fields import text
from penstock.remoting.gate import find_topic
from penstock.remoting.handlers.admin.attributes import ATTRIBUTE
from penstock.remoting.handlers.admin.long_answers import answer_long
from penstock.remoting.handlers.admin.names import told_name
from penstock.remoting.handlers.admin.queue_tables import end_of, led_queues, offset_table
from penstock.remoting.later.group_topics import stored_name
from penstock.remoting.request import RemotingContext, Reply
from penstock.remoting.routes import READ_WRITE, encode_json
from penstock.remoting.wire.codes import RequestCode
from penstock.remoting.wire.command import Command

CODES: Final = (
    RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER,
    RequestCode.GET_TOPIC_STATS_INFO,
    RequestCode.GET_TOPIC_CONFIG,
)


def handle(context: RemotingContext, command: Command, reply: Reply) -> None:
    """Answer from memory, in turns. Raises what is told to the client."""
    if command.code == RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER:
        answer_long(context, "list of topics", reply, partial(_list, context))
        return
    name = text(command, "topic")
    topic = find_topic(context, name, Operation.DESCRIBE)
    if command.code == RequestCode.GET_TOPIC_STATS_INFO:
        answer_long(context, "state of a topic", reply, partial(_stats, context, name, topic))
    else:
        answer_long(context, "queues of a topic", reply, partial(_config, context, name, topic))


async def _list(context: RemotingContext, pace: Pace) -> bytes:
    names = []
    for stored in tuple(context.broker.metadata.topics_by_name):
        await pace.step()
        name = told_name(stored)
        if stored not in INTERNAL_TOPICS and may_see(context, name):
            names.append(name)
    return encode_json({"topicList": names})


def may_see(context: RemotingContext, name: str) -> bool:
    """Whether a client is told of a topic, by the name that it has for it, without asking."""
    authoriser, stored = context.broker.authoriser, stored_name(name)
    return authoriser.permits_all or authoriser.permits(
        context, Operation.DESCRIBE, Resource.TOPIC, stored
    )


async def _stats(context: RemotingContext, name: str, topic: HostedTopic, pace: Pace) -> bytes:
    rows = []
    for found in await led_queues(context.front, topic, pace):
        await pace.step()
        end, first = (
            await end_of(found.hosted),
            known_first_offset(found.hosted, context.broker.tier),
        )
        told = {
            "lastUpdateTimestamp": max(found.hosted.log.max_timestamp, 0) if end > first else 0,
            "maxOffset": end,
            "minOffset": first,
        }
        rows.append((name, found, told))
    return offset_table(rows, topicPutTps=0.0)


async def _config(context: RemotingContext, name: str, topic: HostedTopic, pace: Pace) -> bytes:
    count, message_type = (
        len(await led_queues(context.front, topic, pace)),
        topic.settings.message_type,
    )
    told = {
        "attributes": {} if message_type == MIXED else {ATTRIBUTE: message_type},
        "order": False,
        "perm": READ_WRITE,
        "readQueueNums": count,
        "topicFilterType": "SINGLE_TAG",
        "topicName": name,
        "topicSysFlag": 0,
        "writeQueueNums": count,
    }
    return encode_json(told)
