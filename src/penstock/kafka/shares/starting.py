"""Where a share begins in a partition that its group has not read yet.

    latest        the high watermark
    earliest      the start of the log
    by_duration   the first record that is so old or younger; if there is none, the high watermark

It is decided once, by the first fetch or by the group's coordinator, and is durable before records
are handed out.

Source: KIP-932 (share.auto.offset.reset); Kafka `ShareFetchUtils.offsetForTimestamp`,
`SharePartition.startOffsetDuringInitialization`.
"""

import asyncio
from collections.abc import Callable

from penstock.base.errors import PlatformError
from penstock.broker.broker import Broker
from penstock.broker.fetch.record_search import Found
from penstock.broker.partitions import HostedPartition
from penstock.broker.shares.moving import latest, moved
from penstock.broker.tier.reach import first_offset
from penstock.broker.tier.search import TierSearch, queue_of
from penstock.configs.resource_keys import duration_ms
from penstock.kafka.request import Request
from penstock.shares.coordinator import Move
from penstock.shares.messages import Unavailable, WhyNot
from penstock.shares.state import ShareKey
from penstock.storage.read.needs_disk import Over


async def start(
    broker: Broker,
    key: ShareKey,
    hosted: HostedPartition,
    reset: str,
    request: Request,
    *,
    may: Callable[[], bool],
) -> WhyNot | None:
    """Begin a share where the group's key says; return why not, if so. Raises PlatformError.

    `may` says at the last moment whether it still may begin: in the same turn it does, so that a
    deletion by the group comes before that question, or finds the share.
    """
    if hosted.member.confirm_position < hosted.member.epoch_start:
        return Unavailable.LOADING  # a new master does not know the end yet (KIP-207)
    offset = await _offset(broker, hosted, reset, request)
    if offset is None or not may():
        return Unavailable.LOADING  # it is looked at again, and asked for anew
    answer = await moved(broker, key, offset, Move.START)
    return answer.why_not


async def _offset(
    broker: Broker, hosted: HostedPartition, reset: str, request: Request
) -> int | None:
    """Return where a share begins; None while it is not known where the partition does."""
    first = first_offset(hosted, broker.tier)
    if reset == "earliest":
        return first
    if reset != "latest":
        age_ms = duration_ms(reset)
        found = await _first_since(broker, hosted, broker.clock.wall_ms() - age_ms, request)
        if found is not None:
            return max(found.offset, first or 0)
    return await latest(hosted)


async def _first_since(
    broker: Broker, hosted: HostedPartition, timestamp_ms: int, request: Request
) -> Found | None:
    """Find the first record since then, in the turn of this client; None if it has gone."""
    told: asyncio.Future[Found | None] = asyncio.get_running_loop().create_future()

    def tell(found: Found | None, error: PlatformError | None) -> None:
        if told.done():
            return
        if error is None:
            told.set_result(found)
        else:
            told.set_exception(error)

    def begin(over: Over) -> None:
        def done(found: Found | None, error: PlatformError | None) -> None:
            tell(found, error)
            over()

        search = TierSearch(hosted, timestamp_ms, request.connection, broker.tier)
        search.first_up_to(hosted.member.confirm_position, done)

    queue_of(broker, hosted).ask(request.connection, begin, lambda: tell(None, None))
    async with broker.long_places.away():
        return await told
