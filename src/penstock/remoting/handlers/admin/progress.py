"""GET_CONSUME_STATS: how far a group is in each queue that this node leads, and where that ends.

    {"offsetTable": {{queue}: {"brokerOffset": end, "consumerOffset": position, …}}, …}

Topics are the one that is named; else those in which the group has positions, and those that its
members want. In a queue without a position of the group it is told as at the first message.

Source: RocketMQ 5.3.3 `AdminBrokerProcessor.getConsumeStats`, `OffsetWrapper`. Departures: a time
is told where everything is consumed, since else it would have to be read; what is under way is not
known, so `pullOffset` is the position; rates are 0, since they are measured by metrics alone.
"""

from collections.abc import Mapping
from functools import partial
from typing import Final

from penstock.broker.access import Operation, Resource
from penstock.broker.partitions import HostedTopic
from penstock.broker.tier.reach import known_first_offset
from penstock.broker.turns import Pace
from penstock.remoting.fields import text
from penstock.remoting.gate import Found, check, find_topic
from penstock.remoting.handlers.admin.group_positions import positions_of
from penstock.remoting.handlers.admin.long_answers import answer_long
from penstock.remoting.handlers.admin.names import told_name
from penstock.remoting.handlers.admin.queue_tables import end_of, led_queues, offset_table
from penstock.remoting.handlers.admin.topics import may_see
from penstock.remoting.later.group_topics import stored_name
from penstock.remoting.request import RemotingContext, Reply
from penstock.remoting.wire.codes import RequestCode
from penstock.remoting.wire.command import Command

CODES: Final = (RequestCode.GET_CONSUME_STATS,)
OfTopic = Mapping[int, tuple[bytes, int]]
"""Positions by partition."""


def handle(context: RemotingContext, command: Command, reply: Reply) -> None:
    """Answer when the group's coordinator has. Raises what is told to the client."""
    group, name = text(command, "consumerGroup"), command.fields.get("topic", "")
    check(context, Operation.DESCRIBE, Resource.GROUP, group)
    if name:
        find_topic(context, name, Operation.DESCRIBE)
    answer_long(context, "progress of a group", reply, partial(_stats, context, group, name))


async def _stats(context: RemotingContext, group: str, name: str, pace: Pace) -> bytes:
    positions = await positions_of(context.front, group, pace)
    names = [name] if name else await _names(context, group, list(positions), pace)
    rows = []
    for one in names:
        stored = stored_name(one)
        topic = context.broker.partitions.by_name.get(stored.encode(errors="replace"))
        if topic is None:
            continue
        known = positions.get(stored, {})
        for found in await led_queues(context.front, topic, pace):
            await pace.step()
            rows.append((one, found, await row_of(context, topic, found, known)))
    return offset_table(rows, consumeTps=0.0)


async def _names(context: RemotingContext, group: str, stored: list[str], pace: Pace) -> list[str]:
    """Return the topics of a group that the client may see, by the names that it has for them."""
    names = dict.fromkeys(map(told_name, stored))
    for _, _, of in context.front.members.members(group):
        await pace.step(1 + len(of.subscriptions))
        names.update(dict.fromkeys(one.topic for one in of.subscriptions))
    return [name for name in names if may_see(context, name)]


async def row_of(
    context: RemotingContext, topic: HostedTopic, found: Found, known: OfTopic
) -> Mapping[str, int]:
    """Return what is told of a queue."""
    hosted = found.hosted
    end, first = await end_of(hosted), known_first_offset(hosted, context.broker.tier)
    topic_id, position = known.get(hosted.partition, (bytes(16), first))
    if topic_id not in {bytes(16), bytes(topic.topic_id)}:
        position = first  # in an earlier topic of this name
    is_done = first < end <= position
    return {
        "brokerOffset": end,
        "consumerOffset": position,
        "lastTimestamp": max(hosted.log.max_timestamp, 0) if is_done else 0,
        "pullOffset": position,
    }
