"""What a coordinator of transactions is asked, and what it answers.

Source: Kafka InitProducerIdResponse.json, EndTxnResponse.json; KIP-664, KIP-994 (filters).
"""

from collections.abc import Mapping, Set
from typing import NamedTuple, Protocol

from penstock.base.ids import CoordinatorEpoch, ProducerEpoch, ProducerId
from penstock.coordinator.unwritten import Unwritten
from penstock.protocol.error_codes import ErrorCode
from penstock.transactions.state import (
    NO_EPOCH,
    NO_PRODUCER,
    TopicPartitionName,
    Transaction,
    TransactionState,
)


class Producer(NamedTuple):
    """A producer id with its epoch."""

    producer_id: ProducerId
    epoch: ProducerEpoch


NOBODY = Producer(NO_PRODUCER, NO_EPOCH)

ERRORS: Mapping[Unwritten, ErrorCode] = {
    Unwritten.NOT_HERE: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    Unwritten.OVERTAKEN: ErrorCode.NOT_COORDINATOR,
    Unwritten.TOO_FEW_IN_STEP: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    Unwritten.TOO_LARGE: ErrorCode.POLICY_VIOLATION,
    Unwritten.LATE: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    Unwritten.FAILED: ErrorCode.NOT_COORDINATOR,
}
"""What a client is told of a change that was not written."""


class ProducerReply(NamedTuple):
    """The producer to be used from now on, or an error."""

    error: ErrorCode
    producer: Producer = NOBODY


class Described(NamedTuple):
    """A transactional id; `transaction` is None if the error is not NONE."""

    error: ErrorCode
    transaction: Transaction | None = None


class MarkerDuty(NamedTuple):
    """Partitions that have to hear how a transaction has ended."""

    transactional_id: str
    producer_id: ProducerId
    producer_epoch: ProducerEpoch
    coordinator_epoch: CoordinatorEpoch
    is_commit: bool
    version: int
    number: int
    """Of the transaction, among those of its id: a partition in which a newer one is open does not
    end that (ADR 0091)."""
    partitions: frozenset[TopicPartitionName]


class Markers(Protocol):
    """Writes markers to partitions, wherever these are led."""

    def write_beside(self, partition: int, duty: MarkerDuty) -> frozenset[TopicPartitionName]:
        """Append at once some markers of partitions whose log is that of the internal partition.

        Returns the partitions that have it. It stands behind all that was appended before, so that
        it is confirmed after that, and before whatever the coordinator writes next.
        """

    def come_behind(self, partition: int) -> bool:
        """Whether markers had better wait until the producer has its answer.

        So it is where the log of the internal partition waits for nothing but its own write: a
        second one costs little, and the answer does not wait for the markers.
        """

    def send(self, partition: int, duty: MarkerDuty) -> None:
        """Have each partition of the duty told, for as long as that takes.

        `partition` is that of the internal topic. The coordinator's `markers_written` is called
        with the partitions that have the marker, or that will never need it.
        """

    def cancel(self, partition: int) -> None:
        """Another broker coordinates that partition of the internal topic: tell nothing more."""


class Ids(Protocol):
    """Producer ids that nobody has had."""

    def next_id(self, told: "ToldId") -> None:
        """Call `told` with an id, at once or later; None if there is none to be had now."""


class ToldId(Protocol):
    """Receives a producer id."""

    def __call__(self, producer_id: ProducerId | None, /) -> None: ...


class Filter(NamedTuple):
    """Which transactional ids are listed; an empty set admits all."""

    states: Set[TransactionState] = frozenset()
    producer_ids: Set[int] = frozenset()
    longer_than_ms: int = -1

    def admits(self, one: Transaction, now_ms: int) -> bool:
        """Whether the id is listed."""
        if self.states and one.state not in self.states:
            return False
        if self.producer_ids and one.producer_id not in self.producer_ids:
            return False
        is_open = one.state is TransactionState.ONGOING or one.is_prepared
        age_ms = now_ms - one.start_ms if is_open else -1
        return self.longer_than_ms < 0 or age_ms > self.longer_than_ms
