"""Where a group begins to pop a queue that it has not popped before.

    the group has a position there (it pulled before)    at that
    else, as the client asks                             at the start, at the end, or at the start
                                                         where the queue is young and else the end

Whether the order of message groups is kept is decided here, too, by what is set for the group.

The coordinator of the group is asked first, and notes the queue, so that whoever deletes the group
finds it (docs/adr/0105). That is a share group of the name `rmq.pop.GROUP`.

Source: RocketMQ 5.3.3 `PopMessageProcessor.getPopOffset`, `ConsumeInitMode`.
"""

from __future__ import annotations

import asyncio
from enum import Enum
from typing import TYPE_CHECKING, Final

from penstock.base.errors import PlatformError
from penstock.broker.coordinators.share_policies import keeps_order
from penstock.broker.fetch.watermarks import knows_the_end
from penstock.broker.shares.moving import latest, moved
from penstock.broker.shares.waiting import ready
from penstock.broker.tier.reach import first_offset
from penstock.protocol.error_codes import ErrorCode
from penstock.remoting.errors import PopUnavailable, PositionRefused
from penstock.remoting.positions import find
from penstock.shares.coordinator import Move
from penstock.shares.messages import Unavailable, WhyNot

if TYPE_CHECKING:
    from penstock.broker.partitions import HostedPartition
    from penstock.remoting.pop.desk import PopDesk
    from penstock.shares.state import ShareKey


YOUNG_MAX: Final = 10_000
"""Messages of a young queue."""


class Begins(Enum):
    """Where a group begins that has no position."""

    START = "at the first message"
    END = "behind the last message"
    WHILE_YOUNG = "at the first message, where a queue has all of few; else behind the last one"
    """RocketMQ asks whether the first message is in memory (initPopOffsetByCheckMsgInMem)."""


async def begin(
    desk: PopDesk, group: str, key: ShareKey, hosted: HostedPartition, begins: Begins
) -> WhyNot | None:
    """Have a share begun; return why it has not, LOADING where that is not known yet.

    Raises PlatformError.
    """
    may_begin = desk.may_begin
    epoch = hosted.member.leader_epoch
    await desk.ensure_groups()
    said = may_begin.of(key, epoch)
    if said is None or not knows_the_end(hosted):
        return Unavailable.LOADING  # who watches the share is told
    if said is not ErrorCode.NONE:
        raise PopUnavailable(f"group {group} may not begin in this queue: {said.name}")
    why_not = await ready(desk.broker, key)
    if why_not is not Unavailable.NOT_STARTED:
        return why_not
    try:
        position = await _position(desk, group, hosted)
    except PositionRefused:
        return Unavailable.LOADING
    first = first_offset(hosted, desk.broker.tier)
    if first is None:
        return Unavailable.LOADING
    end = await latest(hosted)
    offset = _offset(first, end, position, begins)
    if not may_begin.take(key, epoch):
        return Unavailable.LOADING
    is_ordered = keeps_order(desk.broker.share_places.group_keys(group))
    why = Move.START_ORDERED if is_ordered else Move.START
    return (await moved(desk.broker, key, offset, why)).why_not


def _offset(start: int, end: int, position: int | None, begins: Begins) -> int:
    if position is not None:
        return max(start, min(position, end))
    is_young = start == 0 and end <= YOUNG_MAX
    if begins is Begins.START or (begins is Begins.WHILE_YOUNG and is_young):
        return start
    return max(start, end)


async def _position(desk: PopDesk, group: str, hosted: HostedPartition) -> int | None:
    """Return a group's position; None if it has none. Raises PositionRefused."""
    asked: asyncio.Future[int | None] = asyncio.get_running_loop().create_future()

    def told(position: int | None, error: PlatformError | None) -> None:
        if asked.done():
            return
        if error is not None:
            asked.set_exception(error)
        else:
            asked.set_result(position)

    find(desk, group, hosted, told)
    return await asked
