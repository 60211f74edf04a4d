"""Any history of transactions keeps their promises.

Instances of both versions take ids from each other, retry, come late; writes are confirmed, slow,
refused or lost with a mastership; markers are told in any order, twice, or in part; partitions are
rewritten; time passes. After every step the state is what a replay of the confirmed log gives, each
transaction is decided one way only and for a reason, nobody has what another was given, and an end
that was acknowledged is in the log. At the end all of them are over.
"""

from collections import deque
from collections.abc import Callable, Iterator

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from penstock.base.ids import ProducerEpoch, ProducerId
from penstock.coordinator.records import JournalRecord
from penstock.coordinator.unwritten import Unwritten
from penstock.transactions.messages import Filter, MarkerDuty
from penstock.transactions.state import EPOCH_MAX, Transaction, TransactionState
from penstock.transactions.table import record_of
from tests.coordinator.held_journal import Batch, HeldJournal
from tests.groups.world import HandClock
from tests.transactions.chronicle import EXPIRATION_MS, Chronicle
from tests.transactions.instances import Instance, Instances, Request
from tests.transactions.world import World

NAMES = st.sampled_from("xyy")
WALL_MS = HandClock().wall_ms() - HandClock().monotonic_ms()
VERSIONS = st.sampled_from((1, 2))
NUMBERS = st.integers(0, 20)
FEW = st.integers(0, 3)
KEPT = st.integers(0, 2)
FATES = st.sampled_from(("confirmed", "confirmed", "under way", "refused", "without an answer"))


class TransactionMachine(RuleBasedStateMachine):
    @initialize(
        epoch=st.sampled_from((0, EPOCH_MAX - 1, EPOCH_MAX)),
        first=st.lists(st.tuples(NAMES, VERSIONS), min_size=1, max_size=3),
    )
    def start(self, epoch: int, first: list[tuple[str, int]]) -> None:
        """`y` is an id that was used for long."""
        self.journal = HeldJournal()
        self.turns: deque[Callable[[], None]] = deque()
        self.told: list[MarkerDuty] = []
        self.rewriting: Iterator[list[JournalRecord]] | None = None
        self.rewritten: list[Batch] = []
        self.epoch = 7
        self.world = self._new_world(None)
        used = Transaction(
            "y", ProducerId(500), ProducerEpoch(epoch), 5_000, TransactionState.EMPTY
        )
        used = used._replace(update_ms=self.world.clock.wall_ms())
        self.journal.append(0, [record_of("y", used)], lambda _: None)
        self.journal.confirm()
        self.chronicle = Chronicle(self.journal)
        self.producers = Instances(self.chronicle, lambda: self.world)
        self._load()
        for name, version in first:
            self.begin(name, version, "confirmed")

    def _new_world(self, before: World | None) -> World:
        world = World(
            self.journal,
            self.turns.append,
            None if before is None else before.ids,
            id_expiration_ms=EXPIRATION_MS,
            expiry_check_interval_ms=EXPIRATION_MS // 4,
        )
        world.is_prompt = False
        if before is not None:
            world.clock.now_ms = before.clock.now_ms
        return world

    def _load(self) -> None:
        self.epoch += 1
        self.world.epoch = self.epoch
        self.world.load([*self.journal.records(with_all=True)])
        self._run()

    def _run(self) -> None:
        while self.turns:
            self.turns.popleft()()
        self.chronicle.read_on(self.world.clock.wall_ms())
        self.producers.note_expired()

    def _one(self, number: int) -> Instance | None:
        living = [one for one in self.producers.all if not one.is_dead]
        return living[-1 - number % len(living)] if living else None

    # Producers

    @rule(name=NAMES, version=VERSIONS, fate=FATES)
    def begin(self, name: str, version: int, fate: str) -> None:
        self._do(lambda: self.producers.begin(name, version), fate)

    @rule(number=FEW, is_commit=st.booleans(), choice=st.integers(0, 5), fate=FATES)
    def go_on(self, number: int, is_commit: bool, choice: int, fate: str) -> None:
        """An instance does one thing: whatever waits for an answer, or something new."""
        one = self._one(number)
        if one is None or one.is_waiting:
            return
        if one.request is not None and (choice or one.producer is None):
            self._do(lambda: self.producers.ask_again(one), fate)
        elif choice == 0 or one.request is not None:
            self._do(lambda: self.producers.ask(one, Request("init", one.producer)), fate)
        elif choice in {1, 2} or (one.attempt is None and choice != 3):
            self._do(lambda: self.producers.new_attempt(one), fate)
        else:
            self._do(lambda: self.producers.end(one, is_commit=is_commit), fate)

    @rule(number=FEW, results=st.lists(st.booleans(), min_size=1, max_size=3), fate=FATES)
    def go_far(self, number: int, results: list[bool], fate: str) -> None:
        """An instance has some transactions; `fate` is what happens to the last end."""
        one = self._one(number)
        steps = [(step, one_of) for one_of in results for step in ("again", "again", "add", "end")]
        for left, (step, is_commit) in zip(range(len(steps) - 1, -1, -1), steps, strict=True):
            self._mark()
            self.journal.confirm()
            self._run()
            if one is None or one.is_waiting or one.is_dead:
                return
            self._step(one, step, "confirmed" if left else fate, is_commit=is_commit)

    def _step(self, one: Instance, step: str, fate: str, *, is_commit: bool) -> None:
        if one.request is not None:
            self._do(lambda: self.producers.ask_again(one), fate)
        elif step == "add":
            self._do(lambda: self.producers.new_attempt(one), fate)
        elif step == "end":
            self._do(lambda: self.producers.end(one, is_commit=is_commit), fate)

    def _do(self, act: Callable[[], None], fate: str) -> None:
        """Do something whose write is confirmed, is under way, is refused, or has no answer."""
        if fate == "refused":
            self.journal.refuses = Unwritten.TOO_FEW_IN_STEP
        act()
        self.journal.refuses = None
        if fate == "without an answer":
            self.producers.forget_answers()
        if fate in {"confirmed", "without an answer"}:
            self.journal.confirm()
        self._run()

    @rule()
    def lose_the_answers(self) -> None:
        self.producers.forget_answers()

    @rule(number=NUMBERS, which=NUMBERS)
    def come_late(self, number: int, which: int) -> None:
        """Of version 1 only what has an epoch of its own; its other requests look alike."""
        if not self.producers.all:
            return
        one = self.producers.all[number % len(self.producers.all)]
        known = [each for each in one.sent if each.producer is not None]
        old = [each for each in known if one.version == 2 or each.kind == "init"]
        if old:
            self.producers.ask_late(one, old[which % len(old)])
            self._run()

    @rule(number=NUMBERS)
    def verify(self, number: int) -> None:
        one = self._one(number)
        if one is not None:
            self.producers.check_verified(one)

    # The log, new ids, time

    @rule(count=st.integers(1, 3))
    def confirm(self, count: int) -> None:
        self.journal.confirm(count)
        self._run()

    @rule()
    def tell_late(self) -> None:
        self.journal.tell_late()
        self._run()

    @rule(has_some=st.booleans())
    def tell_ids(self, *, has_some: bool) -> None:
        """Ids are told at once, or when this is next called."""
        ids = self.world.ids
        waiting = ids.waiting
        ids.waiting = [] if waiting is None else None
        for told in waiting or ():
            told(ProducerId(next(ids.count)) if has_some else None)
        self._run()

    @rule(milliseconds=st.sampled_from((1, 1_000, 4_000, 11_000, EXPIRATION_MS)), fate=FATES)
    def pass_time(self, milliseconds: int, fate: str) -> None:
        self.world.clock.now_ms += milliseconds
        self._do(lambda: self.world.coordinator.runtime.tick(self.world.clock.now_ms), fate)
        self.producers.note_time(self.world.clock.wall_ms())

    # Markers

    def _mark(self) -> None:
        for duty in self.world.markers.duties:
            self.chronicle.told |= duty.partitions
        self.world.mark()

    @rule(number=NUMBERS, is_whole=st.booleans(), is_kept=st.booleans(), fate=FATES)
    def tell_markers(self, number: int, *, is_whole: bool, is_kept: bool, fate: str) -> None:
        duties = self.world.markers.duties
        if not duties:
            return
        duty = duties[number % len(duties)]
        if is_whole and not is_kept:
            duties.remove(duty)
        self.told.append(duty)
        places = sorted(duty.partitions)[: None if is_whole else 1]
        self.chronicle.told.update(places)
        self._do(lambda: self.world.coordinator.markers_written(duty, places), fate)

    @rule(number=NUMBERS)
    def tell_markers_again(self, number: int) -> None:
        if self.told:
            duty = self.told[number % len(self.told)]
            self.chronicle.told |= duty.partitions
            self.world.coordinator.markers_written(duty, duty.partitions)
            self._run()

    # Masterships

    @rule(kept=KEPT, is_told_first=st.booleans())
    def fail_over_and_back(self, kept: int, *, is_told_first: bool) -> None:
        waiting = self.journal.lose(kept)
        runtime = self.world.coordinator.runtime
        if not is_told_first:
            runtime.unload(0)
        for batch in waiting:
            batch.done(Unwritten.OVERTAKEN)
        self._run()
        if is_told_first:
            runtime.unload(0)
            self._run()
        self._check_nothing_is_left()
        self.rewriting, self.rewritten = None, []
        self._load()

    def _check_nothing_is_left(self) -> None:
        coordinator = self.world.coordinator
        assert coordinator._duties._of_partition == {}
        assert coordinator.ending_count == 0
        assert len(coordinator._base.deadlines) == 1, "the next look at what expires"
        assert coordinator._base.writes.in_flight == 0
        assert not self.world.markers.duties

    @rule(kept=KEPT)
    def kill(self, kept: int) -> None:
        self.turns.clear()
        self.journal.lose(kept)
        self.producers.note_killed()
        self.rewriting, self.rewritten = None, []
        if self.world.ids.waiting:
            self.world.ids.waiting.clear()
        self.world = self._new_world(self.world)
        self._load()

    # Rewrites, a batch at a time

    @precondition(lambda self: self.rewriting is None)
    @rule()
    def begin_rewrite(self) -> None:
        self.rewriting = iter(self.world.coordinator.runtime.snapshot(0))

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
            self.journal.cut(self.rewritten[0])
        self.world.coordinator.runtime.rewritten(0, 0)
        self.rewriting, self.rewritten = None, []

    # What always holds

    @invariant()
    def what_is_shown_is_what_the_confirmed_log_says(self) -> None:
        shown = {
            one.transactional_id: one
            for some in self.world.coordinator.listed(Filter())
            for one in some
        }
        assert shown == self.chronicle.latest
        again = World().load(self.journal.records()).coordinator.listed(Filter())
        assert shown == {one.transactional_id: one for some in again for one in some}

    @invariant()
    def what_was_acknowledged_is_decided(self) -> None:
        for attempt, is_commit in self.producers.acknowledged:
            decisions = {self.chronicle.decided.get(place) for place in attempt.places}
            assert is_commit in decisions
            assert (not is_commit) not in decisions

    @invariant()
    def what_is_decided_is_being_told(self) -> None:
        coordinator = self.world.coordinator
        states = coordinator._shard.by_partition[0]
        duties = {one.transactional_id: one for one in self.world.markers.duties}
        for name, one in self.chronicle.latest.items():
            is_open = coordinator._duties.is_open(0, name)
            assert one.is_prepared or not is_open
            if is_open:
                self.chronicle.check_duty(duties[name], self.epoch)
            elif one.is_prepared and not states.is_in_flight(name):
                assert coordinator._base.deadlines.at(("retry", name)) is not None

    @invariant()
    def what_is_open_has_its_time(self) -> None:
        now_ms = self.world.clock.wall_ms()
        for name, one in self.chronicle.latest.items():
            at_ms = self.world.coordinator._base.deadlines.at(("timeout", name))
            in_flight = self.world.coordinator._shard.by_partition[0].is_in_flight(name)
            if one.state is not TransactionState.ONGOING:
                assert at_ms is None
            elif now_ms < one.start_ms + one.timeout_ms:
                assert at_ms == one.start_ms + one.timeout_ms - WALL_MS
            else:
                assert in_flight or (at_ms is not None and at_ms + WALL_MS <= now_ms + 1_000)

    def teardown(self) -> None:
        """All transactions end by themselves."""
        if not hasattr(self, "producers"):
            return
        self.world.ids.waiting = None
        for _ in range(4):
            self.journal.confirm()
            self._run()
            self._mark()
            self.pass_time(11_000, "confirmed")
        assert all(one.is_idle for one in self.chronicle.latest.values())
        assert not self.world.markers.duties


TestTransactions = TransactionMachine.TestCase
TestTransactions.settings = settings(max_examples=150, stateful_step_count=50, deadline=None)
