"""GET_BROKER_CONSUME_STATS: how far all groups are in the queues that this node leads.

    {"consumeStatsList": [{group: [{"offsetTable": …, "consumeTps": 0.0}, …]}, …],
     "brokerAddr": "host:port", "totalDiff": messages that are not consumed, "totalInflightDiff": 0}

Groups are those of known_groups.py; each has an entry for each topic in which it has positions and
that its members want, where it has members. The time of a queue is that of the last message that
the group has consumed, so it is read: `mqadmin` prints no queue without one. With `isOrder` topics
are told that are kept in order by RocketMQ's flag, which no topic has here.

Source: RocketMQ 5.3.3 `AdminBrokerProcessor.fetchAllConsumeStatsInBroker`, `ConsumeStatsList`.
Departures, as in progress.py: rates are 0, and what is under way is not known.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from penstock.remoting.errors import PositionRefused
from penstock.remoting.finding.reading import read_message
from penstock.remoting.handlers.admin.group_positions import positions_of
from penstock.remoting.handlers.admin.known_groups import known_groups
from penstock.remoting.handlers.admin.long_answers import BYTES_MAX, AnswerTooLarge, answer_long
from penstock.remoting.handlers.admin.names import told_name
from penstock.remoting.handlers.admin.progress import OfTopic, row_of
from penstock.remoting.handlers.admin.queue_tables import led_queues, offset_table
from penstock.remoting.handlers.admin.topics import may_see
from penstock.remoting.later.group_topics import retry_group
from penstock.remoting.reading import Wanted
from penstock.remoting.routes import encode_json
from penstock.remoting.subscription import EVERYTHING
from penstock.remoting.wire.codes import RequestCode

if TYPE_CHECKING:
    from penstock.broker.partitions import HostedTopic
    from penstock.broker.turns import Pace
    from penstock.remoting.gate import Found
    from penstock.remoting.request import RemotingContext, Reply
    from penstock.remoting.wire.command import Command

CODES: Final = (RequestCode.GET_BROKER_CONSUME_STATS,)
READS_MAX: Final = 1_000
"""Messages that are read for their times, in one answer: each takes a look-up."""


def handle(context: RemotingContext, command: Command, reply: Reply) -> None:
    """Answer when the coordinators of all groups have. Raises what is told to the client."""
    is_order = command.fields.get("isOrder", "").lower() == "true"
    answer_long(context, "progress of all groups", reply, partial(_stats, context, is_order))


async def _stats(context: RemotingContext, is_order: bool, pace: Pace) -> bytes:
    told = _Told(context, pace)
    for group in () if is_order else await known_groups(context, pace):
        await told.add(group)
    host = context.front.own_address()
    beside = {"brokerAddr": host, "totalDiff": told.behind, "totalInflightDiff": 0}
    return b'{"consumeStatsList":[' + b",".join(told.groups) + b"]," + encode_json(beside)[1:]


class _Told:
    """The entries of groups, as they are told, and what they come to."""

    def __init__(self, context: RemotingContext, pace: Pace) -> None:
        self._context = context
        self._pace = pace
        self._reads = 0
        self._size = 0
        self.groups: list[bytes] = []
        self.behind = 0

    async def add(self, group: str) -> None:
        """Add the entry of a group. Raises what is told to the client."""
        context, topics = self._context, []
        wanted = await self._wanted(group)
        for stored, known in (await positions_of(context.front, group, self._pace)).items():
            name = told_name(stored)
            topic = context.broker.partitions.by_name.get(stored.encode(errors="replace"))
            if topic is None or (wanted and name not in wanted) or not may_see(context, name):
                continue
            topics.append(await self._topic(name, topic, known))
            self._size += len(topics[-1])
            if self._size > BYTES_MAX:
                raise AnswerTooLarge(f"more than {BYTES_MAX} bytes: ask for one group at a time")
        self.groups.append(b"{" + encode_json(group) + b":[" + b",".join(topics) + b"]}")

    async def _wanted(self, group: str) -> set[str]:
        found = set[str]()
        for _, _, of in self._context.front.members.members(group):
            await self._pace.step(1 + len(of.subscriptions))
            found.update(one.topic for one in of.subscriptions)
        return found

    async def _topic(self, name: str, topic: HostedTopic, known: OfTopic) -> bytes:
        context, rows = self._context, []
        for found in await led_queues(context.front, topic, self._pace):
            await self._pace.step()
            row = dict(await row_of(context, topic, found, known))
            position = row["consumerOffset"]
            self.behind += row["brokerOffset"] - position
            is_known = found.hosted.partition in known
            row["lastTimestamp"] = await self._time(name, found, position) if is_known else 0
            rows.append((name, found, row))
        return offset_table(rows, consumeTps=0.0)

    async def _time(self, name: str, found: Found, position: int) -> int:
        """Return the time of the last message before a position; 0 if that is none, or gone."""
        if not position:
            return 0
        self._reads += 1
        if self._reads > READS_MAX:
            told = f"more than {READS_MAX} queues of groups are led here: ask for one group"
            raise PositionRefused(f"{told} at a time (consumerProgress -g)")
        context = self._context
        hosted, host = found.hosted, context.front.own_host()
        topic_id, is_retry = hosted.topic.topic_id, retry_group(name) is not None
        wanted = Wanted(name, found, position - 1, 1, EVERYTHING, host, topic_id, is_retry)
        message = await read_message(context, wanted)
        return 0 if message is None else message[0].store_ms
