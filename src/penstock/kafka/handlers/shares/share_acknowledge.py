"""ShareAcknowledge (key 79), versions 1 and 2: acknowledge records of a share group.

As the acknowledgements of a ShareFetch, in the same session, whose epoch counts on; it opens no
session. Epoch -1 closes it: what the member still holds then is free. The answer comes once
everything is confirmed.

Source: KIP-932, KIP-1222 (renewal, v2); Kafka `KafkaApis.handleShareAcknowledgeRequest`.
"""

from collections.abc import Mapping
from typing import Any

from penstock.broker.turns import Pace
from penstock.kafka.context import RequestContext
from penstock.kafka.request import Request
from penstock.kafka.session_epochs import FINAL_EPOCH, INITIAL_EPOCH
from penstock.kafka.shares.acknowledging import Acknowledging, check, rules_of
from penstock.kafka.shares.group_keys import keys_of
from penstock.kafka.shares.parts import AnswerParts, Finder, failed, named, refusal_of
from penstock.kafka.shares.sessions import TopicIdPartition
from penstock.protocol.api_keys import ApiKey
from penstock.protocol.error_codes import ErrorCode
from penstock.shares.state import ShareKey

KEY = ApiKey.SHARE_ACKNOWLEDGE
VERSIONS = range(1, 3)


async def handle(context: RequestContext, request: Request) -> Mapping[str, Any]:
    """Do what is acknowledged, and answer once that is confirmed."""
    body, front = request.body, context.front
    error = refusal_of(context, body)
    if not error and body.share_session_epoch == INITIAL_EPOCH:
        error = ErrorCode.INVALID_SHARE_SESSION_EPOCH
    if error:
        return failed(error)
    session = front.share_sessions.use(
        body.group_id, body.member_id, body.share_session_epoch, request.connection
    )
    if isinstance(session, ErrorCode):
        return failed(session)
    lock_ms = keys_of(context.broker, session.group).lock_ms
    answer = await _acknowledge(context, request, lock_ms)
    if body.share_session_epoch == FINAL_EPOCH:
        await front.close_share_session(session)
    lock = {"acquisition_lock_timeout_ms": lock_ms}
    return {"error_code": ErrorCode.NONE, "error_message": None, **lock, **answer}


async def _acknowledge(
    context: RequestContext, request: Request, lock_ms: int
) -> Mapping[str, Any]:
    body, rules = request.body, rules_of(request.api_version, request.body)
    pace, finder = Pace(context.broker.turns), Finder(context)
    begun: dict[TopicIdPartition, Acknowledging | ErrorCode] = {}
    for place, part in named(body.topics):
        await pace.step()
        if not request.is_first(place):
            continue
        batches = part.acknowledgement_batches
        found = await check(pace, batches, rules) or finder.find(place)
        if isinstance(found, ErrorCode):
            begun[place] = found
            continue
        key = ShareKey(body.group_id, *place)
        begun[place] = work = Acknowledging()
        await work.do(pace, context.broker, key, body.member_id, batches, lock_ms)
    told = AnswerParts(context)
    for place, one in begun.items():
        if isinstance(one, Acknowledging):
            async with context.broker.long_places.away():
                error = await one.outcome()
        else:
            error = one
        told.add(place, error, {"error_code": error, "error_message": None})
    return told.fields()
