"""Freeing what a member holds, when its session ends or it leaves its group.

Source: Kafka `SharePartitionManager.releaseSession`, `SharePartition.releaseAcquiredRecords`.
"""

import asyncio
from collections.abc import Iterable

from penstock.broker.awaited import awaited
from penstock.broker.broker import Broker
from penstock.broker.turns import Pace
from penstock.kafka.shares.codes import code_of
from penstock.protocol.error_codes import ErrorCode
from penstock.shares.messages import Answer, Unavailable
from penstock.shares.state import ShareKey

CHANGE = 5
"""What a change costs in steps of a turn: it is encoded and written, 50 us."""


async def free(broker: Broker, keys: Iterable[ShareKey], member: str) -> ErrorCode:
    """Free what a member holds of these shares; return the last error, if there is one.

    A share that is not here any more, or has not begun, has nothing to be freed.
    """
    pace = Pace(broker.turns)
    waiting: list[asyncio.Future[Answer]] = []
    for key in keys:
        await pace.step(CHANGE)
        told: asyncio.Future[Answer]
        told, tell = awaited()
        waiting.append(told)
        broker.shares.leave(key, member, tell)
    worst = ErrorCode.NONE
    async with broker.long_places.away():
        for answer in [await told for told in waiting]:
            if answer.why_not not in {None, Unavailable.NOT_HERE, Unavailable.NOT_STARTED}:
                worst = code_of(answer.why_not)
    return worst
