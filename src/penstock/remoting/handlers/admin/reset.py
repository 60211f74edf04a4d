"""INVOKE_BROKER_TO_RESET_OFFSET: a group reads a topic from a time, or from an offset, on.

    each queue led here ─► offset by time ─► position kept ─► {"offsetTable": {{queue}: offset}}
                                         └─► members of the group are told by their next pull

    timestamp     -1: the end; else the first message of that time or a later one
    offset        in place of a time, of the queue that `queueId` names
    isForce       false: a position is only ever moved back, and stays where it is before that

A group without members is moved by its position alone. Refused where the group pops the topic,
and while it has members of Kafka, whose coordinator takes no positions of others.

Source: RocketMQ 5.3.3 `AdminBrokerProcessor.resetOffset`, `resetOffsetInner`, with
`useServerSideResetOffset`, and `ResetOffsetRequestHeader`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

from penstock.base.errors import PlatformError
from penstock.base.ids import Offset
from penstock.broker.access import Operation, Resource
from penstock.broker.awaited import awaited
from penstock.broker.fetch.committed import stable_position
from penstock.broker.tier.reach import told_first_offset
from penstock.broker.tier.search import TierSearch, queue_of
from penstock.remoting.errors import InvalidParameter, PositionRefused
from penstock.remoting.fields import number, text
from penstock.remoting.gate import Found, check, find_topic
from penstock.remoting.handlers.admin.long_answers import answer_long
from penstock.remoting.handlers.admin.queue_tables import end_of, led_queues, offset_table
from penstock.remoting.handlers.assignments import popped_topics
from penstock.remoting.positions import commit, find
from penstock.remoting.request import RemotingContext, Reply
from penstock.remoting.wire.codes import RequestCode
from penstock.remoting.wire.command import Command

if TYPE_CHECKING:
    from penstock.broker.fetch.record_search import Found as FoundRecord
    from penstock.broker.partitions import HostedTopic
    from penstock.broker.turns import Pace

CODES: Final = (RequestCode.INVOKE_BROKER_TO_RESET_OFFSET,)
_ANY_QUEUE: Final = -1
_NO_OFFSET: Final = -1
_NOW: Final = -1
QUEUES_MAX: Final = 1_000
"""That are led here, of one topic: each takes a search and a write of its own."""


class _Asked(NamedTuple):
    """What a client asks for."""

    group: str
    topic: str
    queue_id: int
    offset: int
    timestamp: int
    is_forced: bool


def handle(context: RemotingContext, command: Command, reply: Reply) -> None:
    """Answer once all positions are durable. Raises what is told to the client."""
    asked = _Asked(
        group=text(command, "group"),
        topic=text(command, "topic"),
        queue_id=number(command, "queueId", _ANY_QUEUE),
        offset=number(command, "offset", _NO_OFFSET),
        timestamp=number(command, "timestamp", _NOW),
        is_forced=command.fields.get("isForce", "true").lower() != "false",
    )
    check(context, Operation.READ, Resource.GROUP, asked.group)
    topic = find_topic(context, asked.topic, Operation.READ)
    if asked.offset != _NO_OFFSET and asked.queue_id == _ANY_QUEUE:
        raise InvalidParameter("an offset without a queue: it is of one queue")
    if asked.topic in popped_topics(context, asked.group):
        raise InvalidParameter(
            f"the group pops {asked.topic}: it is moved by AlterShareGroupOffsets of"
            f" rmq.pop.{asked.group}"
        )
    answer_long(context, "reset of a group", reply, partial(_reset, context, asked, topic))


async def _reset(context: RemotingContext, asked: _Asked, topic: HostedTopic, pace: Pace) -> bytes:
    queues = [
        found
        for found in await led_queues(context.front, topic, pace)
        if asked.queue_id in {_ANY_QUEUE, found.queue.queue_id}
    ]
    if asked.queue_id != _ANY_QUEUE and not queues:
        raise InvalidParameter(f"queue {asked.queue_id} of the topic is not led here")
    if len(queues) > QUEUES_MAX:
        raise InvalidParameter(f"{len(queues)} queues of the topic: {QUEUES_MAX} can be reset")
    # All offsets are found before the first position moves: what fails there changes nothing.
    offsets = [(found, await _wanted(context, asked, found)) for found in queues]
    for found, offset in offsets:
        await pace.step()
        await _move(context, asked.group, found, offset)
    return offset_table((asked.topic, found, offset) for found, offset in offsets)


async def _wanted(context: RemotingContext, asked: _Asked, found: Found) -> int:
    """Return the offset from which the group is to read."""
    end = await end_of(found.hosted)
    first = told_first_offset(found.hosted, context.broker.tier)
    if asked.offset != _NO_OFFSET:
        if not first <= asked.offset <= end:
            raise InvalidParameter(f"offset {asked.offset}: the queue has {first} to {end}")
        return asked.offset
    wanted = end if asked.timestamp == _NOW else await _by_time(context, asked, found, end)
    if asked.is_forced:
        return wanted
    told: asyncio.Future[tuple[int | None, PlatformError | None]]
    told, tell = awaited()
    find(context.front.desk, asked.group, found.hosted, lambda *known: tell(known))
    position, error = await told
    if error is not None:
        raise error
    return wanted if position is None else min(wanted, position)


async def _by_time(context: RemotingContext, asked: _Asked, found: Found, end: Offset) -> int:
    """Return the offset of the first message of a time or later; the end if there is none."""
    told: asyncio.Future[tuple[FoundRecord | None, PlatformError | None]]
    told, tell = awaited()

    def begin(over: Callable[[], None]) -> None:
        def done(record: FoundRecord | None, error: PlatformError | None) -> None:
            tell((record, error))
            over()

        tier, client = context.broker.tier, context.connection
        search = TierSearch(found.hosted, max(asked.timestamp, 0), client, tier)
        search.first_up_to(stable_position(found.hosted), done)

    gone = PositionRefused("who asked for it has gone")
    queue_of(context.broker, found.hosted).ask(
        context.connection, begin, lambda: tell((None, gone))
    )
    record, error = await told
    if error is None and record is None and context.connection.has_gone():
        error = gone  # the search may have ended for that
    if error is not None:
        raise error
    return end if record is None else record.offset


async def _move(context: RemotingContext, group: str, found: Found, offset: int) -> None:
    """Keep the position, and have members go on there."""
    resets, hosted = context.front.resets, found.hosted
    hosted.check_still_led()
    has_members = bool(context.front.members.client_ids(group))
    if has_members:  # before the position moves, or a member may move it back meanwhile
        resets.mark(group, hosted, offset)
    told: asyncio.Future[PlatformError | None]
    told, tell = awaited()
    commit(context.front.desk, group, hosted, offset, tell)
    error = await told
    if error is not None:
        resets.take(group, hosted)
        raise error
