"""Who may use a transactional id: new instances, retries, time-outs, what expires."""

import pytest

from penstock.base.ids import ProducerEpoch, ProducerId
from penstock.coordinator.unwritten import Unwritten
from penstock.protocol.error_codes import ErrorCode as Code
from penstock.transactions.messages import NOBODY, Filter, Producer
from penstock.transactions.state import EPOCH_MAX, TransactionState
from tests.transactions.test_end import last_epoch_of
from tests.transactions.world import ONE, OTHER, World

NONE, BUSY, FENCED = Code.NONE, Code.CONCURRENT_TRANSACTIONS, Code.PRODUCER_FENCED


@pytest.fixture
def world() -> World:
    return World().load()


def test_a_new_instance_has_the_next_epoch_and_fences_the_one_before(world: World) -> None:
    first, second = world.begun(), world.begun()
    assert (first, second) == (
        Producer(ProducerId(1000), ProducerEpoch(0)),
        Producer(ProducerId(1000), ProducerEpoch(1)),
    )
    assert world.add(first) is FENCED
    assert world.add(second) is NONE
    assert world.end(first, commits=True).error is FENCED


def test_a_transaction_has_one_number_however_many_partitions_it_gets(world: World) -> None:
    producer = world.begun()
    number_of = world.coordinator.here.number_of
    for number in (1, 2):
        assert world.add(producer, ONE) is NONE
        assert number_of("x") == number
        assert world.add(producer, OTHER) is NONE
        assert number_of("x") == number
        producer = world.end(producer, commits=True).producer
        world.mark()


def test_what_the_last_instance_left_open_is_aborted_first(world: World) -> None:
    first = world.begun()
    world.add(first)
    assert world.init().error is BUSY
    assert world.init().error is BUSY
    (duty,) = world.mark()
    assert (duty.is_commit, duty.producer_epoch) == (False, first.epoch + 1)
    assert world.begun() == Producer(ProducerId(1000), ProducerEpoch(2)), (
        "one bump for the abort, one for the new instance"
    )


def test_an_instance_renews_its_epoch_and_may_ask_again(world: World) -> None:
    first = world.begun()
    second = world.init(known=first).producer
    assert second == first._replace(epoch=ProducerEpoch(1))
    assert world.init(known=first) == (NONE, second), "a retry"
    assert world.elsewhere(8).init(known=first) == (NONE, second), "a retry after a failover"
    assert world.init(known=second).producer.epoch == 2
    assert world.init(known=first).error is FENCED


def test_who_was_replaced_by_another_instance_has_no_retry(world: World) -> None:
    first = world.begun()
    world.begun()
    assert world.init(known=first).error is FENCED
    assert world.elsewhere(8).init(known=first).error is FENCED


def test_an_id_whose_epochs_are_used_up_gets_a_new_producer_id(world: World) -> None:
    old = last_epoch_of(world)
    new = world.init(known=old).producer
    assert new == Producer(ProducerId(1001), ProducerEpoch(0))
    assert world.init(known=old) == (NONE, new), "a retry"
    assert world.add(old) is Code.INVALID_PRODUCER_ID_MAPPING


def test_without_a_new_producer_id_nothing_changes(world: World) -> None:
    world.ids.has_some = False
    assert world.init().error is Code.COORDINATOR_LOAD_IN_PROGRESS
    world.ids.has_some = True
    assert world.begun() == Producer(ProducerId(1000), ProducerEpoch(0))


def test_two_instances_that_begin_at_once_get_one_id(world: World) -> None:
    world.ids.waiting = []
    told: list[tuple[Code, Producer]] = []
    for _ in range(2):
        world.coordinator.init_producer_id("x", 1_000, None, told.append)
    world.is_prompt = False
    for number, answer in enumerate(world.ids.waiting):
        answer(ProducerId(500 + number))
    assert [code for code, _ in told] == [BUSY]
    world.journal.confirm()
    assert told[1] == (NONE, Producer(ProducerId(500), ProducerEpoch(0)))


@pytest.mark.parametrize("timeout_ms", [0, -1, 900_001])
def test_a_time_out_that_is_not_allowed_is_refused(world: World, timeout_ms: int) -> None:
    assert world.init(timeout_ms=timeout_ms).error is Code.INVALID_TRANSACTION_TIMEOUT


@pytest.mark.parametrize(
    "known",
    [Producer(ProducerId(-1), ProducerEpoch(3)), Producer(ProducerId(3), ProducerEpoch(-1))],
)
def test_half_a_producer_is_refused(world: World, known: Producer) -> None:
    assert world.init(known=known).error is Code.INVALID_REQUEST


def test_names_and_places_that_do_not_fit_are_refused(world: World) -> None:
    assert world.init("").error is Code.INVALID_REQUEST
    assert world.init("é" * 513).error is Code.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    assert world.init("é" * 512).error is NONE
    assert World().init().error is Code.NOT_COORDINATOR
    loading = World()
    loading.coordinator.runtime.begin_loading(0)
    assert loading.init().error is Code.COORDINATOR_LOAD_IN_PROGRESS


def test_more_ids_than_allowed_are_refused_and_those_there_are_stay() -> None:
    world = World(ids_max=2).load()
    world.begun("a")
    world.begun("b")
    assert world.init("c").error is Code.POLICY_VIOLATION
    assert world.init("a").error is NONE


def test_partitions_enter_all_together_and_once(world: World) -> None:
    producer = world.begun()
    assert world.add(producer, ONE) is NONE
    written = len(world.journal.batches)
    assert world.add(producer, ONE) is NONE
    assert len(world.journal.batches) == written, "again the same ones cost no write"
    assert world.add(producer, OTHER) is NONE
    assert world.state().partitions == {ONE, OTHER}


def test_a_transaction_has_so_many_partitions_and_no_more() -> None:
    world = World(partitions_max=2).load()
    producer = world.begun()
    assert world.add(producer, ONE, OTHER) is NONE
    assert world.add(producer, ("t", 2)) is Code.POLICY_VIOLATION
    assert world.state().partitions == {ONE, OTHER}


def test_only_what_is_in_the_transaction_is_verified(world: World) -> None:
    producer = world.begun()
    ask = world.coordinator.verify
    assert ask("x", producer, [ONE]) == {ONE: Code.INVALID_TXN_STATE}
    world.add(producer, ONE)
    found = ask("x", producer, [ONE, OTHER])
    assert found == {ONE: NONE, OTHER: Code.INVALID_TXN_STATE}
    later = producer._replace(epoch=ProducerEpoch(1))
    assert ask("x", later, [ONE]) == {ONE: FENCED}
    assert ask("y", producer, [ONE]) == {ONE: Code.INVALID_PRODUCER_ID_MAPPING}
    world.end(producer, commits=True)
    assert ask("x", producer, [ONE]) == {ONE: BUSY}
    world.mark()
    assert ask("x", producer, [ONE]) == {ONE: Code.INVALID_TXN_STATE}


def test_what_is_about_to_enter_is_not_refused_for_good(world: World) -> None:
    producer = world.begun()
    world.is_prompt = False
    world.coordinator.add_partitions("x", producer, [ONE], 1, lambda _: None)
    assert world.coordinator.verify("x", producer, [ONE]) == {ONE: BUSY}


def test_a_transaction_is_aborted_when_its_time_is_over_and_its_producer_is_fenced(
    world: World,
) -> None:
    producer = world.init(timeout_ms=5_000).producer
    world.add(producer)
    world.later(4_999)
    assert world.state().state is TransactionState.ONGOING
    world.later(1)
    assert world.state().state is TransactionState.PREPARE_ABORT
    assert world.end(producer, commits=True).error is FENCED
    world.mark()
    assert (world.state().producer_epoch, world.coordinator.counters.timed_out) == (1, 1)
    world.later(60_000)
    assert world.state().producer_epoch == 1


def test_a_time_out_that_can_not_be_written_counts_the_epoch_up_once(world: World) -> None:
    producer = world.init(timeout_ms=5_000).producer
    world.add(producer)
    world.journal.refuses = Unwritten.TOO_FEW_IN_STEP
    for _ in range(20):
        world.later(5_000)
    assert world.state().producer_epoch == producer.epoch
    world.journal.refuses = None
    world.later(5_000)
    assert world.state().producer_epoch == producer.epoch + 1


def test_a_time_out_goes_on_at_the_next_coordinator(world: World) -> None:
    producer = world.init(timeout_ms=5_000).producer
    world.add(producer)
    world.later(4_000)
    new = world.elsewhere(8)
    new.later(999)
    assert new.state().state is TransactionState.ONGOING
    new.later(1)
    assert new.state().state is TransactionState.PREPARE_ABORT


def test_the_next_transaction_has_all_its_time(world: World) -> None:
    producer = world.init(timeout_ms=5_000).producer
    world.add(producer)
    world.later(3_000)
    world.end(producer, commits=True)
    world.mark()
    world.add(producer)
    world.later(4_999)
    assert world.state().state is TransactionState.ONGOING
    world.later(1)
    assert world.state().state is TransactionState.PREPARE_ABORT


def test_an_end_in_time_leaves_no_time_out(world: World) -> None:
    producer = world.init(timeout_ms=5_000).producer
    world.add(producer)
    world.end(producer, commits=True)
    world.mark()
    world.later(60_000)
    assert world.state().state is TransactionState.COMPLETE_COMMIT
    world.add(producer)
    world.later(4_999)
    assert world.state().state is TransactionState.ONGOING
    world.later(1)
    assert world.state().state is TransactionState.PREPARE_ABORT


def test_the_highest_epoch_is_not_counted_over(world: World) -> None:
    producer = last_epoch_of(world)
    world.add(producer)
    assert world.init().error is BUSY
    assert world.state().producer_epoch == EPOCH_MAX + 1
    world.mark()
    assert world.init() == (NONE, Producer(ProducerId(1001), ProducerEpoch(0)))


def test_ids_that_nobody_uses_are_forgotten_but_for_open_ones() -> None:
    world = World(id_expiration_ms=10_000, expiry_check_interval_ms=1_000).load()
    world.begun("idle")
    producer = world.init("open", timeout_ms=900_000).producer
    world.add(producer, name="open")
    world.later(11_001)
    assert world.coordinator.describe("idle").error is Code.TRANSACTIONAL_ID_NOT_FOUND
    assert world.state("open").state is TransactionState.ONGOING
    new = world.elsewhere(8)
    assert new.coordinator.describe("idle").error is Code.TRANSACTIONAL_ID_NOT_FOUND


def test_ids_are_listed_by_state_by_producer_and_by_how_long_they_are_open(world: World) -> None:
    world.begun("a")
    opened = world.begun("b")
    world.add(opened, name="b")
    world.later(5_000)

    def names(wanted: Filter) -> list[str]:
        return [one.transactional_id for some in world.coordinator.listed(wanted) for one in some]

    assert names(Filter()) == ["a", "b"]
    assert names(Filter(frozenset({TransactionState.ONGOING}))) == ["b"]
    assert names(Filter(producer_ids=frozenset({opened.producer_id}))) == ["b"]
    assert names(Filter(longer_than_ms=4_999)) == ["b"]
    assert names(Filter(longer_than_ms=5_000)) == []


def test_a_write_that_takes_long_is_told_and_takes_effect_if_it_is_confirmed(world: World) -> None:
    producer = world.begun()
    world.is_prompt = False
    told: list[Code] = []
    world.coordinator.add_partitions("x", producer, [ONE], 1, lambda one: told.append(one.error))
    world.journal.tell_late()
    assert told == [Code.COORDINATOR_NOT_AVAILABLE]
    assert world.add_code(producer) is BUSY
    world.journal.confirm()
    assert world.state().partitions == {ONE}
    assert told == [Code.COORDINATOR_NOT_AVAILABLE]


def test_a_partition_that_is_given_up_leaves_nothing_behind(world: World) -> None:
    producer = world.begun()
    world.add(producer)
    world.end(producer, commits=True)
    other = world.begun("y")
    world.add(other, name="y")
    (duty,) = world.markers.duties
    world.coordinator.runtime.unload(0)
    assert world.markers.cancelled == [0]
    world.coordinator.markers_written(duty, duty.partitions)
    assert world.init().error is Code.NOT_COORDINATOR
    world.later(3_600_000)
    assert world.journal.under_way == []


def test_nobody_is_told_a_producer_with_an_error(world: World) -> None:
    first = world.begun()
    world.add(first)
    assert world.init() == (BUSY, NOBODY)
