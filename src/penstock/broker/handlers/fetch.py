"""Fetch (key 1), versions 4 to 18: whole batches from partitions, with long poll and sessions.

    parse ─► session: which partitions, and is the epoch right? ─► FetchOperation ─► answer

An incremental session's answer names only partitions with news (KIP-227); any other answer names
all that were asked for, in their order. Aborted transactions are never listed: there are none. The
last stable offset is the high watermark for the same reason. Any replica id is treated as a
consumer's: replicas of Penstock do not speak this protocol (CVE-2018-1288).

Who asks the wrong broker, or with an old leader epoch, hears who leads (v12; where that broker
listens from v16 on). From v11 on a consumer can be sent to a slave, and be served by one.

Source: Kafka `KafkaApis.handleFetchRequest`, KIP-74, KIP-227, KIP-320, KIP-392, KIP-516, KIP-951.
"""

from penstock.broker.broker import Broker
from penstock.broker.config import SlaveReads
from penstock.broker.fetch_operation import Consumer, FetchOperation, PartitionRead
from penstock.broker.fetch_session import (
    FINAL_EPOCH,
    INITIAL_EPOCH,
    NO_SESSION,
    FetchSession,
    SessionPartition,
)
from penstock.broker.leader_hints import HINTED, LeaderHints
from penstock.broker.partitions import HostedTopic, hosted_partition
from penstock.broker.request import Reply
from penstock.broker.slave_reads import ReplicaSelector
from penstock.protocol.api_keys import ApiKey
from penstock.protocol.error_codes import ErrorCode
from penstock.protocol.fetch import (
    FetchAnswer,
    FetchRequest,
    encode_fetch_response,
    make_tuple,
    parse_fetch_request,
)
from penstock.protocol.header import RequestHeader

KEY = ApiKey.FETCH
VERSIONS = range(4, 19)
TOPIC_ID_VERSION = 13
RACK_VERSION = 11
HINT_VERSION = 12
WAIT_MS_MAX = 30_000
"""A longer poll is answered empty after this time, and the consumer asks again. It bounds how long
the fetches of clients that have gone stay parked."""


class FetchReply:
    """Turns what the operation read into an answer of the request's version and session."""

    __slots__ = ("_broker", "_is_incremental", "_reply", "_session", "_version")

    def __init__(
        self,
        broker: Broker,
        reply: Reply,
        version: int,
        session: FetchSession | None,
        is_incremental: bool,
    ) -> None:
        self._broker = broker
        self._reply = reply
        self._version = version
        self._session = session
        self._is_incremental = is_incremental

    def send(self, reads: list[PartitionRead]) -> None:
        """Send the records; called once, by the operation."""
        session = self._session
        if session is not None:
            is_full = not self._is_incremental
            reads = [read for read in reads if _has_news(read, session) or is_full]
        hints = None
        if self._version >= HINT_VERSION and any(read.error for read in reads):
            hints = LeaderHints(self._broker.metadata, _topics(self._broker, self._version))
        answers = [self._answer(read, hints) for read in reads]
        self._broker.stats.bytes_fetched += sum([read.size for read in reads])
        body = encode_fetch_response(
            self._version,
            answers,
            session_id=NO_SESSION if session is None else session.session_id,
            endpoints=() if hints is None else hints.endpoints,
        )
        self._reply.send(body)

    def fail(self, error: ErrorCode) -> None:
        """Answer the whole request with an error of its session."""
        self._reply.send(encode_fetch_response(self._version, [], error_code=error))

    def _answer(self, read: PartitionRead, hints: LeaderHints | None) -> FetchAnswer:
        topic, partition = read.wanted.key
        error = read.error
        leader = hints.of(topic, partition) if hints is not None and error in HINTED else None
        if error and self._version >= TOPIC_ID_VERSION:
            error = _by_topic_id(error)
        last_stable_offset = end = read.high_watermark
        start, buffers, diverging = read.log_start_offset, read.buffers, read.diverging
        told = (read.preferred, diverging, leader)
        offsets = (end, last_stable_offset, start)
        return make_tuple(FetchAnswer, (topic, partition, error, *offsets, buffers, None, *told))


def _by_topic_id(error: ErrorCode) -> ErrorCode:
    """A client that names topics by id hears that the id is unknown."""
    if error is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        return ErrorCode.UNKNOWN_TOPIC_ID
    return error


def _has_news(read: PartitionRead, session: FetchSession) -> bool:
    """Say whether an incremental answer names the partition; served ones go behind the others."""
    if read.size:
        session.served(read.wanted.key)
    return read.wanted.has_news(
        size=read.size,
        is_told=read.is_told,
        high_watermark=read.high_watermark,
        log_start_offset=read.log_start_offset,
    )


def handle_frame(broker: Broker, header: RequestHeader, frame: memoryview, reply: Reply) -> None:
    """Answer now, or when there is something to send; raises WireError."""
    version = header.api_version
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
    session = _session_of(broker, request, wanted, version)
    if isinstance(session, ErrorCode):
        FetchReply(broker, reply, version, None, is_incremental=False).fail(session)
        return
    is_incremental = session is not None and request.session_epoch > INITIAL_EPOCH
    if session is not None:
        wanted = list(session.partitions.values())
    reads = _find(broker, wanted, version)
    max_bytes = max(1, min(request.max_bytes, broker.config.fetch_max_bytes))
    operation = FetchOperation(
        broker,
        reads,
        min_bytes=min(request.min_bytes, max_bytes),
        max_bytes=max_bytes,
        on_done=FetchReply(broker, reply, version, session, is_incremental).send,
        consumer=Consumer(_selector(broker, version, request.rack_id), session is not None),
    )
    operation.start(min(request.max_wait_ms, WAIT_MS_MAX))


def _find(broker: Broker, wanted: list[SessionPartition], version: int) -> list[PartitionRead]:
    topics = _topics(broker, version)
    reads: list[PartitionRead] = []
    for part in wanted:
        topic = topics.get(part.key[0])
        hosted = hosted_partition(topic, part.key[1])
        is_elsewhere = hosted is None and topic is not None and 0 <= part.key[1] < len(topic.placed)
        reads.append(PartitionRead(part, hosted, is_elsewhere))
    return reads


def _topics(broker: Broker, version: int) -> dict[bytes, HostedTopic]:
    return broker.partitions.by_id if version >= TOPIC_ID_VERSION else broker.partitions.by_name


def _selector(broker: Broker, version: int, rack: str) -> ReplicaSelector | None:
    """Only a consumer that can be told of another replica is sent there, or served by a slave."""
    if version < RACK_VERSION or broker.config.slave_reads == SlaveReads.OFF:
        return None
    return ReplicaSelector(broker, rack)


def _session_of(
    broker: Broker, request: FetchRequest, wanted: list[SessionPartition], version: int
) -> FetchSession | ErrorCode | None:
    """Make, continue or end a session as the request says; None where there is none."""
    cache = broker.fetch_sessions
    epoch = request.session_epoch
    now_ms = broker.clock.monotonic_ms()
    uses_topic_ids = version >= TOPIC_ID_VERSION
    if epoch == FINAL_EPOCH:
        cache.close(request.session_id)
        return None
    if epoch == INITIAL_EPOCH:
        cache.close(request.session_id)
        session = cache.create(uses_topic_ids, now_ms) if wanted else None
        if session is not None and not cache.apply(session, wanted, ()):
            return None
        return session
    found = cache.resume(request.session_id, epoch, uses_topic_ids=uses_topic_ids, now_ms=now_ms)
    if isinstance(found, FetchSession) and not cache.apply(found, wanted, request.forgotten):
        return ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    return found
