"""ShareFetch (key 78), versions 1 and 2: acknowledge records of a share group, and get more.

    refused? ─► session ─► acknowledgements are done ─► records are handed out, or waited for
                                            └───── confirmed ─────┴─► answer

Epoch 0 opens a session and -1 closes it (kafka/shares/sessions.py). An answer has the partitions
that were acknowledged, those with records, and those with errors; records come as whole batches
with the ranges that the member was handed. Errors that it has heard do not end its wait. A request
that renews (v2) gets no records.

Source: KIP-932, KIP-1206 (strict counts), KIP-1222 (renewal); Kafka
`KafkaApis.handleShareFetchRequest`, `SharePartitionManager`.
"""

from collections.abc import Mapping
from typing import Any

from penstock.broker.shares.waiting import ShareWait
from penstock.broker.turns import Pace
from penstock.kafka.context import RequestContext
from penstock.kafka.request import Request
from penstock.kafka.session_epochs import FINAL_EPOCH, INITIAL_EPOCH
from penstock.kafka.shares.acknowledging import Acknowledging, Rules, check, rules_of
from penstock.kafka.shares.fetching import (
    BYTES_MAX,
    RECORDS_MAX,
    WAIT_S_MAX,
    Limits,
    ShareFetching,
    SharePart,
)
from penstock.kafka.shares.group_keys import ShareGroupKeys, keys_of
from penstock.kafka.shares.news import has_news, told_before, with_news
from penstock.kafka.shares.parts import (
    AnswerParts,
    Finder,
    all_forgotten,
    all_named,
    failed,
    refusal_of,
)
from penstock.kafka.shares.sessions import (
    ShareSession,
    TopicIdPartition,
)
from penstock.protocol.api_keys import ApiKey
from penstock.protocol.error_codes import ErrorCode
from penstock.shares.state import ShareKey

KEY = ApiKey.SHARE_FETCH
VERSIONS = range(1, 3)
STRICT = 1
"""The acquire mode in which the number of records is not exceeded."""

Acks = dict[TopicIdPartition, Acknowledging | ErrorCode]
Asked = list[tuple[TopicIdPartition, Any]]
"""Partitions that a request names, with what it says of them."""


async def handle(context: RequestContext, request: Request) -> Mapping[str, Any]:
    """Answer when there is something to send, or the time is over."""
    body, rules = request.body, rules_of(request.api_version, request.body)
    asked = await all_named(Pace(context.broker.turns), body.topics)
    said = [one for one in asked if one[1].acknowledgement_batches]
    error = refusal_of(context, body) or _misuse(body, rules, said)
    if error:
        return failed(error)
    session = await _session(context, request, [place for place, _ in asked])
    if isinstance(session, ErrorCode):
        return failed(session)
    front, is_final = context.front, body.share_session_epoch == FINAL_EPOCH
    keys = keys_of(context.broker, session.group)
    wait = ShareWait()
    session.begin(wait)
    acks = await _acknowledge(context, request, session, rules, said, keys.lock_ms)
    parts: list[SharePart] = []
    if not is_final and not rules.is_renewing:
        parts = await _fetched(context, request, session, keys, wait)
    answer = await _answer(context, session, parts, acks)
    if is_final:
        await front.close_share_session(session)
    lock = {"acquisition_lock_timeout_ms": keys.lock_ms}
    return {"error_code": ErrorCode.NONE, "error_message": None, **lock, **answer}


def _misuse(body: Any, rules: Rules, said: Asked) -> ErrorCode:
    """Return the error of a request that contradicts itself."""
    if said and body.share_session_epoch == INITIAL_EPOCH:
        return ErrorCode.INVALID_REQUEST
    sizes = (body.max_bytes, body.min_bytes, body.max_records, body.max_wait.total_seconds())
    if rules.is_renewing and any(sizes):
        return ErrorCode.INVALID_REQUEST
    return ErrorCode.NONE


async def _session(
    context: RequestContext, request: Request, places: list[TopicIdPartition]
) -> ShareSession | ErrorCode:
    """Return the session with the partitions that it has from this request on."""
    sessions, body = context.front.share_sessions, request.body
    group, member, epoch = body.group_id, body.member_id, body.share_session_epoch
    if epoch == INITIAL_EPOCH:
        session = sessions.open(group, member, request.connection, places)
        if session is ErrorCode.SHARE_SESSION_LIMIT_REACHED:
            await _pause(context, ShareWait(), _limits(request).wait_s)
        return session
    session = sessions.use(group, member, epoch, request.connection)
    if isinstance(session, ErrorCode) or epoch == FINAL_EPOCH:
        return session
    forgotten = await all_forgotten(Pace(context.broker.turns), body.forgotten_topics_data)
    return sessions.change(session, places, forgotten)


async def _acknowledge(  # noqa: PLR0917  what is said, and by whose rules
    context: RequestContext,
    request: Request,
    session: ShareSession,
    rules: Rules,
    said: Asked,
    lock_ms: int,
) -> Acks:
    """Do what is acknowledged; the outcomes come later."""
    pace, finder = Pace(context.broker.turns), Finder(context)
    acks: Acks = {}
    for place, part in said:
        await pace.step()
        if not request.is_first(place):
            continue
        batches = part.acknowledgement_batches
        found = await check(pace, batches, rules) or finder.find(place)
        if isinstance(found, ErrorCode):
            acks[place] = found
            continue
        key = ShareKey(session.group, *place)
        acks[place] = work = Acknowledging()
        await work.do(pace, context.broker, key, session.member, batches, lock_ms)
    return acks


async def _fetched(
    context: RequestContext,
    request: Request,
    session: ShareSession,
    keys: ShareGroupKeys,
    wait: ShareWait,
) -> list[SharePart]:
    """Return the partitions with something to tell: records, or errors; when there are some.

    One fetch of a session has its partitions at a time. Those before the newest have none: of many
    that came together each would take as much memory.
    """
    async with context.broker.long_places.away():
        await session.fetching.acquire()
    try:
        if session.newest is not wait or session.is_over:
            return []
        parts, is_news = await _parts(context, session)
        limits = _limits(request)
        fetching = ShareFetching(
            context.front, session, parts, keys=keys, limits=limits, request=request, wait=wait
        )
        if any(part.hosted for part in parts):
            await fetching.run(may_wait=not is_news)
        elif not is_news:
            await _pause(context, wait, limits.wait_s)
        return await with_news(context.broker, session, parts)
    finally:
        session.fetching.release()


async def _parts(context: RequestContext, session: ShareSession) -> tuple[list[SharePart], bool]:
    """Return the partitions of the session, and whether some have an error that is new."""
    pace, finder = Pace(context.broker.turns), Finder(context)
    parts: list[SharePart] = []
    is_news = False
    for place in [*session.partitions]:
        await pace.step()
        found = finder.find(place)
        key = ShareKey(session.group, *place)
        if isinstance(found, ErrorCode):
            parts.append(SharePart(key, None, found))
            is_news |= found != told_before(session, parts[-1])
        else:
            parts.append(SharePart(key, found, ErrorCode.NONE))
    return parts, is_news


def _limits(request: Request) -> Limits:
    body = request.body
    most = max(1, min(body.max_bytes, BYTES_MAX))
    return Limits(
        wait_s=min(max(body.max_wait.total_seconds(), 0), WAIT_S_MAX),
        min_bytes=min(body.min_bytes, most),
        max_bytes=most,
        max_records=min(body.max_records, RECORDS_MAX),
        batch_size=max(body.batch_size, 0),
        is_strict=getattr(body, "share_acquire_mode", 0) == STRICT,
    )


async def _pause(context: RequestContext, wait: ShareWait, seconds: float) -> None:
    """Let a member that gets nothing wait as if it had asked for records."""
    async with context.broker.long_places.away():
        await wait.until(seconds)


async def _answer(
    context: RequestContext, session: ShareSession, parts: list[SharePart], acks: Acks
) -> Mapping[str, Any]:
    pace, told = Pace(context.broker.turns), AnswerParts(context)
    by_place = {part.place: part for part in parts}
    places = dict.fromkeys([*acks, *by_place])
    for place in places:
        await pace.step()
        ack, part = acks.get(place), by_place.get(place)
        if ack is None and part is not None and not has_news(session, part):
            continue
        if isinstance(ack, Acknowledging):
            async with context.broker.long_places.away():
                ack = await ack.outcome()
        error = ErrorCode.NONE if part is None else part.error
        if part is not None:
            await pace.step(len(part.acquired) // 10)
            if place in session.partitions:
                session.partitions[place] = error
        told.add(place, error, _fields(part, error, ack or ErrorCode.NONE))
    return told.fields()


def _fields(part: SharePart | None, error: ErrorCode, ack: ErrorCode) -> dict[str, Any]:
    return {
        "error_code": error,
        "error_message": None,
        "acknowledge_error_code": ack,
        "acknowledge_error_message": None,
        "records": b"" if part is None else b"".join(part.buffers),
        "acquired_records": ()
        if part is None
        else [
            {"first_offset": first, "last_offset": last, "delivery_count": count}
            for first, last, count in part.acquired
        ],
    }
