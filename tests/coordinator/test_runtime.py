"""Partitions that come and go while long work is done in portions; what is told, and how often."""

from collections import deque
from collections.abc import Callable

import pytest

from penstock.base.ids import ProducerEpoch, ProducerId
from penstock.base.invariant import InvariantViolation
from penstock.coordinator.outbox import Outbox
from penstock.coordinator.partitions import Partitions, PartitionState
from penstock.coordinator.pending import Writer
from penstock.coordinator.portions import PORTION, Portions, Steps
from penstock.coordinator.records import records_bytes
from penstock.coordinator.runtime import DUE_TOGETHER
from penstock.coordinator.unwritten import Unwritten
from penstock.coordinator.writes import MARKER_BYTES
from tests.coordinator.held_journal import HeldJournal
from tests.coordinator.tally import TOGETHER, Put, Tally, record_of

MANY = 3 * PORTION * TOGETHER


class World:
    """A tally whose partition 0 has been loaded, with these counts."""

    def __init__(self, count: int = 0, **bounds: int) -> None:
        self.journal = HeldJournal()
        self.turns: deque[Callable[[], None]] = deque()
        self.tally = Tally(self.journal, self.turns.append, **bounds)
        self.runtime = self.tally.runtime
        self.begin(count)

    def begin(self, count: int) -> None:
        self.runtime.begin_loading(0)
        for number in range(count):
            self.runtime.load(0, record_of(f"c{number}", number))
        self.runtime.finish_loading(0)

    def turn(self) -> None:
        for _ in range(len(self.turns)):
            self.turns.popleft()()

    def all_turns(self) -> None:
        while self.turns:
            self.turn()

    @property
    def state(self) -> PartitionState | None:
        return self.runtime.base.partitions.state(0)


def test_a_large_partition_is_shown_all_at_once_when_all_of_it_is_made() -> None:
    world = World(MANY)
    turns = 0
    while world.state is PartitionState.LOADING:
        assert 0 not in world.tally.counts
        world.turn()
        turns += 1
    assert turns >= 2
    assert len(world.tally.counts[0].values) == MANY


def test_a_partition_that_is_given_up_while_it_is_made_is_never_shown() -> None:
    world = World(MANY)
    world.turn()
    world.runtime.unload(0)
    world.all_turns()
    assert world.state is None
    assert not world.tally.counts


def test_a_partition_that_comes_back_while_it_is_made_shows_the_second_loading_alone() -> None:
    world = World(MANY)
    world.turn()
    world.runtime.unload(0)
    world.begin(2)
    world.all_turns()
    assert world.tally.counts[0].values == {"c0": 0, "c1": 1}


def test_whoever_waits_hears_the_end_before_the_partition_is_shown_anew() -> None:
    world = World(1)
    told: list[int | None] = []
    for _ in range(PORTION):
        world.tally.wait(0, "c0", told.append)
    world.runtime.unload(0)
    world.begin(1)
    while world.state is PartitionState.LOADING:
        assert 0 not in world.tally.counts
        world.turn()
    assert len(told) == PORTION
    assert world.runtime.next_deadline_ms() is None


def test_a_write_that_takes_long_is_told_once_and_counts_when_it_is_confirmed() -> None:
    world = World()
    world.tally.put(0, "a", 1)
    world.journal.tell_late()
    assert world.tally.told == [Unwritten.LATE]
    assert world.tally.counts[0].values == {}
    world.journal.confirm()
    assert world.tally.told == [Unwritten.LATE]
    assert world.tally.counts[0].values == {"a": 1}
    assert world.runtime.base.writes.in_flight == 0


def test_so_many_writes_are_under_way_at_most() -> None:
    world = World(writes_in_flight_max=2)
    for number in range(3):
        world.tally.put(0, f"c{number}", number)
    assert len(world.journal.batches) == 2
    world.journal.confirm(1)
    world.tally.put(0, "c3", 3)
    world.journal.confirm()
    assert world.tally.counts[0].values == {"c0": 0, "c1": 1, "c3": 3}


def test_what_is_loaded_counts_for_rewrites_only_once_it_is_shown() -> None:
    world = World(MANY)
    rewrites = world.runtime.base.rewrites
    world.turn()
    assert rewrites.due() == ()
    with pytest.raises(InvariantViolation):
        world.runtime.snapshot(0)
    world.all_turns()
    assert rewrites.due() == (0,)
    assert world.runtime.is_movable(0)


def test_a_partition_with_a_batch_that_nobody_can_take_apart_is_not_rewritten() -> None:
    world = World()
    world.runtime.unload(0)
    world.runtime.begin_loading(0)
    world.runtime.load_unread_batch(0, "a transaction")
    world.runtime.finish_loading(0)
    world.all_turns()
    assert not world.runtime.is_movable(0)
    with pytest.raises(InvariantViolation):
        world.runtime.snapshot(0)
    world.runtime.unload(0)
    world.begin(0)
    assert world.runtime.is_movable(0)


def test_of_many_deadlines_that_are_due_a_tick_takes_some() -> None:
    world = World()
    for number in range(DUE_TOGETHER + 1):
        world.runtime.base.deadlines.set(f"d{number}", 5)
    world.runtime.tick(4)
    assert world.tally.due == []
    world.runtime.tick(5)
    assert len(world.tally.due) == DUE_TOGETHER
    assert world.runtime.next_deadline_ms() == 5
    world.runtime.tick(5)
    assert len(world.tally.due) == DUE_TOGETHER + 1


def test_the_number_of_partitions_changes_only_while_none_is_owned() -> None:
    world = World()
    partitions = world.runtime.base.partitions
    with pytest.raises(InvariantViolation):
        partitions.use_count(3)
    world.runtime.unload(0)
    partitions.use_count(3)
    assert partitions.count == 3


def test_a_topic_that_grows_gets_partitions_while_others_are_owned_and_loses_none() -> None:
    partitions = Partitions(1, grows=True)
    partitions.put(0, PartitionState.ACTIVE)
    partitions.use_count(3)
    partitions.put(2, PartitionState.LOADING)
    assert partitions.count == 3
    with pytest.raises(InvariantViolation):
        partitions.use_count(2)


def test_whoever_is_told_of_a_write_finds_it_and_room_for_the_next_one() -> None:
    world = World(writes_in_flight_max=1)
    counts, writes = world.tally.counts[0], world.runtime.base.writes
    found: list[tuple[Unwritten | None, dict[str, int], bool]] = []

    def told(reason: Unwritten | None) -> None:
        found.append((reason, dict(counts.values), writes.is_full))

    writes.append(0, Put(counts, "a", 1), told)
    world.journal.confirm()
    world.all_turns()
    world.journal.refuses = Unwritten.OVERTAKEN
    writes.append(0, Put(counts, "b", 2), told)
    world.all_turns()
    assert found == [(None, {"a": 1}, False), (Unwritten.OVERTAKEN, {"a": 1}, False)]
    assert counts.latest_of(counts.keys()) == {"a": 1}


def test_what_a_partition_kept_unread_goes_with_it() -> None:
    world = World()
    world.runtime.unload(0)
    world.runtime.begin_loading(0)
    world.runtime.load(0, (b"of a later version", b"x"))
    world.runtime.finish_loading(0)
    world.all_turns()
    assert world.runtime.unread_bytes > 0
    world.runtime.unload(0)
    assert world.runtime.unread_bytes == 0


def _writer(producer_id: int) -> Writer:
    return Writer(ProducerId(producer_id), ProducerEpoch(0))


def test_what_was_loaded_counts_for_rewrites_with_its_markers() -> None:
    world = World()
    world.runtime.unload(0)
    world.runtime.begin_loading(0)
    records = [record_of("a", 1), record_of("b", 2)]
    for number, record in enumerate(records):
        world.runtime.load(0, record, _writer(number))
        world.runtime.load_end(0, _writer(number), is_commit=True)
    world.runtime.finish_loading(0)
    world.all_turns()
    live_bytes = world.runtime.base.rewrites.live_bytes(0)
    assert live_bytes == sum(records_bytes([one]) for one in records) + 2 * MARKER_BYTES


def test_transactions_that_end_while_a_partition_is_made_all_end_once_it_is_shown() -> None:
    world = World()
    world.runtime.unload(0)
    world.runtime.begin_loading(0)
    for number in range(MANY):
        world.runtime.load(0, record_of(f"c{number}", number))
    for number in range(3):
        world.runtime.load(0, record_of(f"t{number}", number), _writer(number))
    world.runtime.finish_loading(0)
    assert world.state is PartitionState.LOADING
    ends = [
        world.runtime.end_transaction(0, _writer(number), is_commit=True) for number in range(3)
    ]
    for ended in ends[:2]:
        ended(Unwritten.LATE)
        ended(None)
    world.all_turns()
    counts = world.tally.counts[0]
    assert [counts.values.get(f"t{number}") for number in range(3)] == [0, 1, None]
    assert world.runtime.base.writes.in_flight == 1
    ends[2](None)
    assert counts.values["t2"] == 2
    assert world.runtime.base.writes.in_flight == 0


def test_what_begins_in_a_turn_that_is_used_up_waits_for_the_next_one() -> None:
    turns: deque[Callable[[], None]] = deque()
    portions, done = Portions(Outbox(), turns.append), list[int]()

    def work(number: int, cost: int) -> Steps:
        done.append(number)
        yield cost

    portions.begin(work(0, PORTION))
    portions.begin(work(1, 1))
    assert done == [0]
    while turns:
        turns.popleft()()
    assert done == [0, 1]
