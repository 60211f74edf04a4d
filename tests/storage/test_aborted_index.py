"""The entries of aborted transactions: what is found among many, against a look at each of them."""

import itertools
from array import array

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.storage.index.aborted import Aborted, new_aborted
from penstock.storage.index.least import FAN_OUT, LEVELS, Least

Transactions = list[tuple[int, int, int]]
"""(producer id, first offset, offset of the marker), in the order of their markers."""


def filled(transactions: Transactions) -> Aborted:
    """Return their entries, with the stable offset that each marker left."""
    made = new_aborted()
    for at, (producer_id, first, last) in enumerate(transactions):
        open_ones = [one[1] for one in transactions[at + 1 :] if one[1] < last]
        made.add(producer_id, first, last, min([*open_ones, last + 1]))
    return made


def touching(transactions: Transactions, start: int, end: int) -> list[tuple[int, int]]:
    return [(who, first) for who, first, last in transactions if last >= start and first < end]


@st.composite
def histories(draw: st.DrawFn) -> Transactions:
    """Short ones one after the other, and some that are open for long meanwhile.

    Markers have even offsets and batches odd ones.
    """
    count = draw(st.integers(0, 4 * FAN_OUT))
    reach = draw(st.sampled_from((1, 5, 500)))
    lengths = draw(st.lists(st.integers(1, reach), min_size=count, max_size=count))
    markers = zip(itertools.count(2, 2), lengths, strict=False)
    return [(at % 7, max(at - 2 * length + 1, 1), at) for at, length in markers]


@given(histories(), st.integers(0, 600), st.integers(1, 600))
def test_what_is_found_touches_what_is_read(
    transactions: Transactions, start: int, size: int
) -> None:
    entries, end = filled(transactions), start + size
    found, _ = entries.overlapping(start, end)
    assert found == touching(transactions, start, end)
    few = entries.few_overlapping(start, end, len(found))
    assert few is not None
    assert few.transactions == found
    if found:
        assert entries.few_overlapping(start, end, len(found) - 1) is None
    views = Aborted(*(memoryview(column) for column in entries.columns))  # type: ignore[arg-type]
    views.prepare()
    assert views.overlapping(start, end) == entries.overlapping(start, end)


@given(histories(), st.integers(0, 600), st.integers(1, 600), st.integers(0, 256))
def test_what_is_added_meanwhile_is_not_looked_at(
    transactions: Transactions, start: int, size: int, count: int
) -> None:
    entries, count = filled(transactions), min(count, len(transactions))
    found, may_go_on = entries.overlapping(start, start + size, count)
    before, might_go_on = filled(transactions).part(0, count).overlapping(start, start + size)
    assert (found, may_go_on) == (before, might_go_on)


@given(histories())
def test_entries_that_are_added_together_are_those_that_were_added_one_by_one(
    transactions: Transactions,
) -> None:
    entries = filled(transactions)
    together = new_aborted()
    together.extend(entries.part(0, 3))
    together.extend(entries.part(3))
    together.add(9, 2, 5_000, 5_001)
    entries.add(9, 2, 5_000, 5_001)
    for start, end in ((0, 3), (0, 5_001), (100, 200)):
        assert together.overlapping(start, end) == entries.overlapping(start, end)


@pytest.mark.parametrize("count", [0, 1, FAN_OUT, FAN_OUT + 1, FAN_OUT**2, 2 * FAN_OUT**2 + 5])
def test_blocks_that_grow_are_those_of_the_whole_column(count: int) -> None:
    column = array("q", ((at * 7_919) % 10_007 for at in range(count)))
    grown = Least()
    for at, value in enumerate(column):
        grown.add(at, value)
    whole, parts = Least(column), Least(column[: count // 3])
    parts.extend(column, count // 3)
    for limit in (0, 5, 300, 20_000):
        for start, stop in ((0, count), (count // 3, count // 2), (min(count, 70), count)):
            wanted = [at for at in range(start, stop) if column[at] < limit]
            for least in (grown, whole, parts):
                assert least.below(column, start, stop, limit, count) == wanted


class Looked(array):
    """A column that counts how often it is looked at."""

    looks = 0

    def __getitem__(self, at):
        type(self).looks += 1
        return super().__getitem__(at)


def test_what_was_open_for_long_is_found_without_a_look_at_all_that_ended_meanwhile() -> None:
    count = 100 * FAN_OUT**2
    firsts = Looked("q", range(10, 10 + 2 * count, 2))
    firsts.append(1)
    least = Least(firsts)
    Looked.looks = 0
    assert least.below(firsts, 0, count + 1, 10, 5) == [count]
    assert Looked.looks <= FAN_OUT
    assert least.below(firsts, 0, count + 1, 10, 0) is None
    assert least.below(firsts, 0, count + 1, count, 5) is None
    assert Looked.looks <= (LEVELS + 2) * FAN_OUT
