"""The requests that end transactions: commit, abort, which are open, how one ended, and the gate.

The gate is a transactional id beside those of the tasks, in which nothing is ever written. A driver
that aborts gives it a new epoch, and then looks for open transactions; a task that has written
looks at the gate, and aborts its transaction if it has changed since the job was planned. So
whichever comes first, a task that Spark has given up, but that still runs, leaves nothing open.
"""

from collections.abc import Iterable, Sequence

from penstock.client.ending import Outcomes, end_transactions
from penstock.client.errors import BrokerError, ClientError
from penstock.client.produce import OpenTransaction
from penstock.client.transactions import Transactions
from penstock.client.views import TransactionView
from penstock.protocol.error_codes import ErrorCode
from penstock.record.committed import Aborted
from penstock.spark.broker_access import BrokerAccess
from penstock.spark.errors import OutcomeUnknown
from penstock.spark.exactly_once.written import Written
from penstock.spark.ranges import OffsetRange
from penstock.spark.warnings import warn

_ONGOING = "Ongoing"
_GATE = "gate"
Gate = tuple[int, int] | None
"""Producer id and epoch; None if it was never closed."""


def commit_all(access: BrokerAccess, written: Sequence[Written]) -> frozenset[int]:
    """Commit the transactions, and return the partitions of those that were aborted before.

    Raises ClientError kinds: some may be committed. Raises OutcomeUnknown.
    """
    by_transaction = {one.transaction: one for one in written if one.transaction is not None}
    outcomes: Outcomes = end_transactions(access.cluster, list(by_transaction), is_commit=True)
    aborted: set[int] = set()
    for transaction, code in outcomes.items():
        one = by_transaction[transaction]
        if code is ErrorCode.INVALID_TXN_STATE or (
            code is not ErrorCode.NONE and _was_aborted(access, one, code)
        ):
            aborted.add(one.partition)
    return frozenset(aborted)


def abort_all(access: BrokerAccess, transactions: Iterable[OpenTransaction]) -> None:
    """Abort what is open of these. If no broker answers they time out later, which is said."""
    some = list(transactions)
    if not some:
        return
    try:
        end_transactions(access.cluster, some, is_commit=False)
    except ClientError as error:
        warn(f"{len(some)} transactions are left to their time-out: {error}")


def open_of_prefix(access: BrokerAccess, prefix: str) -> dict[str, int]:
    """Return the producer ids of open transactions by their transactional ids."""
    listed = Transactions(access.cluster).list(states=(_ONGOING,))
    return {
        one.transactional_id: one.producer_id
        for one in listed
        if one.transactional_id.startswith(prefix)
    }


def present(access: BrokerAccess, transactional_id: str) -> OpenTransaction | None:
    """Return the open transaction of an id, if there is one."""
    found = _described(access, transactional_id)
    if found is None or found.state != _ONGOING:
        return None
    return OpenTransaction(transactional_id, found.producer_id, found.producer_epoch)


def gate_of(access: BrokerAccess, prefix: str) -> Gate:
    """Return the present state of the gate of all ids that begin with `prefix`."""
    found = _described(access, prefix + _GATE)
    return None if found is None else (found.producer_id, found.producer_epoch)


def close_gate(access: BrokerAccess, prefix: str) -> None:
    """Tell tasks that were planned before that nobody waits for them."""
    Transactions(access.cluster).abort(prefix + _GATE)


def _described(access: BrokerAccess, transactional_id: str) -> TransactionView | None:
    try:
        return Transactions(access.cluster).describe(transactional_id)
    except BrokerError as error:
        if error.code is ErrorCode.TRANSACTIONAL_ID_NOT_FOUND:
            return None
        raise


def _was_aborted(access: BrokerAccess, one: Written, code: ErrorCode) -> bool:
    """Read in the log how a transaction ended whose id was used since, or is forgotten."""
    assert one.transaction is not None, one
    if one.witness is None:
        raise OutcomeUnknown(one.transaction.transactional_id, code.name)
    topic, partition, offset = one.witness
    try:
        for run in access.read(OffsetRange(topic, partition, offset, offset + 1)):
            return _is_among(run.aborted, one.transaction.producer_id, offset)
    except ClientError as error:
        raise OutcomeUnknown(one.transaction.transactional_id, str(error)) from error
    raise AssertionError(one)


def _is_among(aborted: Sequence[Aborted], producer_id: int, offset: int) -> bool:
    """Whether a record of the producer is in one of these: later ones begin behind it."""
    return any(one.producer_id == producer_id and one.first_offset <= offset for one in aborted)
