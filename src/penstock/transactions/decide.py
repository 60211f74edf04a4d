"""What a request does to a transactional id, judged by what is confirmed. No I/O, no clock.

    decide(confirmed, request) ─► Refused(code)
                                  Answered(producer)     nothing changes
                                  Changed(transaction)   to be written; the answer follows from it
                                  NEEDS_ID               once more with a new producer id

Nobody else changes the id meanwhile: a request that comes while a change is under way is refused
with CONCURRENT_TRANSACTIONS before it comes here.

Source: Kafka `TransactionCoordinator` (`prepareInitProducerIdTransit`, `endTransaction`),
`TransactionMetadata`; KIP-98, KIP-360 (bumps by request), KIP-890 (epochs of version 2).
"""

from enum import Enum
from typing import Final, NamedTuple, TypeAlias

from penstock.base.ids import ProducerEpoch, ProducerId
from penstock.protocol.error_codes import ErrorCode
from penstock.transactions.messages import Producer
from penstock.transactions.state import (
    BUMPING_VERSION,
    EPOCH_MAX,
    NO_EPOCH,
    NO_PRODUCER,
    NOT_BEGUN,
    TopicPartitionName,
    Transaction,
    TransactionState,
)

_EMPTY, _ONGOING = TransactionState.EMPTY, TransactionState.ONGOING
_COMMITTED, _ABORTED = TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT


class Refused(NamedTuple):
    """Nothing changes, and this is answered."""

    code: ErrorCode


class Answered(NamedTuple):
    """Nothing changes: what was asked for is so already."""

    producer: Producer


class Changed(NamedTuple):
    """The id is to be written like this; `code` is answered once it is."""

    transaction: Transaction
    code: ErrorCode = ErrorCode.NONE


class PartitionBounds(NamedTuple):
    """How many partitions one transaction may have, and how many all together may get."""

    partitions_max: int
    places_left: int


class Needs(Enum):
    """What is missing for a decision."""

    ID = "a new producer id"


NEEDS_ID: Final = Needs.ID
Decision: TypeAlias = Refused | Answered | Changed | Needs


def producer_of(one: Transaction) -> Producer:
    """Return who may write to the id, as soon as what is decided has ended."""
    if one.next_producer_id != NO_PRODUCER:
        return Producer(one.next_producer_id, ProducerEpoch(0))
    return Producer(one.producer_id, one.producer_epoch)


def decide_init(  # noqa: PLR0911  one answer for each state
    one: Transaction | None,
    transactional_id: str,
    timeout_ms: int,
    known: Producer | None,
    *,
    now_ms: int,
    fresh_id: ProducerId | None,
) -> Decision:
    """A producer begins to use the id, or asks for a new epoch; `known` is what it has."""
    if one is None:
        if fresh_id is None:
            return NEEDS_ID
        return Changed(
            Transaction(
                transactional_id, fresh_id, ProducerEpoch(0), timeout_ms, _EMPTY, update_ms=now_ms
            )
        )
    if known is not None and not _is_known(one, known):
        return Refused(ErrorCode.PRODUCER_FENCED)
    if one.is_prepared:
        return Refused(ErrorCode.CONCURRENT_TRANSACTIONS)
    present = Producer(one.producer_id, one.producer_epoch)
    if known not in {None, present} and present.epoch <= EPOCH_MAX:
        # A retry: it names what the producer had before the bump, which is confirmed. The epoch
        # above EPOCH_MAX only fences, so that a retry of it gets a new producer id below.
        return Answered(present)
    last_epoch = NO_EPOCH if known is None else known.epoch
    if one.state is _ONGOING:
        aborted = one.fenced().prepared(is_commit=False, now_ms=now_ms)
        return Changed(aborted._replace(last_epoch=last_epoch), ErrorCode.CONCURRENT_TRANSACTIONS)
    renewed = one._replace(
        timeout_ms=timeout_ms,
        state=_EMPTY,
        partitions=frozenset(),
        start_ms=NOT_BEGUN,
        update_ms=now_ms,
        version=0,
    )
    return _with_next_epoch(renewed, last_epoch, fresh_id)


def _with_next_epoch(
    one: Transaction, last_epoch: ProducerEpoch, fresh_id: ProducerId | None
) -> Decision:
    """The next epoch or, if there is none, the first one of a new producer id."""
    if not one.is_exhausted:
        return Changed(
            one._replace(
                producer_epoch=ProducerEpoch(one.producer_epoch + 1), last_epoch=last_epoch
            )
        )
    if fresh_id is None:
        return NEEDS_ID
    return Changed(
        one._replace(
            producer_id=fresh_id,
            producer_epoch=ProducerEpoch(0),
            previous_producer_id=one.producer_id,
            last_epoch=last_epoch,
        )
    )


def _is_known(one: Transaction, known: Producer) -> bool:
    """Whether a producer's id and epoch are the present ones, or its own before the last bump."""
    if known.epoch == one.last_epoch:
        has_new_id = one.last_epoch > one.producer_epoch
        return known.producer_id == (one.previous_producer_id if has_new_id else one.producer_id)
    return known == producer_of(one)


def refusal_of(one: Transaction, producer: Producer) -> ErrorCode | None:
    """Return why a producer may not use the id; None if it may."""
    present = producer_of(one)
    if present.producer_id != producer.producer_id:
        return ErrorCode.INVALID_PRODUCER_ID_MAPPING
    if present.epoch != producer.epoch:
        return ErrorCode.PRODUCER_FENCED
    return None


def _hindrance_of(one: Transaction, producer: Producer) -> ErrorCode | None:
    """Return why a producer may not use the id now; None if it may."""
    refused = refusal_of(one, producer)
    if refused is None and one.is_prepared:
        return ErrorCode.CONCURRENT_TRANSACTIONS
    return refused


def decide_add(
    one: Transaction | None,
    producer: Producer,
    partitions: frozenset[TopicPartitionName],
    version: int,
    *,
    now_ms: int,
    bounds: PartitionBounds,
) -> Decision:
    """Partitions enter the transaction, which begins with the first of them."""
    if one is None:
        return Refused(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    hindrance = _hindrance_of(one, producer)
    if hindrance is not None:
        return Refused(hindrance)
    if partitions <= one.partitions:  # without a transaction it has none
        return Answered(producer)
    is_going = one.state is _ONGOING
    added = partitions | one.partitions
    if len(added) > bounds.partitions_max:
        return Refused(ErrorCode.POLICY_VIOLATION)
    if len(added) - len(one.partitions) > bounds.places_left:
        return Refused(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    return Changed(
        one._replace(
            state=_ONGOING,
            partitions=added,
            start_ms=one.start_ms if is_going else now_ms,
            update_ms=now_ms,
            version=version,
            number=one.number if is_going else one.number + 1,
        )
    )


def decide_verify(
    one: Transaction | None, producer: Producer, partition: TopicPartitionName, is_changing: bool
) -> ErrorCode:
    """Whether a partition is in the producer's transaction.

    With `is_changing`, what is on its way may add it: a final code would end the producer.
    """
    if one is None:
        return ErrorCode.INVALID_PRODUCER_ID_MAPPING
    hindrance = _hindrance_of(one, producer)
    if hindrance is not None:
        return hindrance
    if partition in one.partitions:
        return ErrorCode.NONE
    return ErrorCode.CONCURRENT_TRANSACTIONS if is_changing else ErrorCode.INVALID_TXN_STATE


def decide_end(  # noqa: PLR0911  one answer for each state
    one: Transaction | None,
    producer: Producer,
    version: int,
    *,
    is_commit: bool,
    now_ms: int,
    fresh_id: ProducerId | None,
) -> Decision:
    """The producer ends its transaction.

    While markers are on their way every end waits, whatever it says: with the present epoch it is
    that of the next transaction, whose beginning failed (KAFKA-18464). Another epoch is refused at
    once, which Kafka does once the markers are there.
    """
    if one is None:
        return Refused(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    if version < BUMPING_VERSION:
        return _end_of_old(one, producer, version, is_commit=is_commit, now_ms=now_ms)
    is_retry = _is_retry(one, producer)
    refused = _no_retry(one) if is_retry else refusal_of(one, producer)
    if refused is not None:
        return Refused(refused)
    if one.is_prepared:
        return Refused(ErrorCode.CONCURRENT_TRANSACTIONS)
    if is_retry and one.producer_epoch <= EPOCH_MAX:
        return _retried(one, is_commit=is_commit)
    if one.state is not _ONGOING and is_commit:
        return Refused(ErrorCode.INVALID_TXN_STATE)
    told = one._replace(version=version, last_epoch=producer.epoch)
    return _bumped_end(told, is_commit=is_commit, now_ms=now_ms, fresh_id=fresh_id)


def _bumped_end(
    one: Transaction, *, is_commit: bool, now_ms: int, fresh_id: ProducerId | None
) -> Decision:
    """The end has an epoch of its own; without a transaction only the epoch changes."""
    bumped = one.fenced()._replace(last_epoch=one.last_epoch)
    if one.is_exhausted:
        if fresh_id is None:
            return NEEDS_ID
        bumped = bumped._replace(next_producer_id=fresh_id)
    ended = bumped.prepared(is_commit=is_commit, now_ms=now_ms)
    if one.state is _ONGOING:
        return Changed(ended)
    return Changed(ended._replace(partitions=frozenset()).completed(now_ms))


def _end_of_old(
    one: Transaction, producer: Producer, version: int, *, is_commit: bool, now_ms: int
) -> Decision:
    """Version 1: the epoch stays as it is, and a retry looks like the request that it repeats."""
    hindrance = _hindrance_of(one, producer)
    if hindrance is not None:
        return Refused(hindrance)
    if one.state is _ONGOING:
        ended = one.prepared(is_commit=is_commit, now_ms=now_ms)
        return Changed(ended._replace(version=version))
    if one.state is (_COMMITTED if is_commit else _ABORTED):
        return Answered(producer)
    return Refused(ErrorCode.INVALID_TXN_STATE)


def _is_retry(one: Transaction, producer: Producer) -> bool:
    """Version 2: whether the request has the epoch before the last one, which its end has used."""
    if one.producer_id == producer.producer_id:
        return producer.epoch + 1 == one.producer_epoch
    is_previous = one.previous_producer_id == producer.producer_id
    return is_previous and producer.epoch == EPOCH_MAX and one.producer_epoch == 0


def _no_retry(one: Transaction) -> ErrorCode | None:
    """Why an epoch that is one behind is not that of a retry; None if it is."""
    is_begun = one.state in {_EMPTY, _ONGOING}
    return ErrorCode.PRODUCER_FENCED if is_begun or one.version < BUMPING_VERSION else None


def _retried(one: Transaction, *, is_commit: bool) -> Decision:
    """The outcome again, or that it was the other one: a commit that a time-out has overtaken.

    Kafka says PRODUCER_FENCED to that commit since KAFKA-20785, and this code up to 4.2. It is kept
    as it tells that the transaction was aborted, which our sink of Spark asks for.
    """
    if one.state is (_COMMITTED if is_commit else _ABORTED):
        return Answered(producer_of(one))
    return Refused(ErrorCode.INVALID_TXN_STATE)
