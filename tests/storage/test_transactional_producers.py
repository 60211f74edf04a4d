"""Producers with transactions: markers, coordinators, and who is not forgotten."""

import sys

import pytest

from harness.log_world import make_batch
from penstock.base.ids import (
    CoordinatorEpoch,
    Offset,
    Position,
    ProducerId,
    TopicId,
    TopicPartition,
)
from penstock.record.batch import read_header
from penstock.record.marker import NOTHING_OPEN, Marker, build_marker, read_marker
from penstock.storage.errors import OutOfOrderSequence, ProducerFenced
from penstock.storage.index.partition_log import PartitionLog
from penstock.storage.index.producers import NO_SEQUENCE, ProducerStates, ProducerTable
from penstock.storage.index.transactions import LogTransactions


def header(sequence, *, epoch=0, producer_id=7):
    return read_header(make_batch(producer=(producer_id, epoch, sequence)))


def marker(epoch, producer_id=7):
    batch = build_marker(
        Marker(True, CoordinatorEpoch(1), 0),
        producer_id=producer_id,
        producer_epoch=epoch,
        timestamp_ms=5,
    )
    return read_header(memoryview(batch))


@pytest.fixture
def states():
    return ProducerStates(10, 0)


@pytest.fixture
def table(states):
    return ProducerTable(states, 1)


def test_a_marker_of_the_same_epoch_leaves_the_sequence_as_it_is(table):
    table.record(header(0), 0)
    table.record_marker(marker(0), 4)
    assert table.check(header(1)) is None
    with pytest.raises(OutOfOrderSequence):
        table.check(header(2))
    assert table.known(7).last_sequence == 0


def test_the_coordinator_of_the_last_marker_is_known_after_a_batch_of_a_newer_epoch(table):
    table.record(header(0), 0)
    table.record_marker(marker(0), 4)
    table.record(header(0, epoch=1), 5)
    assert table.known(7).epoch == 1
    assert table.known(7).coordinator_epoch == 4


def test_a_marker_with_a_newer_epoch_begins_with_sequence_0_and_fences_the_old_one(table):
    table.record(header(0), 0)
    table.record_marker(marker(1), 4)
    assert table.known(7)[1:3] == (1, NO_SEQUENCE)
    assert table.check(header(0, epoch=1)) is None
    with pytest.raises(OutOfOrderSequence):
        table.check(header(1, epoch=1))
    with pytest.raises(ProducerFenced):
        table.check(header(1, epoch=0))


def test_the_coordinator_of_the_last_marker_is_known_after_later_batches(table):
    table.record_marker(marker(0), 4)
    table.record(header(0), 1)
    assert table.known(7).coordinator_epoch == 4
    assert table.known(8) is None


def test_a_producer_with_an_open_transaction_is_not_evicted(states, table):
    table.record(header(0, producer_id=100), 0)
    states.transactions.begin(1, 100, 0, 0)
    for producer_id in range(200, 240):
        table.record(header(0, producer_id=producer_id), 1)
        assert len(states.entries) <= 11
    assert table.known(100).first_open_offset == 0
    states.transactions.end(1, 100, 50)
    for producer_id in range(300, 340):
        table.record(header(0, producer_id=producer_id), 1)
    assert table.known(100) is None


def test_a_producer_with_an_open_transaction_does_not_expire_and_holds_up_no_other(states, table):
    for producer_id in range(5):
        table.record(header(0, producer_id=producer_id), 0)
    states.transactions.begin(1, 0, 0, 0)
    states.now_ms = 1000
    assert states.expire(500) == 4
    assert [key[1] for key in states.entries] == [0]


def test_the_transactions_of_a_dropped_partition_are_forgotten(states, table):
    states.transactions.begin(1, 7, 0, 0)
    states.forget_partition(1)
    assert states.transactions.all() == []


@pytest.mark.parametrize("is_commit", [True, False])
@pytest.mark.parametrize("first", [-1, 0, 1 << 40])
def test_a_marker_gives_back_what_it_was_made_of(is_commit, first):
    made = Marker(is_commit, CoordinatorEpoch(9), first)
    batch = memoryview(build_marker(made, producer_id=7, producer_epoch=3, timestamp_ms=5))
    found = read_header(batch)
    assert (found.producer_id, found.producer_epoch, found.base_sequence) == (7, 3, -1)
    assert found.is_control
    assert found.attributes == 0x30
    assert read_marker(batch) == made


def calls_of(action):
    """Return how many functions are called."""
    calls = 0

    def count(_frame, event, _argument):
        nonlocal calls
        calls += event in {"call", "c_call"}

    sys.setprofile(count)
    try:
        action()
    finally:
        sys.setprofile(None)
    return calls


def with_open(count):
    transactions = LogTransactions()
    for number in range(count):
        transactions.begin(1, ProducerId(number), Offset(number), Position(100 * number))
    transactions.begin(2, ProducerId(0), Offset(0), Position(0))
    transactions.end(2, ProducerId(0), Position(50))
    return transactions


def test_what_is_undecided_is_captured_at_a_cost_that_does_not_grow_with_it():
    few, many = with_open(10), with_open(5_000)
    assert calls_of(few.copy) == calls_of(many.copy)


def test_a_copy_has_what_was_undecided_when_it_was_made():
    transactions = with_open(10)
    before = transactions.all()
    copy = transactions.copy()
    transactions.end(1, 3, 2_000)
    transactions.begin(1, 77, 10, 1_000)
    assert transactions.of(2).first_unstable(50) is None
    assert copy.all() == before != transactions.all()


def begun(*, first_ends):
    """Of two transactions, 5 began before 10; one of them is over at 200, the other is open."""
    transactions = LogTransactions()
    transactions.begin(1, ProducerId(1), Offset(5), Position(50))
    transactions.begin(1, ProducerId(2), Offset(10), Position(100))
    transactions.end(1, ProducerId(1 if first_ends else 2), Position(200))
    return transactions.of(1)


def first_unstable(transactions, confirmed):
    found = transactions.first_unstable(Position(confirmed))
    return None if found is None else found.offset


def test_a_transaction_that_is_open_counts_before_one_that_began_later_and_is_not_confirmed():
    transactions = begun(first_ends=False)
    assert first_unstable(transactions, 150) == 5
    transactions.end(ProducerId(1), Position(300))
    assert [first_unstable(transactions, at) for at in (150, 250, 299)] == [5, 5, 5]
    assert first_unstable(transactions, 300) is None


def test_one_that_is_not_confirmed_counts_before_a_transaction_that_began_later_and_is_open():
    transactions = begun(first_ends=True)
    assert [first_unstable(transactions, at) for at in (150, 199)] == [5, 5]
    assert first_unstable(transactions, 200) == 10


@pytest.mark.parametrize(
    ("is_commit", "first", "found"),
    [(False, 5, [(7, 5, 19)]), (False, NOTHING_OPEN, []), (True, 5, [])],
)
def test_a_marker_tells_of_what_began_before_all_that_is_read(states, is_commit, first, found):
    """As when a log is read again whose first segments, and last snapshot, are gone."""
    log = PartitionLog(TopicPartition(TopicId(b"t" * 16), 0), 1, states)
    log.log_end_offset = Offset(20)
    batch = memoryview(
        build_marker(
            Marker(is_commit, CoordinatorEpoch(1), Offset(first)),
            producer_id=7,
            producer_epoch=0,
            timestamp_ms=5,
        )
    )
    log.add_transactional(read_header(batch), Offset(19), Position(900), batch)
    ids, firsts, lasts, _ = log.aborted.columns
    assert [*zip(ids, firsts, lasts, strict=True)] == found
