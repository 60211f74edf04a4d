"""Where a group begins to pop a queue that it has not popped before.

    the group has a position there (it pulled before)    at that
    else, as the client asks                             at the start, or at the end

The coordinator of the group is asked first, and notes the queue, so that whoever deletes the group
finds it (docs/adr/0105). That is a share group of the name `rmq.pop.GROUP`.

Source: RocketMQ 5.3.3 `PopMessageProcessor.getPopOffset`, `ConsumeInitMode`.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from penstock.base.errors import PlatformError
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
    from penstock.remoting.gate import Found
    from penstock.remoting.request import RemotingContext
    from penstock.shares.state import ShareKey


async def begin(
    context: RemotingContext, group: str, key: ShareKey, found: Found, *, is_from_end: bool
) -> WhyNot | None:
    """Have a share begun; return why it has not, LOADING where that is not known yet.

    Raises PlatformError.
    """
    hosted, may_begin = found.hosted, context.front.may_begin
    epoch = hosted.member.leader_epoch
    await context.front.ensure_groups()
    said = may_begin.of(key, epoch)
    if said is None or not knows_the_end(hosted):
        return Unavailable.LOADING  # who watches the share is told
    if said is not ErrorCode.NONE:
        raise PopUnavailable(f"group {group} may not begin in this queue: {said.name}")
    why_not = await ready(context.broker, key)
    if why_not is not Unavailable.NOT_STARTED:
        return why_not
    try:
        position = await _position(context, group, found)
    except PositionRefused:
        return Unavailable.LOADING
    first = first_offset(hosted, context.broker.tier)
    if first is None:
        return Unavailable.LOADING
    offset: int = first
    if position is not None or is_from_end:
        end = await latest(hosted)
        offset = max(offset, end if position is None else min(position, end))
    if not may_begin.take(key, epoch):
        return Unavailable.LOADING
    return (await moved(context.broker, key, offset, Move.START)).why_not


async def _position(context: RemotingContext, group: str, found: Found) -> int | None:
    """Return a group's position; None if it has none. Raises PositionRefused."""
    asked: asyncio.Future[int | None] = asyncio.get_running_loop().create_future()

    def told(position: int | None, error: PlatformError | None) -> None:
        if asked.done():
            return
        if error is not None:
            asked.set_exception(error)
        else:
            asked.set_result(position)

    find(context, group, found, told)
    return await asked
