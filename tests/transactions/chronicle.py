"""What the confirmed log says of each transactional id, in order, and whether that may be.

Every transaction of these tests has partitions of its own, so that a partition tells whose
transaction a record or a duty is about.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

from penstock.coordinator.records import UnreadRecord
from penstock.transactions.messages import MarkerDuty, Producer
from penstock.transactions.records import decode_key, decode_value
from penstock.transactions.state import EPOCH_MAX, TopicPartitionName, Transaction, TransactionState
from tests.coordinator.held_journal import Batch, HeldJournal

State = TransactionState
AFTER: dict[State, set[State]] = {
    State.EMPTY: {State.EMPTY, State.ONGOING, State.COMPLETE_ABORT},
    State.ONGOING: {State.ONGOING, State.PREPARE_COMMIT, State.PREPARE_ABORT},
    State.PREPARE_COMMIT: {State.COMPLETE_COMMIT},
    State.PREPARE_ABORT: {State.COMPLETE_ABORT},
    State.COMPLETE_COMMIT: {State.EMPTY, State.ONGOING, State.COMPLETE_ABORT},
    State.COMPLETE_ABORT: {State.EMPTY, State.ONGOING, State.COMPLETE_ABORT},
}
TIMEOUT_MS = 10_000
EXPIRATION_MS = 60_000


@dataclass(eq=False)
class Attempt:
    """One transaction as its producer sees it."""

    name: str
    places: set[TopicPartitionName] = field(default_factory=set)
    has_begun: bool = False
    """Whether some partition has entered for sure."""
    asked: set[bool] = field(default_factory=set)
    """Results that the producer has asked for: True to commit."""
    is_given_up: bool = False
    """Whether some producer has begun anew since: the transaction may be aborted for it."""


class Chronicle:
    """See the module."""

    def __init__(self, journal: HeldJournal) -> None:
        self._journal = journal
        self._seen: dict[int, Batch] = {}
        """By number; kept, since a number may be that of another batch later."""
        self.latest: dict[str, Transaction] = {}
        self.decided: dict[TopicPartitionName, bool] = {}
        self.attempts: dict[TopicPartitionName, Attempt] = {}
        self.told: set[TopicPartitionName] = set()
        """Partitions that have heard how their transaction has ended."""
        self.forgotten: set[str] = set()
        """Names that have expired since this was last looked at."""
        self._producer_ids: set[int] = set()

    def new_place(self, attempt: Attempt) -> TopicPartitionName:
        """Return a partition that only this attempt has."""
        place = ("t", len(self.attempts))
        self.attempts[place] = attempt
        attempt.places.add(place)
        return place

    def read_on(self, now_ms: int) -> None:
        """Check what has been confirmed since the last time."""
        for batch in self._journal.batches:
            if batch.is_confirmed and id(batch) not in self._seen:
                self._seen[id(batch)] = batch
                self._read(batch.records, now_ms)

    def _read(self, records: Iterable[UnreadRecord], now_ms: int) -> None:
        for record in records:
            name = decode_key(record.key or b"")
            before = self.latest.get(name)
            if record.value is None:
                self._forget(name, before, now_ms)
                continue
            after = decode_value(name, record.value)
            if after != before:
                self._check_producer(before, after)
                self._check_state(before, after, now_ms)
            self.latest[name] = after

    def _forget(self, name: str, before: Transaction | None, now_ms: int) -> None:
        assert before is not None
        assert before.is_idle, "only ids without a transaction are forgotten"
        assert now_ms - before.update_ms > EXPIRATION_MS
        del self.latest[name]
        self.forgotten.add(name)

    def _check_producer(self, before: Transaction | None, after: Transaction) -> None:
        if before is not None and before.producer_id == after.producer_id:
            assert before.producer_epoch <= after.producer_epoch <= EPOCH_MAX + 1
        else:
            assert after.producer_id not in self._producer_ids, "ids are never given again"
            assert before is None or after.producer_epoch == 0
        self._producer_ids.add(after.producer_id)
        if after.state is State.ONGOING:
            assert after.producer_epoch <= EPOCH_MAX, "nobody has the epoch that fences"

    def _check_state(self, before: Transaction | None, after: Transaction, now_ms: int) -> None:
        if before is None:
            assert after.state is State.EMPTY
            return
        assert after.state in AFTER[before.state], (before, after)
        begins = after.state is State.ONGOING and before.state is not State.ONGOING
        assert after.number == before.number + begins, "each transaction has the next number"
        if before.state is State.ONGOING:
            assert after.start_ms == before.start_ms
            assert after.partitions >= before.partitions
        if after.is_prepared:
            assert after.partitions == before.partitions
            self._check_decision(after, now_ms)
        elif after.is_idle:
            assert not after.partitions
            assert not before.is_prepared or before.partitions <= self.told
        else:
            owners = {self.attempts[place] for place in after.partitions}
            assert len(owners) == 1, "one transaction for one attempt"

    def _check_decision(self, after: Transaction, now_ms: int) -> None:
        is_commit = after.state is State.PREPARE_COMMIT
        is_over = now_ms >= after.start_ms + after.timeout_ms
        for place in after.partitions:
            assert self.decided.setdefault(place, is_commit) is is_commit
            attempt = self.attempts[place]
            is_wanted = is_commit in attempt.asked
            assert is_wanted or (not is_commit and (attempt.is_given_up or is_over)), after

    def check_duty(self, duty: MarkerDuty, epoch: int) -> None:
        """Check what partitions are to be told: what is confirmed, by its present coordinator."""
        one = self.latest[duty.transactional_id]
        assert one.is_prepared
        assert duty.is_commit is (one.state is State.PREPARE_COMMIT)
        assert Producer(duty.producer_id, duty.producer_epoch) == one[1:3]
        assert duty.partitions == one.partitions
        assert duty.version == one.version
        assert duty.number == one.number
        assert duty.coordinator_epoch == epoch
