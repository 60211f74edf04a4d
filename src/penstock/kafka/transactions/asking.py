"""Asks the coordinator of a transaction whether partitions are in it (KIP-890).

Source: Kafka `AddPartitionsToTxnManager`.
"""

from penstock.base.ids import BrokerId
from penstock.broker.append.verification import Verification, Verified, WantedPartition
from penstock.broker.broker import Broker
from penstock.controller.metadata.image import ReplicaSetImage
from penstock.coordinator.calls.asking import Caller, CallError, CallNotBegun
from penstock.coordinator.calls.transactions import AskedPartition, VerifyRequest
from penstock.coordinator.partitioning import partition_of
from penstock.kafka.gate import find_topic
from penstock.kafka.transactions.answering import TransactionAnswers
from penstock.protocol.error_codes import ErrorCode, known_code
from penstock.transactions.partitioning import INTERNAL_TOPIC
from penstock.transactions.state import NO_NUMBER

PARTITIONS_MAX = 500
"""Partitions of one question: with the longest names they are half of what a call may have, and
a short turn on either side."""
ANSWER_MS = 5_000
"""A producer waits longer for its answer, and asks again."""


class CoordinatorAsker:
    """A Verifier over the calls between brokers."""

    __slots__ = ("_answers", "_broker", "_calls")

    def __init__(self, broker: Broker, calls: Caller, answers: TransactionAnswers) -> None:
        """`answers` are those of this broker."""
        self._broker = broker
        self._calls = calls
        self._answers = answers

    async def verify(self, asked: Verification) -> Verified:
        """As in Verifier; many partitions are asked for in several questions, one by one."""
        codes: dict[WantedPartition, int] = {}
        numbers: set[int] = set()
        for begin in range(0, len(asked.partitions), PARTITIONS_MAX):
            part = asked.partitions[begin : begin + PARTITIONS_MAX]
            answer = await self._ask(asked._replace(partitions=part))
            if asked.adds and ErrorCode.CONCURRENT_TRANSACTIONS in answer.codes.values():
                # It has waited for the last transaction's end already, and would for each part.
                return _all(asked, ErrorCode.CONCURRENT_TRANSACTIONS)
            codes |= answer.codes
            numbers |= {answer.number} - {NO_NUMBER}
        if len(numbers) > 1:  # the transaction has ended meanwhile, and the next one has begun
            return _all(asked, ErrorCode.CONCURRENT_TRANSACTIONS)
        return Verified(codes, max(numbers, default=NO_NUMBER))

    def verify_here(self, asked: Verification) -> Verified | None:
        """As in Verifier. It saves a task and some turns for each produced batch."""
        if asked.adds or len(asked.partitions) > PARTITIONS_MAX:
            return None
        found = self._answers.open_here(asked)
        if found is not None:
            return found
        if coordinator_of(self._broker, asked.transactional_id) != self._broker.broker_id:
            return None
        return self._answers.verify_here(asked)

    async def _ask(self, asked: Verification) -> Verified:
        coordinator = coordinator_of(self._broker, asked.transactional_id)
        if coordinator is None:
            return _all(asked, ErrorCode.COORDINATOR_NOT_AVAILABLE)
        question = VerifyRequest(
            transactional_id=asked.transactional_id,
            producer_id=asked.producer_id,
            producer_epoch=asked.producer_epoch,
            is_verify_only=not asked.adds,
            partitions=tuple(AskedPartition(*one[:2]) for one in asked.partitions),
            topic_ids=tuple({one.topic: one.topic_id for one in asked.partitions}.values()),
        )
        try:
            answer = await self._calls.ask(coordinator, question, timeout_ms=ANSWER_MS)
        except CallNotBegun:
            return _all(asked, ErrorCode.COORDINATOR_NOT_AVAILABLE)
        except CallError:
            return _all(asked, ErrorCode.NETWORK_EXCEPTION)
        codes = dict(zip(asked.partitions, map(known_code, answer.codes), strict=True))
        return Verified(codes, answer.number)


def _all(asked: Verification, code: ErrorCode) -> Verified:
    return Verified(dict.fromkeys(asked.partitions, code))


def coordinator_of(broker: Broker, transactional_id: str) -> BrokerId | None:
    """Return the broker that coordinates an id; None while there is none."""
    found = coordinating_set(broker, transactional_id)
    return None if found is None else found.master


def coordinating_set(broker: Broker, transactional_id: str) -> ReplicaSetImage | None:
    """Return the replica set whose master coordinates an id; None while there is none."""
    topic = find_topic(broker, INTERNAL_TOPIC)
    if topic is None:
        return None
    placed = topic.partitions[partition_of(transactional_id, len(topic.partitions))]
    return broker.metadata.replica_sets.get(placed.replica_set_id)
