"""A fetch request of many partitions, from its bytes to its answer, in slices (long_fetch.py).

Source: as in kafka/handlers/records/fetch.py, which handles the short ones.
"""

from collections.abc import Collection
from functools import partial
from typing import Any

from penstock.base.ids import NO_LEADER_EPOCH
from penstock.broker.fetch.consumer import Consumer
from penstock.broker.fetch.long_fetch import SLICE, LongFetch
from penstock.broker.fetch.partition_read import PartitionKey, PartitionRead
from penstock.broker.tier.view import TierClient
from penstock.broker.turns import Pace
from penstock.kafka.context import RequestContext
from penstock.kafka.fetch.parts import READ_COMMITTED, answer_bytes, find, selector_of, session_of
from penstock.kafka.fetch.reply import TOPIC_ID_VERSION, FetchReply
from penstock.kafka.fetch.session import (
    NO_SESSION,
    FetchSession,
    SessionPartition,
)
from penstock.kafka.let_go import let_go
from penstock.kafka.request import Reply
from penstock.kafka.session_epochs import FINAL_EPOCH, INITIAL_EPOCH
from penstock.protocol.api_keys import ApiKey
from penstock.protocol.error_codes import ErrorCode
from penstock.protocol.fetch import FetchRequest
from penstock.protocol.header import RequestHeader
from penstock.protocol.messages import decode_request_slices

WAIT_MS_MAX = 30_000
"""A longer poll is answered empty after this time, and the consumer fetches again. It limits how
long the fetches of disconnected clients stay parked."""
WIRE_BYTES_MIN = 16
"""Bytes of a partition in a request of the oldest version."""


async def decode_long(
    context: RequestContext, header: RequestHeader, frame: bytes, reply: Reply
) -> None:
    """Decode a request of many partitions in slices, update its session, read, and answer."""
    broker = context.broker
    fetch = LongFetch(broker, reply.connection)
    try:
        if not await fetch.begin(len(frame) // WIRE_BYTES_MIN):
            return
        async with broker.long_places.place(len(frame)):
            request, session, wanted = await _decoded(context, header, frame, reply)
        version = header.api_version
        if isinstance(session, ErrorCode):
            FetchReply(broker, reply, version, None, is_incremental=False).fail(session)
            return
        is_incremental = session is not None and request.session_epoch > INITIAL_EPOCH
        answer = FetchReply(broker, reply, version, session, is_incremental)
        if request.max_bytes == 0:
            answer.send([])
            return
        await _answer(context, fetch, request, wanted, answer)
    finally:
        fetch.close()


async def _decoded(
    context: RequestContext, header: RequestHeader, frame: bytes, reply: Reply
) -> tuple[FetchRequest, FetchSession | ErrorCode | None, list[SessionPartition]]:
    """Return the request without its partitions, its session, and all partitions to read.

    Its `max_bytes` is 0 for a client above its quota, which gets no new session.
    """
    version, broker, cache = header.api_version, context.broker, context.front.fetch_sessions
    pace = Pace(broker.turns)
    slices = decode_request_slices(ApiKey.FETCH, version, memoryview(frame), header.body_at)
    owned = [await broker.turns.run(slices, reply.note_turn)]
    wanted, forgotten = await _named(owned[0], version, pace)
    request = _without_partitions(owned[0])
    await broker.turns.run(let_go(owned), reply.note_turn)
    quota_bytes = reply.fetch_bytes_max
    is_over = quota_bytes == 0
    session = session_of(
        context,
        request,
        [] if is_over and request.session_epoch <= INITIAL_EPOCH else wanted[:SLICE],
        version,
        client=reply.connection,
        count=len(wanted),
    )
    for at in range(0, max(len(wanted), len(forgotten)), SLICE):
        if not isinstance(session, FetchSession):
            break
        await pace.step(SLICE)
        parts, gone = wanted[at : at + SLICE], forgotten[at : at + SLICE]
        if not cache.apply(session, parts, gone):
            is_new = request.session_epoch == INITIAL_EPOCH
            session = None if is_new else ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    if isinstance(session, FetchSession):
        wanted = list(session.partitions.values())
    request = request._replace(max_bytes=answer_bytes(broker, request, quota_bytes))
    return request, session, wanted


async def _named(
    body: Any, version: int, pace: Pace
) -> tuple[list[SessionPartition], list[PartitionKey]]:
    """Return the partitions that a request names, and those that it forgets."""
    wanted: list[SessionPartition] = []
    for topic in body.topics:
        await pace.step()
        name = _key_of(topic, version)
        for part in topic.partitions:
            await pace.step()
            wanted.append(
                SessionPartition(
                    (name, part.partition),
                    part.fetch_offset,
                    part.partition_max_bytes,
                    getattr(part, "current_leader_epoch", NO_LEADER_EPOCH),
                    getattr(part, "last_fetched_epoch", NO_LEADER_EPOCH),
                )
            )
    forgotten: list[PartitionKey] = []
    for topic in getattr(body, "forgotten_topics_data", ()):
        await pace.step(1 + len(topic.partitions) // SLICE)
        name = _key_of(topic, version)
        forgotten += [(name, partition) for partition in topic.partitions]
    return wanted, forgotten


def _key_of(topic: Any, version: int) -> bytes:
    if version < TOPIC_ID_VERSION:
        return str(topic.topic).encode()
    return bytes(16) if topic.topic_id is None else bytes(topic.topic_id.bytes)


def _without_partitions(body: Any) -> FetchRequest:
    return FetchRequest(
        max_wait_ms=round(body.max_wait.total_seconds() * 1000),
        min_bytes=body.min_bytes,
        max_bytes=body.max_bytes,
        isolation_level=body.isolation_level,
        session_id=getattr(body, "session_id", NO_SESSION),
        session_epoch=getattr(body, "session_epoch", FINAL_EPOCH),
        partitions=[],
        forgotten=[],
        rack_id=getattr(body, "rack_id", ""),
        replica_id=-1,
        cluster_id=None,
    )


async def look_long(
    context: RequestContext,
    request: FetchRequest,
    wanted: Collection[SessionPartition],
    answer: FetchReply,
) -> None:
    """Read the many partitions of a short request, and answer."""
    fetch = LongFetch(context.broker, answer.connection)
    try:
        if await fetch.begin(len(wanted)):
            await _answer(context, fetch, request, list(wanted), answer)
    finally:
        fetch.close()


async def _answer(
    context: RequestContext,
    fetch: LongFetch,
    request: FetchRequest,
    wanted: list[SessionPartition],
    answer: FetchReply,
) -> None:
    broker = context.broker
    fetch.have(len(wanted))
    reads: list[PartitionRead] = []
    for at in range(0, len(wanted), SLICE):
        await broker.turns.next()
        reads += find(context, wanted[at : at + SLICE], answer.version)
    consumer = Consumer(
        selector_of(broker, answer.version, request.rack_id, answer.connection),
        answer.has_session,
        turn=partial(broker.look_ups.ask, answer.connection),
        tier=TierClient(answer.connection, fetch.on_changed),
        is_committed=request.isolation_level == READ_COMMITTED,
    )
    wait_ms = min(request.max_wait_ms, WAIT_MS_MAX)
    if await fetch.read(reads, consumer, request.max_bytes, wait_ms):
        await answer.send_in_turns(reads)
    await broker.turns.run(let_go(wanted), answer.note_turn)
    await broker.turns.run(let_go(reads), answer.note_turn)
