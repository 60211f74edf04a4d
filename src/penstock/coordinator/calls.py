"""What a broker asks another broker, and what a caller hears of it.

    answer = await calls.ask(broker_id, VerifyRequest(...), timeout_ms=...)

    MarkersRequest  ─► MarkersResponse    write these transaction markers to partitions led there
    VerifyRequest   ─► VerifyResponse     is the partition in that transaction; or add it
    share_calls.py                        what share groups ask
    position_calls.py                     positions of groups that another broker coordinates
    recall_calls.py                       messages that wait in a set that another broker leads
    extent_calls.py                       what a member with a damaged extent file asks

    CallError
      CallNotBegun       nothing was done there
        CallsFull          too many calls to that broker wait already
        CallTooLarge       divide it
        CallNotSent        it waited for its time behind others, or for a link
        BrokerNotReached   no link: unknown address, refused, an earlier release
        CallNotServed      it has said that it does not know the question, or has nobody for it
      CallOutcomeUnknown it may have been done, or be done later
        CallTimedOut, LinkLost, CallFailed

Links, time-outs and bounds are in runtime/calls. Codes are Kafka's, as numbers; only those who ask
and answer know them.

Source: Kafka, WriteTxnMarkers and AddPartitionsToTxn between brokers (KIP-98, KIP-890, KIP-1228);
docs/adr/0090.
"""

from dataclasses import dataclass
from typing import NamedTuple, Protocol, overload

from penstock.base.errors import PlatformError
from penstock.base.ids import (
    NO_LEADER_EPOCH,
    BrokerId,
    CoordinatorEpoch,
    LeaderEpoch,
    ProducerEpoch,
    ProducerId,
)
from penstock.coordinator.extent_calls import (
    BatchesRequest,
    BatchesResponse,
    ExtentRequest,
    ExtentResponse,
)
from penstock.coordinator.position_calls import (
    CommitPositionRequest,
    DeleteGroupRequest,
    FetchPositionRequest,
    GroupPositionsRequest,
    GroupPositionsResponse,
    PositionResponse,
)
from penstock.coordinator.recall_calls import RecallRequest, RecallResponse
from penstock.coordinator.share_calls import (
    ShareBeginRequest,
    ShareChangeRequest,
    ShareCodesResponse,
    ShareLeaveRequest,
    ShareSummaryRequest,
    ShareSummaryResponse,
)

NO_TOPIC_ID = bytes(16)


class CallError(PlatformError):
    """A call without an answer."""


class CallNotBegun(CallError):
    """Nothing was done at the other broker; asking again is safe."""


class CallsFull(CallNotBegun):
    """Too many calls to that broker wait."""


class CallTooLarge(CallNotBegun):
    """The question has to be divided."""


class CallNotSent(CallNotBegun):
    """Not sent in time."""


class BrokerNotReached(CallNotBegun):
    """There is no link to that broker."""


class CallNotServed(CallNotBegun):
    """The other broker does not serve this question: another release, or not started that far."""


class CallOutcomeUnknown(CallError):
    """It may have been done, or may be done yet."""


class CallTimedOut(CallOutcomeUnknown):
    """No answer in time."""


class LinkLost(CallOutcomeUnknown):
    """The link ended between question and answer."""


class CallFailed(CallOutcomeUnknown):
    """The other broker began with it and could not end it, or its answer can not be read."""


class MarkedPartition(NamedTuple):
    """A partition that a marker goes to."""

    topic_id: bytes
    """16 bytes."""
    partition: int
    leader_epoch: LeaderEpoch = NO_LEADER_EPOCH
    """Of the mastership that is asked: none but that writes the marker. -1: any."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MarkerEntry:
    """The end of one transaction, for some of its partitions."""

    producer_id: ProducerId
    producer_epoch: ProducerEpoch
    coordinator_epoch: CoordinatorEpoch
    is_commit: bool
    transaction_version: int
    number: int = 0
    """Of the transaction, among those of its id; 0 if it is not told."""
    partitions: tuple[MarkedPartition, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class MarkersRequest:
    """Write these markers. `correlation` of each message is the business of the link."""

    entries: tuple[MarkerEntry, ...]
    correlation: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class MarkersResponse:
    """`codes[i][j]` is that of partition j of entry i."""

    codes: tuple[tuple[int, ...], ...]
    correlation: int = 0


class AskedPartition(NamedTuple):
    """A partition that a batch is for."""

    topic: str
    partition: int


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifyRequest:
    """Are these partitions in the transaction; unless `is_verify_only`, add those that are not."""

    transactional_id: str
    producer_id: ProducerId
    producer_epoch: ProducerEpoch
    is_verify_only: bool
    partitions: tuple[AskedPartition, ...]
    topic_ids: tuple[bytes, ...] = ()
    """By what ids the asking broker knows the topics, in the order in which `partitions` first
    names them; 16 bytes each. Empty if it does not tell."""
    correlation: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifyResponse:
    """One code for each partition, in their order."""

    codes: tuple[int, ...]
    number: int = 0
    """Of the transaction that they are in, among those of its id: told to who verifies only."""
    correlation: int = 0


ShareQuestion = ShareSummaryRequest | ShareChangeRequest | ShareLeaveRequest | ShareBeginRequest
ShareAnswer = ShareSummaryResponse | ShareCodesResponse
PositionQuestion = CommitPositionRequest | FetchPositionRequest
GroupQuestion = GroupPositionsRequest | DeleteGroupRequest
PositionAnswer = PositionResponse | GroupPositionsResponse
PieceQuestion = BatchesRequest | ExtentRequest
PieceAnswer = BatchesResponse | ExtentResponse
OfGroups = PositionQuestion | GroupQuestion
OfLogs = PieceQuestion | RecallRequest
Question = MarkersRequest | VerifyRequest | ShareQuestion | OfLogs | OfGroups
OfLogsAnswer = PieceAnswer | RecallResponse
Answer = MarkersResponse | VerifyResponse | ShareAnswer | OfLogsAnswer | PositionAnswer


class Caller(Protocol):
    """Asks brokers."""

    @overload
    async def ask(
        self, broker_id: BrokerId, question: MarkersRequest, *, timeout_ms: int
    ) -> MarkersResponse: ...
    @overload
    async def ask(
        self, broker_id: BrokerId, question: VerifyRequest, *, timeout_ms: int
    ) -> VerifyResponse: ...
    @overload
    async def ask(
        self, broker_id: BrokerId, question: ShareSummaryRequest, *, timeout_ms: int
    ) -> ShareSummaryResponse: ...
    @overload
    async def ask(
        self,
        broker_id: BrokerId,
        question: ShareChangeRequest | ShareLeaveRequest | ShareBeginRequest,
        *,
        timeout_ms: int,
    ) -> ShareCodesResponse: ...
    @overload
    async def ask(
        self, broker_id: BrokerId, question: BatchesRequest, *, timeout_ms: int
    ) -> BatchesResponse: ...
    @overload
    async def ask(
        self, broker_id: BrokerId, question: ExtentRequest, *, timeout_ms: int
    ) -> ExtentResponse: ...
    @overload
    async def ask(
        self,
        broker_id: BrokerId,
        question: CommitPositionRequest | FetchPositionRequest | DeleteGroupRequest,
        *,
        timeout_ms: int,
    ) -> PositionResponse: ...
    @overload
    async def ask(
        self, broker_id: BrokerId, question: GroupPositionsRequest, *, timeout_ms: int
    ) -> GroupPositionsResponse: ...
    @overload
    async def ask(
        self, broker_id: BrokerId, question: RecallRequest, *, timeout_ms: int
    ) -> RecallResponse: ...
    async def ask(self, broker_id: BrokerId, question: Question, *, timeout_ms: int) -> Answer:
        """Return the answer of a broker, perhaps of this one. Raises CallError."""


def fits(question: Question, answer: Answer) -> bool:
    """Whether an answer has exactly the codes that a question asks for."""
    match question, answer:
        case MarkersRequest(), MarkersResponse():
            asked = [len(entry.partitions) for entry in question.entries]
            return asked == [len(codes) for codes in answer.codes]
        case VerifyRequest(), VerifyResponse():
            return len(question.partitions) == len(answer.codes)
        case ShareSummaryRequest(), ShareSummaryResponse():
            return len(question.places) == len(answer.found)
        case ShareChangeRequest() | ShareBeginRequest() | ShareLeaveRequest(), ShareCodesResponse():
            return _codes_of(question) == len(answer.codes)
        case RecallRequest(), RecallResponse():
            return True
        case _:
            return _is_of_groups(question, answer) or _is_piece(question, answer)


def _is_of_groups(question: Question, answer: Answer) -> bool:
    """Whether an answer about positions and groups is of the kind that a question asks for."""
    if isinstance(question, GroupPositionsRequest):
        return isinstance(answer, GroupPositionsResponse)
    asked = CommitPositionRequest | FetchPositionRequest | DeleteGroupRequest
    return isinstance(question, asked) and isinstance(answer, PositionResponse)


def _is_piece(question: Question, answer: Answer) -> bool:
    """Whether an answer has no more bytes than are left of what a question asks for."""
    match question, answer:
        case BatchesRequest(skip=skip), BatchesResponse(batches=piece, total_bytes=total):
            return skip + len(piece) <= max(total, skip)
        case ExtentRequest(skip=skip), ExtentResponse(piece=piece, total_bytes=total):
            return skip + len(piece) <= max(total, skip)
        case _:
            return False


def _codes_of(question: ShareChangeRequest | ShareBeginRequest | ShareLeaveRequest) -> int:
    match question:
        case ShareChangeRequest():
            return len(question.changes)
        case ShareBeginRequest():
            return len(question.places)
        case ShareLeaveRequest():
            return 1
