"""Transactions of a stock client through kills; `python -m reliability.transaction_failovers`."""

from collections import Counter

import pytest

from reliability.moving import judge_moved
from reliability.transaction_copies import judge_copies
from reliability.transaction_failovers import ABORTED, COMMITTED, UNKNOWN, Story, judge, run_kills

pytestmark = [pytest.mark.process, pytest.mark.long]


def test_transactions_stay_whole_through_kills() -> None:
    row = run_kills(4)
    assert row["verdict"] == "ok", row
    assert row["kills"] == 4
    assert row[COMMITTED]
    assert row[ABORTED]
    assert row["records moved"]
    assert row["moves aborted"]


@pytest.mark.parametrize(
    ("outcome", "found", "told"),
    [
        (COMMITTED, {0: 1, 1: 1}, ""),
        (COMMITTED, {}, "lost"),
        (COMMITTED, {0: 1}, "read as"),
        (COMMITTED, {0: 2, 1: 1}, "read as"),
        (ABORTED, {}, ""),
        (ABORTED, {0: 1, 1: 1}, "aborted and is read"),
        (UNKNOWN, {0: 1, 1: 1}, ""),
        (UNKNOWN, {}, ""),
        (UNKNOWN, {1: 1}, "read as"),
    ],
)
def test_what_is_not_whole_is_seen(outcome: str, found: dict[int, int], told: str) -> None:
    story = Story({"t": (0, 1)}, {"t": outcome})
    counts = {place: Counter({"t": found.get(place, 0)}) for place in range(6)}
    problems = judge(story, counts)
    assert (told in problems[0]) if told else not problems


@pytest.mark.parametrize(
    ("values", "told"),
    [("012", ""), ("02", "lost"), ("0112", "twice"), ("0123", "not moved")],
)
def test_records_that_do_not_go_with_their_positions_are_seen(values: str, told: str) -> None:
    problems = judge_moved({0: 3}, {0: Counter(values)})
    assert (told in problems[0]) if told else not problems


@pytest.mark.parametrize(
    ("values", "told"),
    [((0, 1, 2), ""), ((0, 2), "lost"), ((0, 1, 1, 2), "double"), ((0, 1, 2, 3), "of nobody")],
)
def test_copies_that_are_not_there_once_are_seen(values: tuple[int, ...], told: str) -> None:
    problems = judge_copies(Counter(values), 3)
    assert (told in problems[0]) if told else not problems
