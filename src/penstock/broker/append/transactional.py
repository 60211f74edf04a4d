"""Which batches of transactions are taken, and the guards of those that are verified first.

    request ─► asks the coordinator ─► guard ─► verified ─► append: the transaction is open here
                                         └── a marker, or another master ─► no guard: refused

A late batch must not begin a transaction that nobody ends. So the first batch of a producer in a
partition is taken only with a guard: it is made before the coordinator is asked whether the
partition is in the transaction, and any marker removes it. While the transaction is open here, its
batches need none.

Requests of a producer that wait together share a guard. The last of them removes it when it has
appended, so there are never more of them than requests that wait.

Source: KIP-890 (part 1), Kafka `VerificationStateEntry`,
`UnifiedLog.maybeStartTransactionVerification`.
"""

from penstock.base.errors import as_answer
from penstock.base.ids import ProducerEpoch, ProducerId
from penstock.broker.append.guard import Guard
from penstock.broker.errors import InvalidTransaction, NotVerified, TooManyTransactions
from penstock.broker.partitions import HostedPartition
from penstock.record.batch import TRANSACTIONAL, BatchHeader
from penstock.record.errors import InvalidRecord
from penstock.storage.errors import OutOfOrderSequence, ProducerFenced
from penstock.storage.index.producers import NO_SEQUENCE, KnownProducer
from penstock.transactions.state import NO_NUMBER

OPEN_PART = 2
"""An open transaction can not be forgotten: so at most half of a log's producers have one."""


def needs_guard(hosted: HostedPartition, header: BatchHeader) -> bool:
    """Whether the batch is the first one of a transaction in the partition."""
    if not header.attributes & TRANSACTIONAL or header.producer_id < 0:
        return False
    return not is_open(hosted, header.producer_id, header.producer_epoch)


def is_open(
    hosted: HostedPartition, producer_id: ProducerId, producer_epoch: ProducerEpoch
) -> bool:
    """Whether the producer has an open transaction of this epoch in the partition.

    One of an earlier epoch may still wait for its marker: then the coordinator is to be asked, who
    has that written before it lets the next one in.
    """
    log = hosted.log
    if not log.producers.states.transactions.is_open(log.serial, producer_id):
        return False
    known = log.producers.known(producer_id)
    return known is None or known.epoch == producer_epoch


def guard_of(hosted: HostedPartition, header: BatchHeader) -> Guard:
    """Return the guard that this batch waits for: a new one, or that of an earlier batch."""
    return guard_for(hosted, header.producer_id, header.producer_epoch, header.base_sequence)


def guard_for(
    hosted: HostedPartition,
    producer_id: ProducerId,
    epoch: ProducerEpoch,
    sequence: int = NO_SEQUENCE,
) -> Guard:
    """Return the guard for a batch that is not there yet; without a sequence, of a coordinator.

    An instance that was replaced gets one that lets nothing in: it does not displace that of the
    instance that has replaced it.
    """
    leader_epoch = hosted.member.leader_epoch
    guard = hosted.guards.get(producer_id)
    if guard is None or (guard.producer_epoch, guard.leader_epoch) != (epoch, leader_epoch):
        is_replaced = (
            guard is not None
            and guard.leader_epoch == leader_epoch
            and epoch < guard.producer_epoch
        )
        guard = Guard(leader_epoch, epoch, sequence)
        if not is_replaced:
            hosted.guards[producer_id] = guard
    guard.waiting += 1
    guard.lowest_sequence = min(guard.lowest_sequence, sequence)
    return guard


def let_go(hosted: HostedPartition, producer_id: ProducerId, guard: Guard) -> None:
    """End one request's wait; the last one removes the guard, if it is still in its place."""
    guard.waiting -= 1
    if not guard.waiting and hosted.guards.get(producer_id) is guard:
        del hosted.guards[producer_id]


def check_writer(hosted: HostedPartition, header: BatchHeader) -> None:
    """Check a transactional batch of a coordinator, which has no sequence.

    Raises ProducerFenced, and what `check_transaction` raises.
    """
    known = hosted.log.producers.known(header.producer_id)
    if known is not None and header.producer_epoch < known.epoch:
        hosted.member.check_readable()
        raise ProducerFenced(header.producer_id, header.producer_epoch, known.epoch)
    check_transaction(hosted, header)


def check_transaction(hosted: HostedPartition, header: BatchHeader) -> None:
    """Check that a batch of a producer belongs where it is to be written.

    Raises InvalidTransaction, TooManyTransactions, InvalidRecord, OutOfOrderSequence, and what the
    coordinator has refused it for.
    """
    producer_id, is_transactional = header.producer_id, header.attributes & TRANSACTIONAL
    if producer_id < 0:
        raise InvalidRecord("a transactional batch without a producer id")
    states, log = hosted.log.producers.states, hosted.log
    transactions = states.transactions.of(log.serial)
    if transactions is not None and producer_id in transactions.open:
        known = log.producers.known(producer_id)
        if not is_transactional:
            raise InvalidTransaction("the producer has an open transaction in this partition")
        if known is not None and header.producer_epoch > known.epoch:
            guard, text = hosted.guards.get(producer_id), "that of an earlier epoch is open here"
            refusal = None if guard is None else guard.refusal
            raise InvalidTransaction(text) if refusal is None else as_answer(refusal)
        return
    if is_transactional:
        _check_first(hosted, header, log.producers.known(producer_id))
        if states.transactions.open_count >= max(1, states.capacity // OPEN_PART):
            raise TooManyTransactions(states.transactions.open_count)


def note_opened(hosted: HostedPartition, header: BatchHeader) -> None:
    """Keep the number of the transaction that an appended batch is of, if it has opened it.

    Without guards there is nothing to keep.
    """
    if not header.attributes & TRANSACTIONAL:
        return
    guard = hosted.guards.get(header.producer_id)
    if guard is None or guard.number == NO_NUMBER:
        return
    numbers, leader_epoch = hosted.open_numbers, hosted.member.leader_epoch
    older = next(iter(numbers.values()), None)
    if older is not None and older[0] != leader_epoch:
        numbers.clear()
    numbers[header.producer_id] = (leader_epoch, guard.number)


def _check_first(hosted: HostedPartition, header: BatchHeader, known: KnownProducer | None) -> None:
    """Check the first batch of a transaction in a partition."""
    guard = hosted.guards.get(header.producer_id)
    if guard is None or guard.leader_epoch != hosted.member.leader_epoch:
        raise NotVerified("the partition was not added to the transaction, or it has ended")
    if guard.producer_epoch != header.producer_epoch or not guard.is_verified:
        refusal = guard.refusal or NotVerified("the partition is not known to be in it")
        raise as_answer(refusal)  # or it would keep the frames of each batch that it has refused
    if known is None and header.base_sequence != guard.lowest_sequence:
        raise OutOfOrderSequence(header.producer_id, header.base_sequence, guard.lowest_sequence)
