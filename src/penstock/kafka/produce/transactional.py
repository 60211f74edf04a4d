"""A produce request of a transaction: its first batch in a partition waits for the coordinator.

    parse ─► any partition without the open transaction? ─► no: append at once
                   └─► guards ─► is the coordinator here, and has it the answer? ─► append at once
                                    └─► connection held, frame copied ─► coordinator ─► append

The coordinator may still be ending the producer's last transaction: then it waits for that, or is
asked again a few times, so that clients that begin the next one do not have to wait.

Source: KIP-890; Kafka `ReplicaManager.handleProduceAppend`, `AddPartitionsToTxnManager`.
"""

import asyncio
from collections.abc import Callable
from typing import Final, NamedTuple

from penstock.base.errors import PlatformError
from penstock.broker.access import Operation, Resource
from penstock.broker.append.append import ACKS_ALL, partition_of
from penstock.broker.append.guard import Guard
from penstock.broker.append.transactional import guard_for, guard_of, let_go, needs_guard
from penstock.broker.append.verification import Verification, Verified, WantedPartition
from penstock.broker.errors import (
    InvalidAcks,
    NotVerified,
    TransactionNotAuthorised,
    VerificationRefused,
)
from penstock.broker.partitions import HostedPartition
from penstock.broker.turns import Pace
from penstock.kafka.context import RequestContext
from penstock.kafka.gate import refusal, topic_to_write
from penstock.kafka.produce.pending import TOPIC_ID_VERSION
from penstock.kafka.transactions.verified import ASKED_MAX, AskedAgain, wanted_partition
from penstock.protocol.error_codes import ErrorCode
from penstock.protocol.header import RequestHeader
from penstock.protocol.produce import PartitionData, ProduceRequest
from penstock.record.batch import (
    ATTRIBUTES_AT,
    BATCH_HEADER_BYTES,
    TRANSACTIONAL,
    BatchHeader,
    read_header,
)
from penstock.transactions.messages import Producer

ADDING_VERSION = 12
"""From this version on the first batch adds its partition to the transaction (KIP-890 part 2)."""
ABORTABLE_VERSION = 11

_OLD_CLIENTS: Final = {
    ErrorCode.PRODUCER_FENCED: ErrorCode.INVALID_PRODUCER_EPOCH,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: ErrorCode.NOT_ENOUGH_REPLICAS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE: ErrorCode.NOT_ENOUGH_REPLICAS,
    ErrorCode.NOT_COORDINATOR: ErrorCode.NOT_ENOUGH_REPLICAS,
    ErrorCode.NETWORK_EXCEPTION: ErrorCode.NOT_ENOUGH_REPLICAS,
    ErrorCode.REQUEST_TIMED_OUT: ErrorCode.NOT_ENOUGH_REPLICAS,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.NOT_ENOUGH_REPLICAS,
}
"""Producers retry a batch after NOT_ENOUGH_REPLICAS, and not all of them after these."""


def before_transactional(memory: memoryview, parts: list[PartitionData]) -> list[PartitionData]:
    """Return the parts before the first whose batch is of a transaction; all if none is.

    Who names no transactional id has no permission for one, and might write into the transaction
    that another producer has open. Source: `RequestUtils.hasTransactionalRecords`.
    """
    for place, (_, _, start, end) in enumerate(parts):
        if end - start >= BATCH_HEADER_BYTES and memory[start + ATTRIBUTES_AT] & TRANSACTIONAL:
            return parts[:place]
    return parts


def refusal_of_all(
    context: RequestContext, request: ProduceRequest, frame: memoryview
) -> PlatformError | None:
    """Return why no batch may be taken; None if they may be looked at.

    Source: Kafka `KafkaApis.handleProduceRequest`: a batch of a transaction without a transactional
    id is refused, whoever sends it.
    """
    if not ACKS_ALL <= request.acks <= 1:
        return InvalidAcks(request.acks)
    name, parts = request.transactional_id, request.partitions
    if name is not None:
        return refusal(context, Operation.WRITE, Resource.TRANSACTIONAL_ID, name)
    return None if before_transactional(frame, parts) is parts else TransactionNotAuthorised()


class Waiting(NamedTuple):
    """One batch that waits for the coordinator."""

    hosted: HostedPartition
    producer: Producer
    guard: Guard

    @property
    def name(self) -> WantedPartition:
        """The partition as the coordinator knows it."""
        return wanted_partition(self.hosted)


class TransactionalProduce:
    """One request; `append(memory, ended, is_held)` appends its batches, then calls `ended`.

    `begin`, and `run` if that says no.
    """

    __slots__ = (
        "_append",
        "_context",
        "_memory",
        "_names",
        "_producers",
        "_request",
        "_version",
        "_waiting",
    )

    def __init__(
        self,
        context: RequestContext,
        header: RequestHeader,
        request: ProduceRequest,
        append: Callable[[memoryview, Callable[[], None], bool], None],
    ) -> None:
        self._context = context
        self._version = header.api_version
        self._request = request
        self._append = append
        self._memory = memoryview(b"")
        self._waiting: list[Waiting] = []
        self._producers: set[Producer] = set()
        self._names: dict[WantedPartition, None] = {}

    def begin(self, frame: memoryview) -> bool:
        """Append in this turn if no batch has to wait; return whether. Only for few partitions."""
        for at in range(len(self._request.partitions)):
            self._guard(frame, at)
        is_appended = False
        try:
            if not self._waiting or self._is_verified_here():
                self._append(frame, self.let_go, False)
                is_appended = True
        finally:
            if not is_appended:  # or a guard would let in whatever comes late
                self.let_go()
        return is_appended

    def _is_verified_here(self) -> bool:
        if len(self._producers) > 1:
            return False
        answer = self._context.broker.verifier.verify_here(self._question())
        if answer is None or ErrorCode.CONCURRENT_TRANSACTIONS in answer.codes.values():
            return False
        for one in self._waiting:
            self._note(one.guard, _code_of(answer, one), answer.number)
        return True

    async def run(self, memory: memoryview) -> None:
        """Make the guards, ask the coordinator, append, which may take many turns or a worker."""
        self._memory = memory
        pace = Pace(self._context.broker.turns)
        ended = asyncio.Event()
        try:
            for at in range(len(self._request.partitions)):
                await pace.step()
                self._guard(memory, at)
            if self._waiting:
                await self._verify(pace)
            self._append(memory, ended.set, True)
            await ended.wait()
            await self._let_go_in_turns(pace)
        finally:
            self.let_go()

    def _guard(self, memory: memoryview, at: int) -> None:
        found = self._guarded(memory, at)
        if found is None:
            return
        hosted, header = found
        producer = Producer(header.producer_id, header.producer_epoch)
        waiting = Waiting(hosted, producer, guard_of(hosted, header))
        self._waiting.append(waiting)
        self._producers.add(producer)
        self._names[waiting.name] = None

    def _guarded(self, memory: memoryview, at: int) -> tuple[HostedPartition, BatchHeader] | None:
        """Return a partition and its batch if that has to wait; what is wrong is said later."""
        topic, partition, start, end = self._request.partitions[at]
        if end - start < BATCH_HEADER_BYTES:
            return None
        by_id = self._version >= TOPIC_ID_VERSION
        try:
            found = topic_to_write(self._context, topic, by_id=by_id)
            hosted = partition_of(found, partition)
        except PlatformError:
            return None
        header = read_header(memory, start)
        return (hosted, header) if needs_guard(hosted, header) else None

    async def _verify(self, pace: Pace) -> None:
        """Ask the coordinator, and note its answers in the guards."""
        if len(self._producers) > 1:
            code, text = ErrorCode.INVALID_PRODUCER_ID_MAPPING, "batches of several producers"
            for one in self._waiting:
                await pace.step()
                one.guard.refusal = VerificationRefused(code, text)
            return
        answer = await self._ask(self._question(), pace)
        for one in self._waiting:
            await pace.step()
            self._note(one.guard, _code_of(answer, one), answer.number)

    def _question(self) -> Verification:
        (producer,) = self._producers
        transactional_id = self._request.transactional_id
        assert transactional_id is not None
        adds = self._version >= ADDING_VERSION
        return Verification(transactional_id, *producer, adds, tuple(self._names))

    async def _ask(self, asked: Verification, pace: Pace) -> Verified:
        """Ask the coordinator, and again while the last transaction is still ending.

        Where the question adds partitions the coordinator itself waits for that, unless many wait
        there. In version 1 guards are not made anew: who was overtaken by a marker has the epoch
        of the next transaction too, and would write in that what the last one had.
        """
        broker = self._context.broker
        verifier, again = broker.verifier, AskedAgain(broker.clock)
        answer = await verifier.verify(asked)
        for _ in range(ASKED_MAX - 1):
            is_ending = ErrorCode.CONCURRENT_TRANSACTIONS in answer.codes.values()
            is_ending = is_ending and await again.pause()
            is_overtaken = asked.adds and await self._renew_guards(pace)
            if not (is_overtaken or is_ending):
                break
            answer = await verifier.verify(asked)
        return answer

    async def _renew_guards(self, pace: Pace) -> bool:
        """Make the guards anew that a marker has removed; returns whether there were any.

        It came while the coordinator was asked: what that has said may be from before it.
        """
        has_any = False
        for at, one in enumerate(self._waiting):
            await pace.step()
            producer_id, epoch = one.producer
            if one.hosted.guards.get(producer_id) is one.guard:
                continue
            has_any = True
            let_go(one.hosted, producer_id, one.guard)
            guard = guard_for(one.hosted, producer_id, epoch, one.guard.lowest_sequence)
            self._waiting[at] = one._replace(guard=guard)
        return has_any

    def _note(self, guard: Guard, code: ErrorCode, number: int) -> None:
        if code is ErrorCode.NONE:
            guard.confirm(number)
            return
        text = f"the coordinator of the transaction says {code.name}"
        guard.refusal = VerificationRefused(self._told(code), text)

    def _told(self, code: ErrorCode) -> ErrorCode:
        if code is ErrorCode.INVALID_TXN_STATE and self._version >= ABORTABLE_VERSION:
            return ErrorCode.TRANSACTION_ABORTABLE
        if code is ErrorCode.CONCURRENT_TRANSACTIONS and self._version < ADDING_VERSION:
            return ErrorCode.NOT_ENOUGH_REPLICAS
        return _OLD_CLIENTS.get(code, code)

    async def _let_go_in_turns(self, pace: Pace) -> None:
        while self._waiting:
            await pace.step()
            self._let_go_one()

    def let_go(self) -> None:
        """Remove the guards: what was appended has its open transaction."""
        while self._waiting:
            self._let_go_one()

    def _let_go_one(self) -> None:
        one = self._waiting.pop()
        let_go(one.hosted, one.producer.producer_id, one.guard)


def told_again(error: PlatformError, version: int) -> PlatformError:
    """Return an error after which a producer of version 2 sends its batch again, where it may.

    A marker of its last transaction may come between the coordinator's answer and the append, or
    during the last question. The batch is not late then, and what is late has an epoch of before.
    """
    if version < ADDING_VERSION or not isinstance(error, NotVerified):
        return error
    return VerificationRefused(ErrorCode.CONCURRENT_TRANSACTIONS, str(error))


def _code_of(answer: Verified, one: Waiting) -> ErrorCode:
    return ErrorCode(answer.codes.get(one.name, ErrorCode.NETWORK_EXCEPTION))
