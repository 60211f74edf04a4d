"""One transactional id as its coordinator knows it: who may write, what is open, how it ends.

    Empty ─► Ongoing ─► PrepareCommit ─► CompleteCommit ─┐
      ▲         └─────► PrepareAbort ──► CompleteAbort ──┤   ─► Ongoing (the next transaction)
      └─────────────────────────────────────────────────┘   ─► Empty   (the next producer)

A value is never changed, only replaced: each record of the internal topic is one.

Source: Kafka `TransactionMetadata`, `TransactionState`; KIP-98, KIP-360, KIP-890.
"""

from enum import IntEnum
from typing import NamedTuple, TypeAlias

from penstock.base.ids import ProducerEpoch, ProducerId

TopicPartitionName: TypeAlias = tuple[str, int]

NO_PRODUCER = ProducerId(-1)
NO_EPOCH = ProducerEpoch(-1)
EPOCH_MAX = 0x7FFF - 1
"""Highest epoch of a client; the one above is only used to fence it."""
NOT_BEGUN = -1
NO_NUMBER = 0
BUMPING_VERSION = 2
"""From this version of transactions on each end has an epoch of its own, and so has its marker."""


class TransactionState(IntEnum):
    """As in the records of the internal topic."""

    EMPTY = 0
    ONGOING = 1
    PREPARE_COMMIT = 2
    PREPARE_ABORT = 3
    COMPLETE_COMMIT = 4
    COMPLETE_ABORT = 5

    @property
    def title(self) -> str:
        """The name that Kafka's tools know."""
        return "".join(word.capitalize() for word in self.name.split("_"))


PREPARED = frozenset({TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT})
COMPLETED = frozenset({TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT})


class Transaction(NamedTuple):
    """What is known of a transactional id."""

    transactional_id: str
    producer_id: ProducerId
    producer_epoch: ProducerEpoch
    timeout_ms: int
    state: TransactionState
    partitions: frozenset[TopicPartitionName] = frozenset()
    start_ms: int = NOT_BEGUN
    """Wall time at which the transaction began."""
    update_ms: int = 0
    """Wall time of the last change."""
    previous_producer_id: ProducerId = NO_PRODUCER
    next_producer_id: ProducerId = NO_PRODUCER
    """While it ends: the id from then on, as the epochs of the present one are used up."""
    last_epoch: ProducerEpoch = NO_EPOCH
    """The epoch before the last bump, if the producer that had it was given the present one and may
    repeat its request; NO_EPOCH if it was fenced. Higher than the present epoch: it is of the
    previous producer id."""
    version: int = 0
    """Version of transactions that the producer speaks; from 2 on each end has a new epoch."""
    number: int = NO_NUMBER
    """Of the newest transaction: each one that begins has the next one, from 1 on."""

    @property
    def is_exhausted(self) -> bool:
        """Whether the producer id has no further epoch for a client."""
        return self.producer_epoch >= EPOCH_MAX

    @property
    def is_prepared(self) -> bool:
        """Whether it is decided how it ends, and partitions may not know yet."""
        return self.state in PREPARED

    @property
    def is_idle(self) -> bool:
        """Whether there is no transaction."""
        return self.state is TransactionState.EMPTY or self.state in COMPLETED

    def fenced(self) -> "Transaction":
        """Return it with an epoch that no client has, and of which none is the retry."""
        epoch = min(self.producer_epoch + 1, EPOCH_MAX + 1)
        return self._replace(producer_epoch=ProducerEpoch(epoch), last_epoch=NO_EPOCH)

    def prepared(self, *, is_commit: bool, now_ms: int) -> "Transaction":
        """Return it with the decision how it ends."""
        state = TransactionState.PREPARE_COMMIT if is_commit else TransactionState.PREPARE_ABORT
        return self._replace(state=state, update_ms=now_ms)

    def completed(self, now_ms: int) -> "Transaction":
        """Return it after all partitions have the marker."""
        is_commit = self.state is TransactionState.PREPARE_COMMIT
        state = TransactionState.COMPLETE_COMMIT if is_commit else TransactionState.COMPLETE_ABORT
        done = self._replace(state=state, partitions=frozenset(), update_ms=now_ms)
        if self.next_producer_id == NO_PRODUCER:
            return done
        return done._replace(
            producer_id=self.next_producer_id,
            producer_epoch=ProducerEpoch(0),
            previous_producer_id=self.producer_id,
            next_producer_id=NO_PRODUCER,
        )
