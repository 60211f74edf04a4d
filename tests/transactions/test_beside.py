"""Markers in the log of their decision: written behind it, before it is confirmed (ADR 0100)."""

import pytest

from penstock.coordinator.unwritten import Unwritten
from penstock.protocol.error_codes import ErrorCode as Code
from penstock.transactions.duties import BESIDE_MAX
from penstock.transactions.messages import Producer
from penstock.transactions.state import TopicPartitionName, TransactionState
from tests.transactions.world import ONE, OTHER, World

ENDED = [
    (True, TransactionState.COMPLETE_COMMIT),
    (False, TransactionState.COMPLETE_ABORT),
]


def ending(
    world: World, *partitions: TopicPartitionName, commits: bool = True
) -> tuple[Producer, list[Code]]:
    """Have a transaction decided, which nobody has confirmed; return what its producer is told."""
    producer = world.begun()
    assert world.add(producer, *partitions) is Code.NONE
    told: list[Code] = []
    world.is_prompt = False
    world.coordinator.end("x", producer, 1, lambda one: told.append(one.error), is_commit=commits)
    return producer, told


@pytest.mark.parametrize(("commits", "state"), ENDED)
def test_a_transaction_whose_partitions_are_in_one_log_with_it_is_over_at_once(
    commits: bool, state: TransactionState
) -> None:
    world = World().load()
    world.markers.beside = {ONE, OTHER}
    _, told = ending(world, ONE, OTHER, commits=commits)
    (duty,) = world.markers.written_beside
    assert duty.partitions == {ONE, OTHER}
    assert (duty.is_commit, duty.coordinator_epoch) == (commits, 7)
    assert len(world.journal.under_way) == 2
    assert not told
    world.journal.confirm(1)
    assert told == [Code.NONE]
    assert world.state().is_prepared
    assert len(world.journal.under_way) == 1, "that it is over is written once"
    world.journal.confirm()
    assert world.state().state is state
    assert not world.markers.duties


def test_the_others_hear_once_the_decision_is_confirmed() -> None:
    world = World().load()
    world.markers.beside = {ONE}
    ending(world, ONE, OTHER)
    assert not world.markers.duties
    world.journal.confirm()
    (duty,) = world.markers.duties
    assert duty.partitions == {OTHER}
    world.mark()
    world.journal.confirm()
    assert world.state().state is TransactionState.COMPLETE_COMMIT


def test_no_batch_is_let_into_a_partition_that_has_the_marker_of_an_unconfirmed_decision() -> None:
    world = World().load()
    world.markers.beside = {ONE}
    producer, _ = ending(world, ONE, OTHER)
    for _ in range(2):
        found = world.coordinator.verify("x", producer, [ONE, OTHER])
        assert set(found.values()) == {Code.CONCURRENT_TRANSACTIONS}
        world.journal.confirm()


def test_a_decision_that_was_refused_is_told_to_nobody() -> None:
    world = World().load()
    world.markers.beside = {ONE}
    producer = world.begun()
    world.add(producer, ONE)
    world.journal.refuses = Unwritten.TOO_FEW_IN_STEP
    assert world.end(producer, commits=True).error is Code.COORDINATOR_NOT_AVAILABLE
    assert not world.markers.written_beside
    assert world.state().state is TransactionState.ONGOING
    world.journal.refuses = None
    assert world.end(producer, commits=True).error is Code.NONE
    assert world.state().state is TransactionState.COMPLETE_COMMIT


@pytest.mark.parametrize("kept", [0, 1, 2])
def test_whatever_of_the_log_survives_the_next_coordinator_ends_it(kept: int) -> None:
    world = World().load()
    world.markers.beside = {ONE}
    producer, _ = ending(world, ONE)
    world.journal.lose(kept)
    following = world.elsewhere(8)
    state = following.state()
    if kept == 0:
        assert state.state is TransactionState.ONGOING
        assert following.end(producer, commits=True).error is Code.NONE
    if kept < 2:
        (duty,) = following.mark()
        assert duty.partitions == {ONE}
        assert duty.coordinator_epoch == 8
    assert following.state().state is TransactionState.COMPLETE_COMMIT


def test_a_coordinator_that_loses_its_partition_forgets_who_has_the_marker() -> None:
    world = World().load()
    world.markers.beside = {ONE}
    producer, _ = ending(world, ONE, OTHER)
    world.journal.lose(0)
    world.coordinator.runtime.unload(0)
    world.markers.beside.clear()
    world.epoch, world.is_prompt = 9, True
    world.load(world.journal.records())
    assert world.coordinator.verify("x", producer, [ONE]) == {ONE: Code.NONE}
    assert world.end(producer, commits=True).error is Code.NONE
    (duty,) = world.mark()
    assert duty.partitions == {ONE, OTHER}


def test_a_transaction_that_is_open_for_too_long_is_over_at_once_too() -> None:
    world = World().load()
    world.markers.beside = {ONE}
    producer = world.begun()
    world.add(producer, ONE)
    world.later(60_000)
    assert world.state().state is TransactionState.COMPLETE_ABORT
    assert [duty.is_commit for duty in world.markers.written_beside] == [False]


def test_a_large_transaction_does_not_hold_a_turn_up() -> None:
    world = World().load()
    places = [("t", number) for number in range(BESIDE_MAX + 1)]
    world.markers.beside = {*places}
    ending(world, *places)
    assert not world.markers.written_beside
    world.journal.confirm()
    (duty,) = world.markers.duties
    assert duty.partitions == {*places}


def test_where_too_much_is_on_its_way_the_end_is_noted_later() -> None:
    world = World(writes_in_flight_max=1).load()
    world.markers.beside = {ONE}
    ending(world, ONE)
    assert len(world.journal.under_way) == 1
    world.journal.confirm()
    world.journal.confirm()
    assert world.state().state is TransactionState.COMPLETE_COMMIT
    assert not world.markers.duties


def test_the_next_transaction_has_all_its_partitions_told() -> None:
    world = World().load()
    world.markers.beside = {ONE}
    producer = world.begun()
    world.add(producer, ONE)
    world.end(producer, commits=True)
    world.add(producer, ONE)
    assert world.coordinator.verify("x", producer, [ONE]) == {ONE: Code.NONE}
    world.markers.beside.clear()
    world.end(producer, commits=True)
    (duty,) = world.markers.duties
    assert duty.partitions == {ONE}
