"""Who repeats a request, and who only looks like it: epochs that are used up, both versions."""

import pytest

from penstock.base.ids import ProducerEpoch, ProducerId
from penstock.coordinator.unwritten import Unwritten
from penstock.protocol.error_codes import ErrorCode as Code
from penstock.transactions.messages import Producer
from penstock.transactions.state import TransactionState
from tests.transactions.test_end import last_epoch_of
from tests.transactions.world import ONE, OTHER, World

NONE, BUSY, FENCED = Code.NONE, Code.CONCURRENT_TRANSACTIONS, Code.PRODUCER_FENCED


@pytest.fixture
def world() -> World:
    return World().load()


# Epochs that are used up


def test_who_was_replaced_at_the_last_epoch_does_not_get_the_new_producer_id(world: World) -> None:
    old = last_epoch_of(world)
    assert world.begun() == Producer(ProducerId(1001), ProducerEpoch(0))
    assert world.init(known=old).error is FENCED
    assert world.elsewhere(8).init(known=old).error is FENCED


def test_a_retry_at_the_last_epoch_is_known_after_a_failover(world: World) -> None:
    old = last_epoch_of(world)
    new = world.init(known=old).producer
    assert world.elsewhere(8).init(known=old) == (NONE, new)
    assert world.init(known=new).producer == Producer(ProducerId(1001), ProducerEpoch(1))
    assert world.init(known=old).error is FENCED


def test_a_bump_amid_the_transaction_of_the_last_epoch_gives_a_new_producer_id(
    world: World,
) -> None:
    old = last_epoch_of(world)
    world.add(old)
    assert world.init(known=old).error is BUSY
    world.mark()
    new = Producer(ProducerId(1001), ProducerEpoch(0))
    assert world.init(known=old) == (NONE, new), "the epoch that only fences is nobody's"
    assert world.init(known=old) == (NONE, new), "a retry"


@pytest.mark.parametrize("commits", [True, False])
def test_who_was_timed_out_at_the_last_epoch_goes_on_with_a_new_producer_id(
    world: World, commits: bool
) -> None:
    old = last_epoch_of(world)
    world.add(old, version=2)
    world.later(60_000)
    world.mark()
    reply = world.end(old, commits=commits, version=2)
    if commits:
        assert reply.error is Code.INVALID_TXN_STATE
        return
    assert reply == (NONE, Producer(ProducerId(1001), ProducerEpoch(0)))
    assert world.end(old, commits=False, version=2) == reply, "a retry"
    assert world.init(known=old) == reply, "one that did not hear of it"


def test_who_was_told_of_the_next_producer_id_waits_for_the_markers(world: World) -> None:
    old = last_epoch_of(world)
    world.add(old, version=2)
    new = world.end(old, commits=True, version=2).producer
    assert new == Producer(ProducerId(1001), ProducerEpoch(0))
    assert world.add(new, version=2) is BUSY
    assert world.coordinator.verify("x", new, [ONE]) == {ONE: BUSY}
    assert world.init(known=new).error is BUSY
    world.mark()
    assert world.add(new, version=2) is NONE


# What was before the last bump


def test_a_time_out_leaves_no_retry_of_the_bump_before(world: World) -> None:
    first = world.begun()
    second = world.init(known=first).producer
    world.add(second)
    world.later(60_000)
    world.mark()
    assert world.init(known=first).error is FENCED
    assert world.init(known=second).error is FENCED


def test_a_late_retry_of_a_bump_does_not_abort_what_has_begun_since(world: World) -> None:
    first = world.begun()
    second = world.init(known=first).producer
    world.add(second)
    assert world.init(known=first) == (NONE, second)
    assert world.state().state is TransactionState.ONGOING
    assert world.end(second, commits=True).error is NONE


# Both versions with one id


def test_an_end_of_version_1_has_no_retry_of_version_2(world: World) -> None:
    replaced, present = world.begun(), world.begun()
    world.add(present, version=1)
    world.end(present, commits=True, version=1)
    assert world.end(replaced, commits=True, version=2).error is FENCED
    world.mark()
    assert world.end(replaced, commits=True, version=2).error is FENCED


def test_markers_are_of_the_version_that_ends_the_transaction(world: World) -> None:
    producer = world.begun()
    world.add(producer, version=2)
    world.end(producer, commits=True, version=1)
    (duty,) = world.mark()
    assert (duty.version, duty.producer_epoch) == (1, producer.epoch)
    world.add(producer, version=1)
    world.end(producer, commits=True, version=2)
    (duty,) = world.mark()
    assert (duty.version, duty.producer_epoch) == (2, producer.epoch + 1)


def test_an_answer_about_a_transaction_does_not_end_one_that_looks_the_same(world: World) -> None:
    # Version 1: id, epoch, partitions and result are those of the transaction before.
    producer = world.begun()
    world.add(producer, ONE)
    world.end(producer, commits=True)
    (old,) = world.mark()
    world.add(producer, ONE)
    world.end(producer, commits=True)
    world.coordinator.markers_written(old, old.partitions)
    world.settle()
    assert world.state().is_prepared


# Bounds


def test_at_the_bound_what_is_open_goes_on_and_the_fenced_are_told_so() -> None:
    world = World(partitions_together_max=1).load()
    replaced, producer = world.begun(), world.begun()
    assert world.add(producer, ONE) is NONE
    assert world.add(producer, ONE) is NONE, "nothing is added"
    assert world.add(replaced, ONE) is FENCED
    assert world.add(producer, OTHER) is Code.COORDINATOR_NOT_AVAILABLE
    world.end(producer, commits=True)
    world.mark()
    assert world.add(producer, OTHER) is NONE
    larger = World(partitions_together_max=3).load()
    producer = larger.begun()
    assert larger.add(producer, ONE, OTHER) is NONE
    assert larger.add(producer, ("t", 2)) is NONE, "only what is new needs room"
    assert larger.add(producer, ("t", 3)) is Code.COORDINATOR_NOT_AVAILABLE


def test_ids_that_are_forgotten_leave_no_duties() -> None:
    world = World(id_expiration_ms=1_000, expiry_check_interval_ms=1_000).load()
    producer = world.begun()
    world.add(producer)
    world.end(producer, commits=True)
    world.mark()
    world.later(3_000)
    assert world.coordinator.describe("x").error is Code.TRANSACTIONAL_ID_NOT_FOUND
    assert world.coordinator._duties._of_partition == {}


# Writes that are lost


def writing_the_next_state(*, is_prepared: bool) -> World:
    """The journal has a Complete record that is not confirmed, or the abort after a time-out."""
    world = World().load()
    producer = world.begun()
    world.add(producer)
    if is_prepared:
        world.end(producer, commits=True)
    world.is_prompt = False
    if is_prepared:
        world.mark()
    else:
        world.later(60_000)
    return world


@pytest.mark.parametrize("is_prepared", [True, False])
def test_a_write_that_is_lost_with_the_partition_leaves_no_deadline(is_prepared: bool) -> None:
    world = writing_the_next_state(is_prepared=is_prepared)
    (lost,) = world.journal.lose(0)
    world.coordinator.runtime.unload(0)
    lost.done(Unwritten.OVERTAKEN)
    assert len(world.coordinator._base.deadlines) == 1, "that of the next look at what expires"


@pytest.mark.parametrize("is_prepared", [True, False])
def test_a_write_that_is_refused_late_is_written_again(is_prepared: bool) -> None:
    world = writing_the_next_state(is_prepared=is_prepared)
    world.journal.tell_late()
    (lost,) = world.journal.lose(0)
    lost.done(Unwritten.FAILED)
    world.is_prompt = True
    world.later(1_000)
    expected = "COMPLETE_COMMIT" if is_prepared else "PREPARE_ABORT"
    assert world.state().state.name == expected


def test_a_time_out_counts_once_it_is_written(world: World) -> None:
    world.add(world.begun())
    world.journal.refuses = Unwritten.TOO_FEW_IN_STEP
    world.later(60_000)
    world.later(60_000)
    assert world.coordinator.counters.timed_out == 0
    world.journal.refuses = None
    world.later(1_000)
    assert world.coordinator.counters.timed_out == 1
