"""What every kind of coordinator does: live state is what a replay of the log gives.

Inherit ShardContract and give `make` for the kind under test. Whatever is written, confirmed,
refused, told late, lost with a mastership, broken off by a kill or rewritten, in any order:

- what is shown is what a coordinator shows that has loaded the confirmed part of the log, or what
  is on its way there too, for a kind that runs ahead;
- what a rewrite would write is what the whole log says, changes under way included;
- what a transaction has written counts once its marker is confirmed, if it committed;
- what a later version has written is in the log, byte for byte, until the next record of its key.
"""

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from penstock.base.ids import ProducerEpoch, ProducerId
from penstock.coordinator.journal import Journal
from penstock.coordinator.outbox import Later
from penstock.coordinator.pending import Writer
from penstock.coordinator.records import JournalRecord, UnreadRecord, records_bytes
from penstock.coordinator.runtime import CoordinatorRuntime
from penstock.coordinator.unwritten import Unwritten
from tests.coordinator.held_journal import Batch, HeldJournal

NUMBERS = st.integers(0, 40)
FEW = st.integers(0, 3)


class Kind(ABC):
    """A coordinator over a journal, which has loaded nothing yet."""

    runtime: CoordinatorRuntime[Any, Any]
    runs_ahead = False
    """Whether it shows what is on its way to the log: then what clients are told waits instead."""

    @abstractmethod
    def __init__(self, journal: Journal, later: Later | None) -> None:
        """Make it; it has one partition, 0."""

    @abstractmethod
    def change(self, number: int) -> None:
        """Ask for some change. Numbers name few keys, so that changes meet, and some remove."""

    def change_in_transaction(self, number: int, writer: Writer) -> None:  # noqa: B027
        """Ask for a change in a transaction; a kind without transactions does nothing."""

    @abstractmethod
    def state(self) -> object:
        """Return what is confirmed, as a value."""

    def ahead(self) -> Sequence[JournalRecord]:
        """Return what is shown and not in the log yet, if the kind runs ahead."""
        return ()

    @staticmethod
    @abstractmethod
    def later_version(number: int) -> UnreadRecord:
        """Return a record with a key that this version does not know, one of few."""


def replay(make: Callable[..., Kind], log: Iterable[Batch]) -> Kind:
    """Return a coordinator that has loaded these."""
    kind = make(HeldJournal(), None)
    load(kind, log)
    return kind


def load(kind: Kind, log: Iterable[Batch]) -> None:
    kind.runtime.begin_loading(0)
    for batch in log:
        load_batch(kind, batch)
    kind.runtime.finish_loading(0)


def load_batch(kind: Kind, batch: Batch) -> None:
    if batch.writer is None:
        for record in batch.records:
            kind.runtime.load(0, record)
        return
    for record in batch.records:
        kind.runtime.load(0, record, batch.writer)
    if batch.is_commit is not None:
        kind.runtime.load_end(0, batch.writer, is_commit=batch.is_commit)


def live_records(kind: Kind) -> Batch:
    """Return what a rewrite would write now."""
    batches = kind.runtime.snapshot(0)
    records = [UnreadRecord(*record) for batch in batches for record in batch]
    return Batch(records, lambda _: None)


class ShardContract(RuleBasedStateMachine):
    """See the module."""

    make: Callable[..., Kind]

    def __init__(self) -> None:
        super().__init__()
        self.journal = HeldJournal()
        self.turns: deque[Callable[[], None]] = deque()
        self.rewriting: Iterator[list[JournalRecord]] | None = None
        self.rewritten: list[Batch] = []
        self.cut_off: list[Batch] = []
        """What a rewrite in progress replaces: all before the oldest transaction that was open."""
        self.unknown: dict[bytes | None, UnreadRecord] = {}
        self.kind = type(self).make(self.journal, self.turns.append)
        self._load()

    def _load(self) -> None:
        load(self.kind, self.journal.log(with_all=True))
        self._run()

    def _run(self) -> None:
        while self.turns:
            self.turns.popleft()()

    def _end_rewrite(self) -> None:
        self.rewriting, self.rewritten = None, []

    # What clients and the log do

    @rule(number=NUMBERS)
    def change(self, number: int) -> None:
        self.kind.change(number)

    @rule(number=NUMBERS, reason=st.sampled_from((Unwritten.TOO_FEW_IN_STEP, Unwritten.TOO_LARGE)))
    def change_that_is_refused(self, number: int, reason: Unwritten) -> None:
        self.journal.refuses = reason
        self.kind.change(number)
        self.journal.refuses = None

    @rule(number=NUMBERS, producer_id=FEW)
    def change_in_transaction(self, number: int, producer_id: int) -> None:
        self.kind.change_in_transaction(number, Writer(ProducerId(producer_id), ProducerEpoch(0)))

    @rule(producer_id=FEW, is_commit=st.booleans())
    def mark(self, producer_id: int, *, is_commit: bool) -> None:
        """A marker is appended, and the coordinator told; nothing may be open."""
        writer = Writer(ProducerId(producer_id), ProducerEpoch(0))
        done = self.kind.runtime.end_transaction(0, writer, is_commit=is_commit)
        self.journal.mark(writer, done, is_commit=is_commit)

    @rule(count=st.integers(1, 3))
    def confirm(self, count: int) -> None:
        self.journal.confirm(count)
        self._run()

    @rule()
    def tell_late(self) -> None:
        self.journal.tell_late()
        self._run()

    # Masterships and processes that end

    @rule(kept=FEW, later=st.lists(FEW, max_size=2), is_told_first=st.booleans())
    def fail_over_and_back(self, kept: int, later: list[int], *, is_told_first: bool) -> None:
        """Another node leads for a while, of a later version perhaps."""
        self._end_rewrite()
        waiting = self.journal.lose(kept)
        if not is_told_first:
            self.kind.runtime.unload(0)
        for batch in waiting:
            batch.done(Unwritten.OVERTAKEN)
        if is_told_first:
            self._run()
            self.kind.runtime.unload(0)
        self._later_version_writes(later)
        self._run()
        self._load()

    @rule(kept=FEW, later=st.lists(FEW, max_size=2))
    def kill(self, kept: int, later: list[int]) -> None:
        """Nobody hears of what was under way."""
        self._end_rewrite()
        self.turns.clear()
        self.journal.lose(kept)
        self._later_version_writes(later)
        self.kind = type(self).make(self.journal, self.turns.append)
        self._load()

    def _later_version_writes(self, numbers: list[int]) -> None:
        for number in numbers:
            record = self.kind.later_version(number)
            self.unknown[record.key] = record
            batch = Batch([record], lambda _: None, is_confirmed=True)
            self.journal.batches.append(batch)

    @rule(producer_id=FEW, is_commit=st.booleans(), is_confirmed_first=st.booleans())
    def mark_while_it_is_loaded(
        self, producer_id: int, *, is_commit: bool, is_confirmed_first: bool
    ) -> None:
        """A marker comes when all of the log was read, and nothing is shown yet."""
        self._end_rewrite()
        self.kind.runtime.unload(0)
        for batch in self.journal.lose(100):
            batch.done(Unwritten.OVERTAKEN)
        self._run()
        self.kind.runtime.begin_loading(0)
        for batch in self.journal.log():
            load_batch(self.kind, batch)
        self.mark(producer_id, is_commit=is_commit)
        if is_confirmed_first:
            self.journal.confirm()
        self.kind.runtime.finish_loading(0)
        self._run()

    # Rewrites, a batch at a time; anything may be between two of them

    @precondition(lambda self: self.rewriting is None)
    @rule()
    def begin_rewrite(self) -> None:
        assert self.kind.runtime.is_movable(0)
        self.rewriting = iter(self.kind.runtime.snapshot(0))
        log, first = self.journal.log(with_all=True), self.journal.first_open()
        self.cut_off = log if first is None else log[: log.index(first)]

    @precondition(lambda self: self.rewriting is not None)
    @rule()
    def go_on_rewriting(self) -> None:
        assert self.rewriting is not None
        for records in self.rewriting:
            if records:
                self.journal.append(0, records, lambda _: None)
                self.rewritten.append(self.journal.batches[-1])
                return
        self.journal.confirm()
        self._run()
        if self.rewritten:
            self.journal.cut_off(self.cut_off)
        size = sum(records_bytes(batch.records) for batch in self.rewritten)
        self.kind.runtime.rewritten(0, size)
        self._end_rewrite()

    # What always holds

    @invariant()
    def what_is_shown_is_what_the_confirmed_log_says(self) -> None:
        assert self.kind.state() == self._replayed(with_all=self.kind.runs_ahead)

    @invariant()
    def a_rewrite_would_write_what_the_whole_log_says(self) -> None:
        written, first = live_records(self.kind), self.journal.first_open()
        log = self.journal.log(with_all=True)
        kept = [] if first is None else log[log.index(first) :]
        anew = replay(type(self).make, [*kept, written])
        assert anew.state() == self._replayed(with_all=True)

    def _replayed(self, *, with_all: bool) -> object:
        log = [*self.journal.log(with_all=with_all)]
        if with_all:
            ahead = [UnreadRecord(*record) for record in self.kind.ahead()]
            log.append(Batch(ahead, lambda _: None))
        return replay(type(self).make, log).state()

    @invariant()
    def what_a_later_version_wrote_is_kept_byte_for_byte(self) -> None:
        written = live_records(self.kind).records
        for record in self.unknown.values():
            assert record in written
