"""Encodes the result of a fetch as an answer of the request's version and session.

An incremental session's answer has only partitions with news (KIP-227); any other has all.

Source: as in kafka/handlers/records/fetch.py.
"""

from penstock.broker.broker import Broker
from penstock.broker.fetch.partition_read import PartitionRead
from penstock.kafka.answers.leader_hints import HINTED, LeaderHints
from penstock.kafka.audited import note_fetched
from penstock.kafka.error_map import error_code_of
from penstock.kafka.fetch.session import NO_SESSION, FetchSession, SessionPartition
from penstock.kafka.gate import topics_by_key
from penstock.kafka.request import Reply
from penstock.net.connection import Connection
from penstock.protocol.compiled import encode_fetch_response
from penstock.protocol.error_codes import ErrorCode
from penstock.protocol.fetch import FetchAnswer, make_tuple
from penstock.protocol.fetch_slices import fetch_answer_slices

_NO_ERROR = ErrorCode.NONE
"""As a constant, since accessing a member of an enum costs a look-up each time."""
TOPIC_ID_VERSION = 13
HINT_VERSION = 12


class FetchReply:
    """Turns the partitions read into an answer of the request's version and session."""

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

    @property
    def version(self) -> int:
        """The version of the request."""
        return self._version

    @property
    def has_session(self) -> bool:
        """Whether the request belongs to a session."""
        return self._session is not None

    @property
    def connection(self) -> Connection:
        """The connection of the request."""
        return self._reply.connection

    def note_turn(self, microseconds: int) -> None:
        """Count a part of this request that held the loop."""
        self._reply.note_turn(microseconds)

    def send(self, reads: list[PartitionRead]) -> None:
        """Send the records; called once, by the operation."""
        session = self._session
        if session is not None:
            is_full = not self._is_incremental
            reads = [read for read in reads if _has_news(read, session) or is_full]
        hints = None
        if self._version >= HINT_VERSION and [read for read in reads if read.error is not None]:
            hints = LeaderHints(
                self._broker.metadata,
                topics_by_key(self._broker, self._version >= TOPIC_ID_VERSION),
                self._reply.connection.listener_name,
            )
        answers = [self._answer(read, hints) for read in reads]
        self._count(reads)
        body = encode_fetch_response(
            self._version,
            answers,
            session_id=NO_SESSION if session is None else session.session_id,
            endpoints=() if hints is None else hints.endpoints,
        )
        self._reply.send(body)

    async def send_in_turns(self, reads: list[PartitionRead]) -> None:
        """Send the records of many partitions; without hints of other leaders."""
        session = self._session
        session_id = NO_SESSION if session is None else session.session_id
        told = (
            self._answer(read, None)
            for read in reads
            if session is None or _has_news(read, session) or not self._is_incremental
        )
        slices = fetch_answer_slices(self._version, told, session_id=session_id)
        body = await self._broker.turns.run(slices, self._reply.note_turn)
        self._count(reads)
        self._reply.send(body)

    def _count(self, reads: list[PartitionRead]) -> None:
        self._broker.stats.bytes_fetched += sum([read.size for read in reads])
        if self._broker.audit is not None:
            note_fetched(self._reply.measure, reads)

    def fail(self, error: ErrorCode) -> None:
        """Answer the whole request with an error of its session."""
        self._reply.send(encode_fetch_response(self._version, [], error_code=error))

    def _answer(self, read: PartitionRead, hints: LeaderHints | None) -> FetchAnswer:
        topic, partition = read.wanted.key
        error = _NO_ERROR if read.error is None else error_code_of(read.error)
        leader = hints.of(topic, partition) if hints is not None and error in HINTED else None
        if error and self._version >= TOPIC_ID_VERSION:
            error = _by_topic_id(error)
        told = (read.buffers, read.aborted, read.preferred, read.diverging, leader)
        offsets = (read.high_watermark, read.stable_offset, read.log_start_offset)
        return make_tuple(FetchAnswer, (topic, partition, error, *offsets, *told))


def _by_topic_id(error: ErrorCode) -> ErrorCode:
    """Return the code that says unknown topic to a client that uses topic ids."""
    if error is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        return ErrorCode.UNKNOWN_TOPIC_ID
    return error


def _has_news(read: PartitionRead, session: FetchSession) -> bool:
    """Whether an incremental answer has the partition; one with records moves to the end."""
    if read.size:
        session.served(read.wanted.key)
    told = read.wanted
    assert isinstance(told, SessionPartition)
    return told.has_news(
        size=read.size,
        is_told=read.is_told,
        high_watermark=read.high_watermark,
        log_start_offset=read.log_start_offset,
    )
