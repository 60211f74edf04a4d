"""Markers that wait until the producer has its answer (ADR 0183)."""

import pytest

from penstock.protocol.error_codes import ErrorCode as Code
from penstock.transactions.duties import BESIDE_MAX
from penstock.transactions.messages import Producer, ProducerReply
from penstock.transactions.state import TopicPartitionName, TransactionState
from tests.transactions.test_portions import TurningWorld
from tests.transactions.world import ONE, OTHER


class BehindWorld(TurningWorld):
    """A world whose markers come behind the answer, and whose turns are in the test's hand."""

    def __init__(self) -> None:
        super().__init__()
        self.markers.is_behind = True
        self.markers.beside = {ONE, OTHER}
        self.told: list[Code] = []

    def decide(self, *partitions: TopicPartitionName, commits: bool = True) -> Producer:
        """Have a transaction decided, which nobody has confirmed."""
        producer = self.begun()
        assert self.add(producer, *partitions) is Code.NONE
        self.end_it(producer, commits=commits)
        return producer

    def end_it(self, producer: Producer, *, commits: bool = True) -> None:
        tell = self.told
        self.coordinator.end("x", producer, 1, lambda one: tell.append(one[0]), is_commit=commits)

    def settle(self) -> None:
        super().settle()
        self.loop.turn()


@pytest.mark.parametrize("commits", [True, False])
def test_the_answer_leaves_before_the_markers_are_written(commits: bool) -> None:
    world = BehindWorld()
    world.decide(ONE, OTHER, commits=commits)
    assert not world.markers.written_beside
    world.journal.confirm()
    assert world.told == [Code.NONE]
    assert not world.markers.written_beside
    assert world.coordinator.ending_count == 1
    world.loop.turn()
    (duty,) = world.markers.written_beside
    assert duty.partitions == {ONE, OTHER}
    assert duty.is_commit is commits
    assert len(world.journal.under_way) == 1, "that it is over is written in the same turn"
    world.journal.confirm()
    over = TransactionState.COMPLETE_COMMIT if commits else TransactionState.COMPLETE_ABORT
    assert world.state().state is over
    assert world.coordinator.ending_count == 0


def test_answers_of_one_turn_leave_before_the_markers_of_any_of_them() -> None:
    world = BehindWorld()
    names = ["x", "y", "z"]
    producers = {name: world.init(name).producer for name in names}
    for name, producer in producers.items():
        assert world.add(producer, ONE, name=name) is Code.NONE
    for name, producer in producers.items():
        world.coordinator.end(
            name, producer, 1, lambda one: world.told.append(one[0]), is_commit=True
        )
    world.journal.confirm()
    assert world.told == [Code.NONE] * 3
    assert not world.markers.written_beside
    world.loop.turn()
    assert sorted(one.transactional_id for one in world.markers.written_beside) == names


def test_what_an_answer_has_left_for_the_next_turn_is_done_before_the_markers() -> None:
    """A connection writes in the turn after that in which it has the answer."""
    world = BehindWorld()
    producer = world.begun()
    assert world.add(producer, ONE) is Code.NONE
    when_written: list[int] = []

    def told(_: ProducerReply) -> None:
        marked = world.markers.written_beside
        world.loop.callbacks.append(lambda: when_written.append(len(marked)))

    world.coordinator.end("x", producer, 1, told, is_commit=True)
    world.journal.confirm()
    world.loop.turn()
    assert when_written == [0]
    assert len(world.markers.written_beside) == 1


def test_the_next_transaction_waits_for_the_markers() -> None:
    world = BehindWorld()
    producer = world.decide(ONE)
    world.journal.confirm()
    assert world.add_code(producer) is Code.CONCURRENT_TRANSACTIONS
    assert world.coordinator.verify("x", producer, [ONE]) == {ONE: Code.CONCURRENT_TRANSACTIONS}
    free: list[bool] = []
    assert world.coordinator.ends.wait("x", lambda: free.append(True))
    world.loop.turn()
    assert not free
    world.journal.confirm()
    assert free == [True]
    assert world.add(producer, OTHER) is Code.NONE


def test_what_has_become_due_meanwhile_does_not_end_it_without_its_markers() -> None:
    world = BehindWorld()
    world.decide(ONE)
    world.journal.confirm()
    world.coordinator._soon.put("retry", "x")  # of a tenure before, which had many to complete
    assert not world.journal.under_way
    world.loop.turn()
    assert [duty.partitions for duty in world.markers.written_beside] == [{ONE}]


def test_a_coordinator_that_has_lost_its_partition_writes_no_marker() -> None:
    world = BehindWorld()
    world.decide(ONE)
    world.journal.confirm()
    world.coordinator.runtime.unload(0)
    while world.loop.callbacks:
        world.loop.turn()
    assert not world.markers.written_beside
    assert world.coordinator.ending_count == 0
    following = world.elsewhere(8)
    (duty,) = following.mark()
    assert duty.partitions == {ONE}
    assert duty.coordinator_epoch == 8


def test_one_that_comes_back_has_the_partitions_told_once() -> None:
    world = BehindWorld()
    world.decide(ONE)
    world.journal.confirm()
    world.coordinator.runtime.unload(0)
    world.epoch = 9
    world.load(world.journal.records())
    while world.loop.callbacks:
        world.loop.turn()
    assert not world.markers.written_beside
    (duty,) = world.markers.duties
    assert duty.coordinator_epoch == 9


def test_partitions_of_other_logs_hear_then_too() -> None:
    world = BehindWorld()
    world.markers.beside = {ONE}
    world.decide(ONE, OTHER)
    world.journal.confirm()
    assert not world.markers.duties
    world.loop.turn()
    (duty,) = world.markers.duties
    assert duty.partitions == {OTHER}
    assert not world.journal.under_way
    world.mark()
    assert world.state().state is TransactionState.COMPLETE_COMMIT


def test_a_large_transaction_is_told_the_usual_way() -> None:
    world = BehindWorld()
    places = [("t", number) for number in range(BESIDE_MAX + 1)]
    world.markers.beside = {*places}
    world.decide(*places)
    world.journal.confirm()
    assert world.told == [Code.NONE]
    assert not world.markers.duties
    world.loop.turn()
    assert not world.markers.written_beside
    (duty,) = world.markers.duties
    assert duty.partitions == {*places}


def test_a_decision_that_comes_late_has_its_markers_all_the_same() -> None:
    world = BehindWorld()
    world.decide(ONE)
    world.journal.tell_late()
    assert world.told == [Code.COORDINATOR_NOT_AVAILABLE]
    world.journal.confirm()
    world.loop.turn()
    assert [duty.partitions for duty in world.markers.written_beside] == [{ONE}]


def test_markers_that_are_on_their_way_already_are_not_written_again() -> None:
    world = BehindWorld()
    world.markers.is_behind = False
    world.decide(ONE)
    assert len(world.markers.written_beside) == 1
    world.markers.is_behind = True  # a member has left the set
    world.journal.confirm()
    while world.loop.callbacks:
        world.loop.turn()
    assert len(world.markers.written_beside) == 1
    assert world.state().state is TransactionState.COMPLETE_COMMIT


def test_a_transaction_that_is_open_for_too_long_is_over_too() -> None:
    world = BehindWorld()
    assert world.add(world.begun(), ONE) is Code.NONE
    world.later(60_000)
    world.settle()
    assert [duty.is_commit for duty in world.markers.written_beside] == [False]
    assert world.state().state is TransactionState.COMPLETE_ABORT
