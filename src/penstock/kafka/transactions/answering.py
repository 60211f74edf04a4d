"""Answers what other brokers ask: is a partition in a transaction, and write these markers.

Source: Kafka `KafkaApis.handleAddPartitionsToTxnRequest` (of brokers),
`handleWriteTxnMarkersRequest`.
"""

import asyncio

from penstock.base.errors import PlatformError
from penstock.base.ids import Position
from penstock.broker.append.append import partition_to_mark
from penstock.broker.append.markers import append_marker
from penstock.broker.append.verification import Verification, Verified, WantedPartition
from penstock.broker.broker import Broker
from penstock.broker.partitions import HostedPartition
from penstock.broker.turns import Pace
from penstock.coordinator.calls.asking import NO_TOPIC_ID
from penstock.coordinator.calls.transactions import (
    MarkedPartition,
    MarkerEntry,
    MarkersRequest,
    MarkersResponse,
    VerifyRequest,
    VerifyResponse,
)
from penstock.kafka.error_map import error_code_of
from penstock.kafka.gate import find_topic, hosted_topic_of_id
from penstock.kafka.transactions.entering import enter
from penstock.kafka.transactions.places import may_enter
from penstock.protocol.error_codes import ErrorCode
from penstock.replication.errors import ReplicationError
from penstock.storage.index.transactions import TransactionEnd
from penstock.transactions.messages import Producer
from penstock.transactions.state import BUMPING_VERSION, NO_NUMBER

CONFIRM_MS = 30_000
"""How long a marker may wait for its replicas: a caller that hears no code asks again."""
MARKER = 3
"""What a marker costs in steps of a turn: it is built, staged, written and indexed, 150 us."""


class MarkerWrite:
    """A marker in the log that waits to be confirmed."""

    __slots__ = ("_code", "deadline_ms")

    def __init__(self, deadline_ms: int) -> None:
        self.deadline_ms = deadline_ms
        self._code: asyncio.Future[ErrorCode] = asyncio.get_running_loop().create_future()

    async def outcome(self) -> ErrorCode:
        """Return how it ended."""
        return await self._code

    def complete(self) -> None:
        self._end(ErrorCode.NONE)

    def expire(self) -> bool:
        self._end(ErrorCode.REQUEST_TIMED_OUT)
        return False

    def fail(self) -> None:
        self._end(ErrorCode.KAFKA_STORAGE_ERROR)

    def refuse(self, error: ReplicationError) -> None:
        self._end(error_code_of(error))

    def shrunk(self, in_sync_count: int) -> None:
        """Ignore a smaller set: the marker is in the log, and is asked for again if it is lost."""

    def _end(self, code: ErrorCode) -> None:
        if not self._code.done():
            self._code.set_result(code)


class TransactionAnswers:
    """The handlers of one broker."""

    __slots__ = ("_broker",)

    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    async def verify(self, question: VerifyRequest) -> VerifyResponse:
        """Say for each partition whether it is in the transaction, or add it.

        One that the metadata here does not have, or not with that id, is not: UNKNOWN_TOPIC_OR_
        PARTITION, also if it was added by its name.
        """
        coordinator, name = self._broker.transactions, question.transactional_id
        producer = Producer(question.producer_id, question.producer_epoch)
        may = self._may_enter(question)
        known = [
            (one.topic, one.partition)
            for one, is_here in zip(question.partitions, may, strict=True)
            if is_here
        ]
        if question.is_verify_only:
            found = coordinator.verify(name, producer, known)
        elif known:
            code = await enter(coordinator, name, producer, known, BUMPING_VERSION, is_call=True)
            found = dict.fromkeys(known, code)
        else:
            found = {}
        codes = tuple(
            found[one.topic, one.partition] if is_here else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            for one, is_here in zip(question.partitions, may, strict=True)
        )
        number = coordinator.here.number_of(name) if question.is_verify_only else NO_NUMBER
        return VerifyResponse(codes=codes, number=number)

    def open_here(self, asked: Verification) -> Verified | None:
        """Say that all partitions are in the transaction, if they are and it is coordinated here.

        The usual answer, which this broker needs for each first batch; of any other None.
        """
        producer = Producer(asked.producer_id, asked.producer_epoch)
        one = self._broker.transactions.here.open_of(asked.transactional_id, producer)
        if one is None:
            return None
        for topic, partition, topic_id in asked.partitions:
            if (topic, partition) not in one.partitions:
                return None
            if not may_enter(find_topic(self._broker, topic), partition, topic_id):
                return None
        return Verified(dict.fromkeys(asked.partitions, ErrorCode.NONE), one.number)

    def verify_here(self, asked: Verification) -> Verified:
        """Say for each partition whether it is in the transaction, for this broker itself."""
        coordinator, name = self._broker.transactions, asked.transactional_id
        codes: dict[WantedPartition, int] = dict.fromkeys(
            asked.partitions, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        )
        known = {
            (one.topic, one.partition): one
            for one in asked.partitions
            if may_enter(find_topic(self._broker, one.topic), one.partition, one.topic_id)
        }
        producer = Producer(asked.producer_id, asked.producer_epoch)
        for place, code in coordinator.verify(name, producer, known).items():
            codes[known[place]] = code
        return Verified(codes, coordinator.here.number_of(name))

    def _may_enter(self, question: VerifyRequest) -> list[bool]:
        names = dict.fromkeys(one.topic for one in question.partitions)
        ids = dict(zip(names, question.topic_ids, strict=False))
        topics = {name: find_topic(self._broker, name) for name in names}
        return [
            may_enter(topics[name], partition, ids.get(name, NO_TOPIC_ID))
            for name, partition in question.partitions
        ]

    async def write_markers(self, question: MarkersRequest) -> MarkersResponse:
        """Append the markers, and answer once they are confirmed."""
        pace = Pace(self._broker.turns)
        begun: list[list[ErrorCode | MarkerWrite]] = []
        for entry in question.entries:
            row: list[ErrorCode | MarkerWrite] = []
            begun.append(row)
            for place in entry.partitions:
                await pace.step(MARKER)
                row.append(self._append(entry, place))
        return MarkersResponse(codes=tuple([await _codes(row) for row in begun]))

    def _append(self, entry: MarkerEntry, place: MarkedPartition) -> ErrorCode | MarkerWrite:
        ended = TransactionEnd(
            producer_id=entry.producer_id,
            producer_epoch=entry.producer_epoch,
            coordinator_epoch=entry.coordinator_epoch,
            is_commit=entry.is_commit,
        )
        topic = hosted_topic_of_id(self._broker, bytes(place.topic_id))
        try:
            hosted = partition_to_mark(topic, place.partition)
            position = append_marker(
                hosted,
                ended,
                entry.transaction_version,
                number=entry.number,
                leader_epoch=place.leader_epoch,
            )
        except PlatformError as error:
            return error_code_of(error)
        return park_marker(self._broker, hosted, position)


def park_marker(broker: Broker, hosted: HostedPartition, position: Position) -> MarkerWrite:
    """Let a marker wait until the set has confirmed the log up to `position`."""
    write = MarkerWrite(broker.clock.monotonic_ms() + CONFIRM_MS)
    hosted.member.waiting_for_all.park(position, write)
    return write


async def _codes(row: list[ErrorCode | MarkerWrite]) -> tuple[int, ...]:
    return tuple([await one.outcome() if isinstance(one, MarkerWrite) else one for one in row])
