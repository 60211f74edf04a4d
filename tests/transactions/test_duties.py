"""Which partitions have to hear: late answers, answers about something else."""

from penstock.transactions.state import TransactionState
from tests.transactions.world import ONE, World


def test_an_answer_about_the_last_transaction_ends_no_other() -> None:
    world = World().load()
    producer = world.begun()
    world.add(producer, ONE)
    world.end(producer, commits=True)
    (old,) = world.mark()
    world.add(producer, ONE)
    world.end(producer, commits=False)
    world.coordinator.markers_written(old, old.partitions)
    world.settle()
    assert world.state().state is TransactionState.PREPARE_ABORT
    (new,) = world.mark()
    assert (new.is_commit, world.state().state) == (False, TransactionState.COMPLETE_ABORT)


def test_an_answer_of_the_coordinator_before_ends_nothing_here() -> None:
    world = World().load()
    producer = world.begun()
    world.add(producer, ONE)
    world.end(producer, commits=True)
    (old,) = world.markers.duties
    new = world.elsewhere(8)
    new.coordinator.markers_written(old, old.partitions)
    new.settle()
    assert new.state().is_prepared
