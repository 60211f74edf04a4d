"""Fetch (key 1), versions 4 to 18: whole batches from partitions, with long poll and sessions.

    parse ─► session: its partitions, and the right epoch? ─► FetchOperation ─► answer

An incremental session's answer has only partitions with news (KIP-227); any other has all that were
requested, in their order. Aborted transactions are named to consumers of committed records only
(broker/fetch/committed.py). Any replica id is treated as a consumer's: replicas of Penstock do not
use this protocol (CVE-2018-1288).

A client above its quota is answered empty, at once; it gets no session for it, as in Kafka.

A client that uses the wrong broker or an old leader epoch gets the current leader (v12; its address
from v16 on). From v11 on a consumer can be directed to a slave, and be served by one.

Source: Kafka `KafkaApis.handleFetchRequest`, KIP-13, KIP-74, KIP-219, KIP-227, KIP-320, KIP-392,
KIP-516, KIP-951.
"""

from functools import partial

from penstock.broker.fetch.consumer import Consumer
from penstock.broker.fetch.long_fetch import PARTITIONS_HERE
from penstock.broker.fetch.operation import FetchOperation
from penstock.kafka.context import RequestContext
from penstock.kafka.fetch.long_request import WAIT_MS_MAX, decode_long, look_long
from penstock.kafka.fetch.parts import (
    READ_COMMITTED,
    answer_bytes,
    find,
    selector_of,
    session_of,
)
from penstock.kafka.fetch.reply import FetchReply
from penstock.kafka.fetch.session import SessionPartition
from penstock.kafka.request import Reply
from penstock.kafka.session_epochs import INITIAL_EPOCH
from penstock.protocol.api_keys import ApiKey
from penstock.protocol.compiled import parse_fetch_request
from penstock.protocol.error_codes import ErrorCode
from penstock.protocol.header import RequestHeader

KEY = ApiKey.FETCH
VERSIONS = range(4, 19)
LONG_FRAME_BYTES = 16 << 10
"""A shorter request names some 500 partitions at most."""


def handle_frame(
    context: RequestContext, header: RequestHeader, frame: memoryview, reply: Reply
) -> None:
    """Answer now, or when there is something to send. Raises WireError."""
    version, broker = header.api_version, context.broker
    if len(frame) > LONG_FRAME_BYTES:
        work = decode_long(context, header, bytes(frame), reply)
        context.front.run_long(reply, header, len(frame), work)
        return
    request = parse_fetch_request(frame, header.body_at, version)
    wanted = [
        SessionPartition(
            (part.topic, part.partition),
            part.fetch_offset,
            part.max_bytes,
            part.leader_epoch,
            part.last_fetched_epoch,
        )
        for part in request.partitions
    ]
    quota_bytes = reply.fetch_bytes_max
    is_over = quota_bytes == 0
    kept = [] if is_over and request.session_epoch <= INITIAL_EPOCH else wanted
    session = session_of(context, request, kept, version, client=reply.connection, count=len(kept))
    if isinstance(session, ErrorCode):
        FetchReply(broker, reply, version, None, is_incremental=False).fail(session)
        return
    is_incremental = session is not None and request.session_epoch > INITIAL_EPOCH
    if is_over:
        FetchReply(broker, reply, version, session, is_incremental).send([])
        return
    followed = wanted if session is None else session.partitions.values()
    max_bytes = answer_bytes(broker, request, quota_bytes)
    if len(followed) > PARTITIONS_HERE:
        request = request._replace(max_bytes=max_bytes)
        answer = FetchReply(broker, reply, version, session, is_incremental)
        context.front.run_long(reply, header, 0, look_long(context, request, followed, answer))
        return
    wanted = list(followed)
    reads = find(context, wanted, version)
    operation = FetchOperation(
        broker,
        reads,
        min_bytes=min(request.min_bytes, max_bytes),
        max_bytes=max_bytes,
        on_done=FetchReply(broker, reply, version, session, is_incremental).send,
        consumer=Consumer(
            selector_of(broker, version, request.rack_id, reply.connection),
            has_session=session is not None,
            room=reply.connection,
            turn=partial(broker.look_ups.ask, reply.connection),
            is_committed=request.isolation_level == READ_COMMITTED,
        ),
    )
    short = broker.short_fetches
    may_wait = short.may_wait(len(reads))
    operation.start(min(request.max_wait_ms, WAIT_MS_MAX) if may_wait else 0)
    short.watch(operation, reply.connection, len(reads))
