"""Which positions of a log an index lacks, and which of its tables are of another log."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.finding.coverage import Range, epoch_before, holds, kept_tables, lacking
from penstock.finding.table import Table, name_of

END = 12
"""Of a log that is short, so that ranges meet, touch and lie over each other all the time."""
RANGES = st.tuples(st.integers(0, END), st.integers(0, END)).map(sorted).map(tuple)


def table(first: int, end: int, epoch: int = 3) -> Table:
    return Table(name_of(first, end), first, end, epoch, 0, 0, 0, 0, 0, 0)


@given(covered=st.lists(RANGES, max_size=5), bounds=RANGES)
def test_what_is_lacking_is_the_first_positions_in_a_row_that_nothing_covers(
    covered: list[tuple[int, int]], bounds: tuple[int, int]
) -> None:
    start, end = bounds
    ranges = [one for one in covered if one[0] < one[1]]
    absent = [at for at in range(start, end) if not any(a <= at < b for a, b in ranges)]
    row = [at for at in absent if set(range(absent[0], at)) <= set(absent)]
    assert lacking(ranges, start, end) == (Range(row[0], row[-1] + 1) if row else None)


@given(ranges=st.lists(RANGES, max_size=6), log_end=st.integers(0, END))
def test_tables_that_are_kept_follow_each_other_and_none_is_missing(
    ranges: list[tuple[int, int]], log_end: int
) -> None:
    tables = [table(first, end) for first, end in set(ranges) if first < end]
    kept = kept_tables(tables, [(3, 0)], log_end)
    assert all(one.end <= log_end for one in kept)
    assert all(one.end <= other.first for one, other in pairwise(kept))
    for one in tables:
        is_over = any(one.first < other.end and other.first < one.end for other in kept)
        assert one in kept or is_over or one.end > log_end
    for one in kept:
        same = [other.end for other in tables if other.first == one.first]
        assert one.end == max(end for end in same if end <= log_end), "the longest that holds"


@pytest.mark.parametrize(
    ("covered", "expected"),
    [
        ([], Range(0, 100)),
        ([(0, 100)], None),
        ([(0, 50), (50, 100)], None),
        ([(50, 100), (0, 40)], Range(40, 50)),
        ([(20, 40)], Range(0, 20)),
        ([(0, 40)], Range(40, 100)),
        ([(0, 40), (20, 60)], Range(60, 100)),
        ([(0, 10), (20, 30), (40, 100)], Range(10, 20)),
        ([(0, 300)], None),
    ],
)
def test_the_first_range_that_is_lacking_is_told(
    covered: list[tuple[int, int]], expected: Range | None
) -> None:
    assert lacking(covered, 0, 100) == expected


def test_an_epoch_is_that_of_the_frame_in_front_of_a_position() -> None:
    epochs = [(3, 0), (5, 100), (6, 100), (9, 200)]
    assert [epoch_before(epochs, at) for at in (0, 1, 100, 101, 200, 201)] == [
        None, 3, 3, 6, 6, 9,
    ]  # fmt: skip


def test_what_another_mastership_wrote_does_not_hold() -> None:
    epochs = [(3, 0), (6, 100)]
    assert holds(100, 3, epochs, 150)
    assert holds(101, 6, epochs, 150)
    assert not holds(120, 3, epochs, 150), "epoch 3 ended at 100 here"
    assert not holds(151, 6, epochs, 150), "the log ends before"
    assert holds(50, 2, [(6, 100)], 150), "too old to be compared"


def test_tables_that_lie_over_others_are_left_out() -> None:
    kept = kept_tables(
        [table(50, 80), table(0, 50), table(40, 60), table(80, 200, 4)], [(3, 0)], 100
    )
    assert [(one.first, one.end) for one in kept] == [(0, 50), (50, 80)]
