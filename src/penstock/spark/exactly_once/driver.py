"""The order of things on the driver: decide, end, finish after a crash, clean up.

    commit(batch)   nothing recorded of it ─► all are open? ─► record ─► end them ─► record the end
                    recorded and whole     ─► abort this run's: the rows are there
                    recorded, some aborted ─► same rows? ─► the same, with those partitions alone

Whatever the driver dies between, the next one reads the newest decision first (`finish`), and ends
what it names, before tasks of this run have begun. What is not named by a decision is aborted: by
the next task with its id, by the next commit, or by its time-out.
"""

from collections.abc import Sequence

from pyspark.sql.datasource import WriterCommitMessage

from penstock.client.errors import ClientError
from penstock.client.produce import OpenTransaction
from penstock.spark.broker_access import BrokerAccess
from penstock.spark.errors import ReplayDiffers, TransactionsAborted
from penstock.spark.exactly_once.decisions import Decision, Decisions
from penstock.spark.exactly_once.ending import (
    Gate,
    abort_all,
    close_gate,
    commit_all,
    gate_of,
    open_of_prefix,
    present,
)
from penstock.spark.exactly_once.written import Written, all_written, some_written
from penstock.spark.warnings import warn

PREFIX = "penstock-spark-"
"""What all transactional ids of sinks begin with."""


def prefix_of(query_id: str) -> str:
    """Return what the transactional ids of one query, or of one batch write, begin with."""
    return f"{PREFIX}{query_id}-"


def id_of(prefix: str, partition: int, attempt: int) -> str:
    """Return the transactional id of a task.

    Copies of a task have attempts of their own, so that they do not fence each other. A stage that
    is run again begins with attempt 0 again: its tasks fence those of the run before.
    """
    return f"{prefix}{partition}-{attempt}"


class Ender:
    """Ends the transactions of one writer; a batch write needs no more than this."""

    def __init__(self, access: BrokerAccess, prefix: str) -> None:
        self._access, self._prefix = access, prefix

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Commit the transactions of a batch write. Raises TransactionsAborted, ClientErrors."""
        written = all_written(messages)
        left_over = self.check_open(written)
        aborted = self.commit_all(written)
        self.clean(left_over)
        if aborted:
            raise TransactionsAborted(aborted, is_visible_in_part=True)

    def abort(
        self,
        messages: Sequence[WriterCommitMessage | None],
        but: Sequence[OpenTransaction] = (),
    ) -> None:
        """Abort what a failed job has left open, `but` some. Errors become warnings.

        Tasks of it may still run, and those find the gate closed.
        """
        kept = {one.transactional_id for one in but}
        try:
            close_gate(self._access, self._prefix)
            self.abort_all(some_written(messages), but)
            self.clean([name for name in self._open() if name not in kept])
        except ClientError as error:
            warn(f"open transactions are left to their time-out: {error}")

    def gate(self) -> Gate:
        """What tasks that are planned now will find if the job is not aborted."""
        return gate_of(self._access, self._prefix)

    def check_open(self, written: Sequence[Written]) -> list[str]:
        """Return the ids with a transaction that is none of these.

        Raises TransactionsAborted, when all of these are aborted: one of them is not open any more.
        """
        listed = self._open()
        gone = [one for one in written if not self._is_open(one, listed)]
        if gone:
            self.abort_all(written)
            aborted = frozenset(one.partition for one in gone)
            raise TransactionsAborted(aborted, is_visible_in_part=False)
        mine = {one.transaction.transactional_id for one in written if one.transaction is not None}
        return [name for name in listed if name not in mine]

    def _open(self) -> dict[str, int]:
        return open_of_prefix(self._access, self._prefix)

    def _is_open(self, one: Written, listed: dict[str, int]) -> bool:
        """A list may miss an id whose coordinator moves meanwhile: that one is asked."""
        if one.transaction is None:
            return True
        name, producer_id, _ = one.transaction
        return listed.get(name) == producer_id or present(self._access, name) == one.transaction

    def commit_all(self, written: Sequence[Written]) -> frozenset[int]:
        """Commit, and return the partitions of what was aborted before."""
        return commit_all(self._access, written)

    def abort_all(self, written: Sequence[Written], but: Sequence[OpenTransaction] = ()) -> None:
        """Abort the transactions of these, `but` some."""
        kept = {None, *but}
        abort_all(
            self._access,
            [
                one.transaction
                for one in written
                if one.transaction is not None and one.transaction not in kept
            ],
        )

    def clean(self, names: Sequence[str]) -> None:
        """Abort what is open under ids that nobody waits for: lost copies, killed drivers."""
        found = (present(self._access, name) for name in names)
        abort_all(self._access, [one for one in found if one is not None])


class StreamCommit:
    """The commits of a query."""

    def __init__(self, ender: Ender, decisions: Decisions) -> None:
        self._ender, self._decisions = ender, decisions

    def finish(self) -> Decision | None:
        """End what the newest decision has left; return it with how it ended. Idempotent."""
        last = self._decisions.last()
        if last is None or last.is_ended:
            return last
        return self._decisions.end(last, self._ender.commit_all(last.written))

    def gate(self) -> Gate:
        """See `Ender.gate`."""
        return self._ender.gate()

    def commit(self, messages: Sequence[WriterCommitMessage | None], batch: int) -> None:
        """Have each row of the batch in the log once.

        Raises TransactionsAborted, ReplayDiffers, DecisionTaken, OSError, ClientError kinds.
        """
        written = all_written(messages)
        last = self.finish()
        if last is not None and _is_done(last, batch):
            self._ender.abort_all(written)
            return
        decision = self._next(last, batch, written)
        left_over = self._ender.check_open(decision.written)
        self._decisions.record(decision)
        ended = self.finish()
        self._ender.abort_all(written, decision.transactions)
        self._ender.clean(left_over)
        if ended is not None and ended.aborted:
            raise TransactionsAborted(ended.aborted, is_visible_in_part=True)

    def _next(self, last: Decision | None, batch: int, written: list[Written]) -> Decision:
        """Return the decision that is to be recorded now."""
        if last is None or last.batch < batch:
            if last is not None and last.aborted:
                rows = ", ".join(map(str, sorted(last.aborted)))
                warn(f"batch {last.batch}: rows of its partitions {rows} were written otherwise")
            return Decision(batch=batch, round=1, task_count=len(written), written=tuple(written))
        assert last.aborted, last
        try:
            chosen = missing_rows(last, written)
        except ReplayDiffers:
            self._ender.abort_all(written)
            raise
        return Decision(
            batch=batch, round=last.round + 1, task_count=last.task_count, written=chosen
        )

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Abort what the job has written; what a recorded decision names stays as it is.

        Spark calls this after a commit that has raised, too.
        """
        last = self._decisions.last()
        due = [] if last is None or last.is_ended else last.transactions
        self._ender.abort(messages, due)

    def settle(self) -> None:
        """Owe nothing of the newest decision any more: its batch was written in another way."""
        last = self._decisions.last()
        if last is None or last.is_whole:
            return
        if not last.is_ended:
            last = self._decisions.end(last, ())
            return
        last = Decision(
            batch=last.batch, round=last.round + 1, task_count=last.task_count, written=()
        )
        self._decisions.record(last)
        self._decisions.end(last, ())


def _is_done(last: Decision, batch: int) -> bool:
    """Whether the rows of a batch are there: it, or a later one, was decided before."""
    return batch < last.batch or (batch == last.batch and last.is_whole)


def missing_rows(last: Decision, written: Sequence[Written]) -> tuple[Written, ...]:
    """Return what takes the place of the aborted transactions. Raises ReplayDiffers."""
    assert last.aborted, last
    if len(written) != last.task_count:
        reason = f"it has {len(written)} tasks, and had {last.task_count}"
        raise ReplayDiffers(last.batch, last.aborted, reason)
    again = {one.partition: one for one in written}
    for before in last.written:
        now = again.get(before.partition)
        if now is None or not now.has_rows_of(before):
            reason = f"partition {before.partition} has other rows"
            raise ReplayDiffers(last.batch, last.aborted, reason)
    return tuple(one for one in written if one.partition in last.aborted)
