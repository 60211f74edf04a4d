"""Sums of rows that were read, and their bound."""

from penstock.audit.counts import NUMBERS
from penstock.audit.sums import Sums


def counts(number: int, longest: int) -> dict[str, int]:
    return dict.fromkeys(NUMBERS, number) | {"latency_us_max": longest}


def test_rows_of_a_key_are_added_and_the_longest_latency_stays() -> None:
    sums: Sums[str] = Sums()
    for number, longest in ((1, 7), (2, 9), (3, 8)):
        sums.add("a", counts(number, longest))
    sums.add("A", counts(5, 5))
    assert list(sums) == [("A", counts(5, 5)), ("a", counts(6, 9))]


def test_rows_whose_key_finds_no_room_are_told() -> None:
    sums: Sums[str] = Sums(most=1)
    for key in ("a", "b", "a", "c"):
        sums.add(key, counts(1, 1))
    assert list(sums) == [("a", counts(2, 1))]
    assert sums.left_out == 2
