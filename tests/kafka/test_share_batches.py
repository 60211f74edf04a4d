"""What was read for a hand-out: which offsets are no records, which bytes go to the member."""

from penstock.base.ids import CoordinatorEpoch
from penstock.kafka.shares.batches import Acquired, bytes_of, look, ranges_of
from penstock.record.batch import CONTROL, TRANSACTIONAL
from penstock.record.build import Record, build_batch
from penstock.record.marker import Marker, build_marker
from penstock.storage.index.aborted import AbortedTransaction


def stored(first: int, count: int = 1, *, producer_id: int = -1, attributes: int = 0) -> memoryview:
    """A batch as the log has it, from offset `first` on."""
    sequence = {} if producer_id < 0 else {"producer_epoch": 0, "base_sequence": 0}
    built = bytearray(
        build_batch(
            [Record(None, b"v")] * count,
            producer_id=producer_id,
            attributes=attributes,
            **sequence,
        )
    )
    built[:8] = first.to_bytes(8, "big")
    return memoryview(built)


def marker(first: int, producer_id: int, *, is_commit: bool) -> memoryview:
    made = Marker(is_commit=is_commit, coordinator_epoch=CoordinatorEpoch(0), first_offset=0)
    built = bytearray(build_marker(made, producer_id=producer_id, producer_epoch=0, timestamp_ms=0))
    built[:8] = first.to_bytes(8, "big")
    return memoryview(built)


def transactional(first: int, producer_id: int) -> memoryview:
    return stored(first, producer_id=producer_id, attributes=TRANSACTIONAL)


def test_offsets_between_batches_and_before_the_first_are_absent() -> None:
    found = look([stored(5, 2), memoryview(bytes(stored(9)) + bytes(stored(10)))], 3, None)
    assert found.absent == [(3, 5), (7, 9)]
    assert found.batch_ends == [7, 10, 11]
    assert found.end == 11


def test_a_batch_that_begins_before_what_is_wanted_makes_nothing_absent() -> None:
    found = look([stored(0, 10)], 4, None)
    assert found.absent == []
    assert found.end == 10


def test_markers_are_absent_and_what_was_aborted_before_them() -> None:
    data = [
        transactional(0, 7),
        transactional(1, 8),
        marker(2, 7, is_commit=False),
        transactional(3, 7),
        marker(4, 8, is_commit=True),
        marker(5, 7, is_commit=True),
    ]
    aborted = [AbortedTransaction(7, 0)]
    assert look(data, 0, aborted).absent == [(0, 1), (2, 3), (4, 6)]
    assert look(data, 0, None).absent == [(2, 3), (4, 6)]


def test_a_look_that_begins_with_an_abort_marker_leaves_the_next_transaction_in() -> None:
    """The aborted one touches the first offset that is read, and has no other batch in it."""
    data = [
        marker(4, 7, is_commit=False),
        transactional(5, 7),
        marker(6, 7, is_commit=True),
        transactional(7, 7),
        marker(8, 7, is_commit=False),
    ]
    aborted = [AbortedTransaction(7, 2), AbortedTransaction(7, 7)]
    assert look(data, 4, aborted).absent == [(4, 5), (6, 9)]


def test_a_transaction_that_is_aborted_later_begins_where_it_does() -> None:
    data = [stored(0, producer_id=7), transactional(1, 7), transactional(2, 7)]
    assert look(data, 0, [AbortedTransaction(7, 2)]).absent == [(2, 3)]
    assert look(data, 0, [AbortedTransaction(7, 0)]).absent == [(1, 3)]


def test_of_an_aborted_batch_only_what_is_wanted_is_absent() -> None:
    data = [stored(0, 10, producer_id=7, attributes=TRANSACTIONAL)]
    assert look(data, 4, [AbortedTransaction(7, 0)]).absent == [(4, 10)]


def test_control_batches_are_known_by_their_attribute_alone() -> None:
    unknown = stored(0, producer_id=7, attributes=TRANSACTIONAL | CONTROL)
    assert look([unknown, stored(1)], 0, ()).absent == [(0, 1)]


def test_batches_with_a_wanted_record_are_kept_and_no_others() -> None:
    found = look([stored(0, 3), stored(3, 3), stored(6, 3), stored(9, 3)], 0, None)
    kept = bytes_of(found, [(2, 3), (7, 10)])
    assert [bytes(one) for one in kept] == [bytes(found.batches[at].data) for at in (0, 2, 3)]
    assert bytes_of(found, [(12, 13)]) == []


def test_ranges_have_one_delivery_count_each() -> None:
    found = ranges_of([(0, 3), (5, 7)], [1, 1, 2, 2, 2], [], 0)
    assert found == [Acquired(0, 1, 1), Acquired(2, 2, 2), Acquired(5, 6, 2)]


def test_a_large_range_ends_with_the_first_batch_that_makes_it_large_enough() -> None:
    ends = [4, 8, 12, 100]
    found = ranges_of([(0, 100)], [1] * 100, ends, 6)
    assert found == [Acquired(0, 7, 1), Acquired(8, 99, 1)]
    assert ranges_of([(2, 8)], [1] * 6, ends, 6) == [Acquired(2, 7, 1)]
    just = ranges_of([(0, 100)], [1] * 100, [6, 12, 100], 6)
    assert just == [Acquired(0, 5, 1), Acquired(6, 11, 1), Acquired(12, 99, 1)]
