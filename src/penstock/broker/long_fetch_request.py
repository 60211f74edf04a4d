"""A fetch request of many partitions, from its bytes to its answer, in slices (long_fetch.py).

Source: as in handlers/fetch.py, which takes those that are short.
"""

from typing import Any

from penstock.broker.broker import Broker
from penstock.broker.fetch_operation import Consumer, PartitionRead
from penstock.broker.fetch_parts import answer_bytes, find, selector_of, session_of
from penstock.broker.fetch_reply import TOPIC_ID_VERSION, FetchReply
from penstock.broker.fetch_session import (
    FINAL_EPOCH,
    INITIAL_EPOCH,
    NO_SESSION,
    FetchSession,
    PartitionKey,
    SessionPartition,
)
from penstock.broker.long_fetch import SLICE, LongFetch
from penstock.broker.request import Reply
from penstock.broker.turns import Pace
from penstock.protocol.api_keys import ApiKey
from penstock.protocol.error_codes import ErrorCode
from penstock.protocol.fetch import FetchRequest
from penstock.protocol.header import RequestHeader
from penstock.protocol.messages import decode_request_slices

WAIT_MS_MAX = 30_000
"""A longer poll is answered empty after this time, and the consumer asks again. It bounds how long
the fetches of clients that have gone stay parked."""


async def decode_long(broker: Broker, header: RequestHeader, frame: bytes, reply: Reply) -> None:
    """Decode a request of many partitions in slices, let its session follow, and look."""
    version, pace, cache = header.api_version, Pace(broker.turns), broker.fetch_sessions
    async with broker.long_places:
        if reply.connection.has_gone():
            return
        slices = decode_request_slices(ApiKey.FETCH, version, memoryview(frame), header.body_at)
        body = await broker.turns.run(slices, reply.note_turn)
        wanted, forgotten = await _named(body, version, pace)
        request = _without_partitions(body)
        session = session_of(broker, request, wanted[:SLICE], version)
        for at in range(0, max(len(wanted), len(forgotten)), SLICE):
            if not isinstance(session, FetchSession):
                break
            await pace.step(SLICE)
            parts, gone = wanted[at : at + SLICE], forgotten[at : at + SLICE]
            if not cache.apply(session, parts, gone):
                is_new = request.session_epoch == INITIAL_EPOCH
                session = None if is_new else ErrorCode.FETCH_SESSION_ID_NOT_FOUND
        del body
    if isinstance(session, ErrorCode):
        FetchReply(broker, reply, version, None, is_incremental=False).fail(session)
        return
    is_incremental = session is not None and request.session_epoch > INITIAL_EPOCH
    if session is not None:
        wanted = list(session.partitions.values())
    answer = FetchReply(broker, reply, version, session, is_incremental)
    max_bytes = answer_bytes(broker, request)
    await look_long(broker, request._replace(max_bytes=max_bytes), wanted, answer)


async def _named(
    body: Any, version: int, pace: Pace
) -> tuple[list[SessionPartition], list[PartitionKey]]:
    """Return the partitions that a request names, and those that it drops."""
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
                    getattr(part, "current_leader_epoch", -1),
                    getattr(part, "last_fetched_epoch", -1),
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
    broker: Broker, request: FetchRequest, wanted: list[SessionPartition], answer: FetchReply
) -> None:
    """Look at many partitions in slices, and answer."""
    version = answer.version
    reads: list[PartitionRead] = []
    for at in range(0, len(wanted), SLICE):
        await broker.turns.next()
        reads += find(broker, wanted[at : at + SLICE], version)
    consumer = Consumer(selector_of(broker, version, request.rack_id), answer.has_session)
    fetch = LongFetch(
        broker, answer.connection, reads, max_bytes=request.max_bytes, consumer=consumer
    )
    try:
        await fetch.read(min(request.max_wait_ms, WAIT_MS_MAX))
        await answer.send_in_turns(reads)
    finally:
        fetch.close()
