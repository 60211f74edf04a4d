"""Each bound on both sides, and what is left where a step has failed."""

import pytest

from penstock.base.ids import ProducerEpoch, ProducerId
from penstock.coordinator.journal import JournalDone
from penstock.coordinator.pending import Writer
from penstock.coordinator.records import JournalRecord, UnreadRecord
from penstock.coordinator.unwritten import Unwritten
from penstock.protocol.error_codes import ErrorCode as Code
from penstock.transactions.duties import BESIDE_MAX
from penstock.transactions.messages import NOBODY, Filter, MarkerDuty, Producer, ProducerReply
from penstock.transactions.records import decode_value
from penstock.transactions.shard import PLACES_TOGETHER
from penstock.transactions.state import EPOCH_MAX, TransactionState
from tests.coordinator.held_journal import HeldJournal
from tests.transactions.test_end import STATES
from tests.transactions.test_portions import TurningWorld, opened, places
from tests.transactions.world import ONE, OTHER, World

REFUSED = Unwritten.TOO_FEW_IN_STEP


@pytest.fixture
def world() -> World:
    return World().load()


def at_epoch(world: World, epoch: int) -> Producer:
    """Return the producer of an id that has been given so many epochs."""
    producer = world.begun()
    states = world.coordinator._shard.by_partition[0]
    used = states.values["x"]._replace(producer_epoch=ProducerEpoch(epoch))
    states.restore({"x": used})
    return producer._replace(epoch=ProducerEpoch(epoch))


# Who repeats a request: the last producer and nobody else, also where a producer id is used up


def test_of_all_who_have_ended_transactions_only_the_last_repeats_its_end(world: World) -> None:
    given = [at_epoch(world, EPOCH_MAX - 2)]
    while len(given) < 7:
        assert world.add(given[-1], version=2) is Code.NONE
        reply = world.end(given[-1], commits=True, version=2)
        assert reply.error is Code.NONE
        given.append(reply.producer)
        world.mark()
        before = world.state()
        for old in given[:-2]:
            assert world.end(old, commits=True, version=2).error is not Code.NONE, (old, before)
        for epoch in (given[-2].epoch, EPOCH_MAX, EPOCH_MAX - 1):
            stranger = Producer(ProducerId(5), ProducerEpoch(epoch))
            found = world.end(stranger, commits=True, version=2).error
            assert found is Code.INVALID_PRODUCER_ID_MAPPING
        assert world.end(given[-2], commits=True, version=2) == reply
        assert world.state() == before
    assert len({one.producer_id for one in given}) == 2, "the first id was used up meanwhile"


def test_of_all_who_have_asked_for_the_next_epoch_only_the_last_repeats_that(world: World) -> None:
    given = [at_epoch(world, EPOCH_MAX - 2)]
    while len(given) < 7:
        reply = world.init(known=given[-1])
        assert reply.error is Code.NONE
        before = world.state()
        assert world.init(known=given[-1]) == reply
        for old in given[:-1]:
            assert world.init(known=old).error is Code.PRODUCER_FENCED
        assert world.state() == before
        given.append(reply.producer)
    assert len({one.producer_id for one in given}) == 2, "the first id was used up meanwhile"


def test_the_first_of_all_producer_ids_is_known_as_others_are(world: World) -> None:
    world.ids.count = iter(range(5))  # type: ignore[assignment]
    first = world.begun()
    assert first == Producer(ProducerId(0), ProducerEpoch(0))
    reply = world.init(known=first)
    assert reply == (Code.NONE, Producer(ProducerId(0), ProducerEpoch(1)))
    assert world.init(known=first) == reply


def test_who_names_no_producer_is_a_new_instance(world: World) -> None:
    first = world.begun()
    assert world.init(known=NOBODY) == (Code.NONE, first._replace(epoch=ProducerEpoch(1)))


def test_an_end_takes_no_producer_id_before_the_last_epoch(world: World) -> None:
    producer = at_epoch(world, EPOCH_MAX - 1)
    world.add(producer, version=2)
    world.ids.has_some = False
    reply = world.end(producer, commits=True, version=2)
    assert reply == (Code.NONE, producer._replace(epoch=ProducerEpoch(EPOCH_MAX)))


@pytest.mark.parametrize("state", STATES)
def test_what_is_open_for_a_producer_is_what_its_partitions_are_verified_for(state: str) -> None:
    world = World().load()
    producer = STATES[state](world, world.begun(), 2)
    here, verify = world.coordinator.here, world.coordinator.verify
    for asked in (producer, producer._replace(epoch=ProducerEpoch(producer.epoch + 1))):
        found = here.open_of("x", asked)
        assert (found is not None) is (verify("x", asked, [ONE])[ONE] is Code.NONE)
        assert found in {None, world.state()}
    assert here.open_of("y", producer) is None
    assert here.open_of("y" * 2_000, producer) is None
    world.is_prompt = False
    world.coordinator.add_partitions("x", producer, [OTHER], 2, lambda _: None)
    world.coordinator.end("x", producer, 2, lambda _: None, is_commit=True)
    assert here.open_of("x", producer) is None, "a change is on its way, or nothing is open"


# What is counted, and only that


def test_ends_are_counted_by_their_result_once_they_are_confirmed(world: World) -> None:
    counters = world.coordinator.counters
    producer = world.begun()
    for commits, counts in ((True, (1, 0)), (False, (1, 1)), (False, (1, 2))):
        before = (counters.committed, counters.aborted)
        world.add(producer)
        world.journal.refuses = REFUSED
        assert world.end(producer, commits=commits).error is not Code.NONE
        assert (counters.committed, counters.aborted) == before
        world.journal.refuses = None
        world.end(producer, commits=commits)
        world.mark()
        assert (counters.committed, counters.aborted) == counts
    assert counters.timed_out == 0


def test_a_time_out_that_is_written_late_counts_once(world: World) -> None:
    world.add(world.begun())
    world.is_prompt = False
    world.later(60_000)
    world.journal.tell_late()
    assert world.coordinator.counters.timed_out == 1
    world.journal.confirm()
    assert world.coordinator.counters.timed_out == 1
    assert world.state().state is TransactionState.PREPARE_ABORT


def test_what_is_open_is_listed_by_its_age_until_its_partitions_have_heard(world: World) -> None:
    world.begun("idle")
    producer = world.begun("x")
    world.add(producer)

    def names(longer_than_ms: int) -> list[str]:
        wanted = Filter(longer_than_ms=longer_than_ms)
        return [one.transactional_id for some in world.coordinator.listed(wanted) for one in some]

    assert names(0) == []
    world.later(1)
    assert names(0) == ["x"]
    world.end(producer, commits=True)
    assert names(0) == ["x"]
    world.mark()
    assert names(0) == []


# Ids that nobody uses


def test_an_id_is_kept_until_its_last_use_is_longer_ago_than_that() -> None:
    world = World(id_expiration_ms=10_000, expiry_check_interval_ms=1).load()
    world.begun("old")
    world.later(1)
    world.begun("new")
    world.later(9_999)
    assert world.state("old")
    world.later(1)
    assert world.coordinator.describe("old").error is Code.TRANSACTIONAL_ID_NOT_FOUND
    assert world.state("new")
    world.later(1)
    assert world.coordinator.describe("new").error is Code.TRANSACTIONAL_ID_NOT_FOUND


def test_no_more_ids_are_forgotten_at_once_than_writes_may_be_under_way() -> None:
    world = World(id_expiration_ms=10_000, expiry_check_interval_ms=1, writes_in_flight_max=1)
    world.load()
    for name in ("a", "b"):
        world.begun(name)
    world.is_prompt = False
    world.later(10_001)
    assert len(world.journal.under_way) == 1
    world.journal.confirm()
    world.later(1)
    world.journal.confirm()
    assert world.coordinator.here.id_count == 0


# Time-outs that come too late, or beside something else


@pytest.mark.parametrize("is_over", [False, True])
def test_a_time_out_that_waits_for_its_turn_leaves_what_was_decided_meanwhile(
    is_over: bool,
) -> None:
    world = TurningWorld()
    producers = opened(world, 60, 500)
    name = f"x{len(producers) - 1}"
    world.clock.now_ms += 60_000
    world.coordinator.runtime.tick(world.clock.now_ms)
    told: list[Code] = []
    world.coordinator.end(
        name, producers[-1], 1, lambda reply: told.append(reply.error), is_commit=True
    )
    world.journal.confirm()
    while not (duties := [one for one in world.markers.duties if one.is_commit]):
        world.loop.turn()
    if is_over:
        world.coordinator.markers_written(duties[0], duties[0].partitions)
    world.settle()
    assert told == [Code.NONE]
    over, decided = TransactionState.COMPLETE_COMMIT, TransactionState.PREPARE_COMMIT
    assert world.state(name).state is (over if is_over else decided)


def test_a_time_out_beside_a_change_waits_for_it(world: World) -> None:
    producer = world.begun()
    world.add(producer)
    world.is_prompt = False
    told: list[Code] = []
    world.coordinator.add_partitions("x", producer, [OTHER], 1, lambda one: told.append(one.error))
    world.later(60_000)
    assert len(world.journal.under_way) == 1
    world.journal.confirm()
    assert told == [Code.NONE]
    assert world.state().partitions == {ONE, OTHER}
    world.later(1_000)
    world.journal.confirm()
    assert world.state().state is TransactionState.PREPARE_ABORT
    (duty,) = world.markers.duties
    assert duty.partitions == {ONE, OTHER}


def test_a_time_out_waits_where_too_much_is_on_its_way() -> None:
    world = World(writes_in_flight_max=1).load()
    world.add(world.begun())
    world.is_prompt = False
    world.coordinator.init_producer_id("y", 1_000, None, lambda _: None)
    world.later(60_000)
    assert len(world.journal.under_way) == 1
    world.journal.confirm()
    assert world.state().state is TransactionState.ONGOING
    world.later(1_000)
    world.journal.confirm()
    assert world.state().state is TransactionState.PREPARE_ABORT


def test_a_request_that_was_refused_is_not_repeated_by_the_coordinator(world: World) -> None:
    producer = world.begun()
    world.journal.refuses = REFUSED
    assert world.add(producer) is Code.COORDINATOR_NOT_AVAILABLE
    world.journal.refuses = None
    written = len(world.journal.batches)
    world.later(10_000)
    assert len(world.journal.batches) == written
    assert world.state().state is TransactionState.EMPTY


@pytest.mark.parametrize("kind", ["timeout", "retry", "mark"])
def test_what_is_due_for_a_partition_that_has_gone_is_not_done(world: World, kind: str) -> None:
    producer = world.begun()
    world.add(producer)
    written = len(world.journal.batches)
    world.coordinator.runtime.unload(0)
    world.coordinator._soon.put(kind, "x")
    assert len(world.journal.batches) == written
    assert len(world.coordinator._base.deadlines) == 1, "the next look at what expires"


def test_a_partition_that_comes_back_times_what_was_begun_elsewhere_meanwhile(
    world: World,
) -> None:
    producer = world.begun()
    world.add(producer)
    world.later(30_000)
    world.coordinator.runtime.unload(0)
    other = world.elsewhere(8)
    other.end(producer, commits=True)
    other.mark()
    other.add(producer)
    world.load(world.journal.records())
    world.later(59_999)
    assert world.state().state is TransactionState.ONGOING
    world.later(1)
    assert world.state().state is TransactionState.PREPARE_ABORT


# Markers


class OnceJournal(HeldJournal):
    """Takes so many batches more, and refuses the next one."""

    taken_max = 1_000

    def append(
        self,
        partition: int,
        records: list[JournalRecord],  # type: ignore[override]
        done: JournalDone,
        writer: Writer | None = None,
    ) -> None:
        self.taken_max -= 1
        self.refuses = REFUSED if self.taken_max == -1 else None
        super().append(partition, records, done, writer)


class PromptJournal(HeldJournal):
    """Confirms what it takes before it returns."""

    is_prompt = False

    def append(
        self,
        partition: int,
        records: list[JournalRecord],  # type: ignore[override]
        done: JournalDone,
        writer: Writer | None = None,
    ) -> None:
        super().append(partition, records, done, writer)
        if self.is_prompt:
            self.confirm()


def test_an_end_whose_last_write_was_refused_and_repeated_leaves_the_next_transaction_open() -> (
    None
):
    journal = OnceJournal()
    world = World(journal).load()
    world.markers.beside = {ONE}
    producer = world.begun()
    world.add(producer, ONE)
    journal.taken_max = 1
    assert world.end(producer, commits=True).error is Code.NONE
    assert world.state().state is TransactionState.COMPLETE_COMMIT
    assert world.add(producer, ONE) is Code.NONE
    world.later(5_000)
    assert world.state().state is TransactionState.ONGOING


def test_a_decision_that_is_confirmed_as_it_is_written_has_its_markers_once() -> None:
    journal = PromptJournal()
    world = World(journal).load()
    producer = world.begun()
    world.add(producer, ONE)
    world.markers.beside = {ONE}
    journal.is_prompt = True
    assert world.end(producer, commits=True).error is Code.NONE
    assert [duty.partitions for duty in [*world.markers.duties, *world.markers.written_beside]] == [
        {ONE}
    ]


def test_partitions_that_are_told_at_once_end_the_transaction_at_once(world: World) -> None:
    def send(partition: int, duty: MarkerDuty) -> None:
        world.coordinator.markers_written(duty, duty.partitions)

    world.markers.send = send  # type: ignore[method-assign]
    producer = world.begun()
    for _ in range(2):
        world.add(producer, ONE, OTHER)
        assert world.end(producer, commits=True).error is Code.NONE
        assert world.state().state is TransactionState.COMPLETE_COMMIT
    assert world.coordinator.ending_count == 0


def test_who_waits_for_an_id_hears_when_all_its_partitions_have(world: World) -> None:
    producer = world.begun()
    world.add(producer)
    free: list[bool] = []
    assert world.coordinator.ends.wait("x", lambda: free.append(True))
    world.end(producer, commits=True)
    assert world.state().is_prepared
    assert not free
    world.mark()
    assert free == [True]


def test_what_has_become_due_does_not_end_it_before_all_partitions_have_heard(
    world: World,
) -> None:
    producer = world.begun()
    world.add(producer, ONE, OTHER)
    world.end(producer, commits=True)
    (duty,) = world.markers.duties
    world.coordinator.markers_written(duty, [ONE])
    world.coordinator._soon.put("retry", "x")
    world.settle()
    assert world.state().is_prepared
    world.coordinator.markers_written(duty, [OTHER])
    world.settle()
    assert world.state().state is TransactionState.COMPLETE_COMMIT


@pytest.mark.parametrize(("count", "is_beside"), [(BESIDE_MAX, True), (BESIDE_MAX + 1, False)])
def test_so_many_partitions_have_their_markers_in_the_turn_of_the_decision(
    world: World, count: int, is_beside: bool
) -> None:
    world.markers.beside = {*places(count)}
    producer = world.begun()
    world.add(producer, *places(count))
    world.end(producer, commits=True)
    assert len(world.markers.written_beside) == is_beside
    assert len(world.markers.duties) == (not is_beside)


def test_partitions_hear_in_the_turn_of_the_confirmation_where_markers_do_not_wait() -> None:
    world = TurningWorld()
    producer = world.begun()
    world.add(producer)
    world.is_prompt = False
    world.coordinator.end("x", producer, 1, lambda _: None, is_commit=True)
    world.journal.confirm()
    (duty,) = world.markers.duties
    assert duty.partitions == {ONE}


# The log


def test_a_rewrite_fills_its_steps_and_none_is_empty() -> None:
    world = World().load()
    half, more = PLACES_TOGETHER // 2, PLACES_TOGETHER + 1
    for name, count in (("a", more), ("b", half), ("c", half), ("d", half)):
        assert world.add(world.begun(name), *places(count), name=name) is Code.NONE
    sizes = [len(records) for records in world.coordinator.runtime.snapshot(0)]
    assert sizes == [1, 2, 1]


def test_a_record_without_a_key_does_not_hinder_the_others() -> None:
    before = World().load()
    before.begun()
    (record,) = before.journal.records()
    world = World().load([UnreadRecord(None, b"\x00"), record])
    assert world.state() == before.state()


def test_a_topic_without_partitions_is_read_as_none() -> None:
    head = bytes.fromhex("0000000000000000000700020000ea600100000001000174")
    times = bytes(16)
    assert decode_value("x", head + bytes(4) + times).partitions == frozenset()


def test_a_transaction_is_not_begun_by_adding_nothing(world: World) -> None:
    producer = world.begun()
    told: list[ProducerReply] = []
    world.coordinator.add_partitions("x", producer, [], 1, told.append)
    world.settle()
    assert told == [(Code.NONE, producer)]
    assert world.state().state is TransactionState.EMPTY
