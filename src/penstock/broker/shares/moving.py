"""Letting shares begin, and where: what fronts ask the coordinator of shares for, and wait for.

Source: KIP-932 (InitializeShareGroupState); ours is asked of the node that has the data.
"""

import asyncio

from penstock.base.errors import PlatformError
from penstock.broker.awaited import awaited
from penstock.broker.broker import Broker
from penstock.broker.fetch.watermarks import find_high_watermark
from penstock.broker.partitions import HostedPartition
from penstock.shares.coordinator import Move
from penstock.shares.messages import Answer
from penstock.shares.state import ShareKey


async def moved(broker: Broker, key: ShareKey, offset: int, why: Move) -> Answer:
    """Let a share begin at an offset; the answer comes once that is confirmed."""
    told: asyncio.Future[Answer]
    told, tell = awaited()
    broker.shares.move(key, offset, why, tell)
    async with broker.long_places.away():
        return await told


async def latest(hosted: HostedPartition) -> int:
    """Return the high watermark, which the disk may have to tell. Raises PlatformError."""
    told: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    def done(offset: int | None, error: PlatformError | None) -> None:
        if told.done():
            return
        if offset is None:
            assert error is not None
            told.set_exception(error)
        else:
            told.set_result(offset)

    find_high_watermark(hosted, done)
    return await told
