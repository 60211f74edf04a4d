"""Idempotent producers, against the rules of Kafka's ProducerAppendInfo."""

import gc
import tracemalloc

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.log_world import make_batch
from penstock.base.ids import CoordinatorEpoch, ProducerEpoch, ProducerId
from penstock.record.batch import read_header
from penstock.storage.errors import OutOfOrderSequence, ProducerFenced
from penstock.storage.index import producers
from penstock.storage.index.producers import (
    SEQUENCE_MAX,
    STATE_BYTES_MAX,
    WINDOW_BATCHES,
    Duplicate,
    KnownProducer,
    ProducerStates,
    ProducerTable,
    known_producers,
)


def header(sequence, *, records=1, epoch=0, producer_id=7):
    return read_header(make_batch(records=records, producer=(producer_id, epoch, sequence)))


@pytest.fixture
def states():
    return ProducerStates(100, 0)


@pytest.fixture
def table(states):
    return ProducerTable(states, 1)


def sent(table, *sequences, records=1, epoch=0):
    for offset, sequence in enumerate(sequences):
        batch = header(sequence, records=records, epoch=epoch)
        assert table.check(batch) is None
        table.record(batch, offset * records)


def test_a_retry_gets_the_offset_of_the_first_copy(table):
    sent(table, 0, 3, 6, records=3)
    assert table.check(header(3, records=3)) == Duplicate(3)
    assert table.check(header(0, records=3)) == Duplicate(0)


def test_only_the_newest_five_batches_are_remembered(table):
    sent(table, *range(7))
    assert table.check(header(2)) == Duplicate(2)
    with pytest.raises(OutOfOrderSequence):
        table.check(header(1))


def test_the_state_of_a_producer_takes_no_more_than_is_said_of_it():
    count, far = 1_000, 1 << 40  # numbers as large as those of an old log
    sequences = range(1_000, 1_000 + WINDOW_BATCHES)
    table = ProducerTable(ProducerStates(count, far), 1_000)
    header(0)  # what the first one makes stays
    gc.collect()  # empties the lists of free objects: what is taken from them is not traced
    tracemalloc.start()
    try:
        for producer_id in range(far, far + count):
            for sequence in sequences:
                table.record(header(sequence, producer_id=producer_id), far + sequence)
        taken = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert 0.8 * STATE_BYTES_MAX < taken / count <= STATE_BYTES_MAX


def test_a_gap_is_refused_and_named(table):
    sent(table, 0)
    with pytest.raises(OutOfOrderSequence) as caught:
        table.check(header(2))
    assert caught.value.expected == 1


def test_a_batch_that_overlaps_an_older_one_is_refused(table):
    sent(table, 0, 3, records=3)
    with pytest.raises(OutOfOrderSequence):
        table.check(header(3, records=2))


def test_sequences_wrap_to_zero(table):
    first = header(SEQUENCE_MAX - 1, records=4)
    table.record(first, 0)
    assert table.check(first) == Duplicate(0)
    assert table.check(header(2)) is None
    with pytest.raises(OutOfOrderSequence):
        table.check(header(0))
    exact = header(SEQUENCE_MAX, producer_id=8)
    table.record(exact, 9)
    assert table.check(header(0, producer_id=8)) is None


def test_a_new_epoch_begins_at_zero_and_fences_the_older_one(table):
    sent(table, 0, 1)
    with pytest.raises(OutOfOrderSequence):
        table.check(header(2, epoch=1))
    sent(table, 0, epoch=1)
    with pytest.raises(ProducerFenced) as caught:
        table.check(header(2, epoch=0))
    assert caught.value.newest == 1
    assert table.check(header(1, epoch=1)) is None


def test_what_an_older_epoch_sent_is_no_duplicate_in_a_newer_one(table):
    sent(table, 0, 1, 2, 3)
    sent(table, 0, epoch=1)
    with pytest.raises(OutOfOrderSequence):  # 1 and 2 are missing: 3 was never written
        table.check(header(3, epoch=1))


def test_a_producer_without_state_may_begin_anywhere(table):
    assert table.check(header(41)) is None


def test_partitions_do_not_share_sequences(states):
    one, two = ProducerTable(states, 1), ProducerTable(states, 2)
    sent(one, 0, 1)
    assert two.check(header(0)) is None


def test_the_longest_silent_producer_makes_room():
    states = ProducerStates(3, 0)
    table = ProducerTable(states, 1)
    for producer_id in (1, 2, 3, 1, 4):
        table.record(header(0, producer_id=producer_id), 5)
    assert [key[1] for key in states.entries] == [3, 1, 4]


def test_a_full_table_makes_room_for_a_hundredth_of_it_at_once():
    states = ProducerStates(300, 0)
    table = ProducerTable(states, 1)
    for producer_id in range(300):
        table.record(header(0, producer_id=producer_id), 5)
    assert [key[1] for key in states.entries] == list(range(300)), "it is full, and nothing more"
    table.record(header(0, producer_id=300), 5)
    assert [key[1] for key in states.entries] == list(range(3, 301))


def test_many_silent_producers_are_forgotten_in_several_calls(monkeypatch):
    monkeypatch.setattr(producers, "EXPIRED_AT_ONCE", 4)
    states = ProducerStates(300, 0)
    table = ProducerTable(states, 1)
    for producer_id in range(7):
        states.now_ms = 100 * producer_id
        table.record(header(0, producer_id=producer_id), 5)
    assert [states.expire(600) for _ in range(3)] == [4, 2, 0]
    assert [key[1] for key in states.entries] == [6]


def test_what_a_snapshot_took_does_not_change(states, table):
    sent(table, 0, 1)
    taken = states.all()
    sent(table, 2)
    table.record(header(0, producer_id=8), 9)
    assert list(taken) == [(1, 7)]
    assert [span[0] for span in taken[1, 7][2]] == [0, 1]


def test_producers_are_forgotten_by_time_and_with_their_partition(states):
    one, two = ProducerTable(states, 1), ProducerTable(states, 2)
    one.record(header(0), 0)
    states.now_ms = 1000
    two.record(header(0), 0)
    two.record(header(0, producer_id=8), 1)
    assert states.expire(500) == 1
    assert one.check(header(9)) is None
    three = ProducerTable(states, 3)
    three.record(header(4), 7)
    states.forget_partition(2)
    assert list(states.all()) == [(3, 7)]


class DumbTwin:
    """Every batch ever sent in the present epoch, in a list."""

    def __init__(self):
        self.epoch = None
        self.batches = []

    def check(self, sequence, records, epoch):
        if self.epoch is None:
            return None
        if epoch < self.epoch:
            return ProducerFenced
        if epoch > self.epoch:
            return None if sequence == 0 else OutOfOrderSequence
        if sequence == (self.batches[-1][0] + self.batches[-1][1]) % (1 << 31):
            return None
        for base, count, offset in self.batches[-5:]:
            if (base, count) == (sequence, records):
                return Duplicate(offset)
        return OutOfOrderSequence


@settings(max_examples=300)
@given(
    st.lists(st.tuples(st.integers(-2, 8), st.integers(1, 3), st.integers(0, 2)), max_size=30),
    st.sampled_from([0, SEQUENCE_MAX - 4]),
)
def test_the_window_agrees_with_a_list_of_everything(sends, start):
    table, twin, offset = ProducerTable(ProducerStates(10, 0), 1), DumbTwin(), 0
    for step, records, epoch in sends:
        at = start if twin.epoch is None else (twin.batches[-1][0] + step) % (1 << 31)
        batch = header(at, records=records, epoch=epoch)
        expected = twin.check(at, records, epoch)
        if expected in (OutOfOrderSequence, ProducerFenced):
            with pytest.raises(expected):
                table.check(batch)
            continue
        assert table.check(batch) == expected
        if expected is None:
            table.record(batch, offset)
            if twin.epoch != epoch:
                twin.epoch, twin.batches = epoch, []
            twin.batches.append((at, records, offset))
            offset += records


def test_known_producers_are_those_of_the_asked_partitions_of_each_log(monkeypatch):
    monkeypatch.setattr(producers, "LOOKED_AT_ONCE", 2)
    states, of_another_log = ProducerStates(100, 5), ProducerStates(100, 6)
    asked, unasked = ProducerTable(states, 1), ProducerTable(states, 2)
    elsewhere = ProducerTable(of_another_log, 1)
    for number, table in enumerate((asked, unasked, elsewhere, asked, asked)):
        table.record(header(10, records=3, epoch=4, producer_id=number), 0)
    parts = [*known_producers([asked, elsewhere])]
    assert [table for part in parts for table, _ in part] == [asked, asked, asked, elsewhere]
    assert [one for part in parts for _, one in part] == [
        KnownProducer(ProducerId(0), ProducerEpoch(4), 12, 5, CoordinatorEpoch(-1), -1),
        KnownProducer(ProducerId(3), ProducerEpoch(4), 12, 5, CoordinatorEpoch(-1), -1),
        KnownProducer(ProducerId(4), ProducerEpoch(4), 12, 5, CoordinatorEpoch(-1), -1),
        KnownProducer(ProducerId(2), ProducerEpoch(4), 12, 6, CoordinatorEpoch(-1), -1),
    ]
    assert max(map(len, parts)) <= 2


def test_producers_that_change_while_they_are_listed_are_told_as_they_are_then(monkeypatch, states):
    monkeypatch.setattr(producers, "LOOKED_AT_ONCE", 1)
    table = ProducerTable(states, 1)
    for number in range(3):
        table.record(header(0, producer_id=number), 0)
    steps = known_producers([table])
    assert [one.producer_id for _, one in next(steps)] == [0]
    del states.entries[1, 1]
    table.record(header(1, records=2, producer_id=2), 1)
    table.record(header(0, producer_id=9), 3)
    assert next(steps) == []
    assert next(steps) == [
        (table, KnownProducer(ProducerId(2), ProducerEpoch(0), 2, 0, CoordinatorEpoch(-1), -1))
    ]
    assert next(steps, None) is None, "who began later is not told"
