"""Requests that come late amid a later transaction; `python -m reliability.late_requests`."""

import pytest

from harness.maven import jars
from reliability.late_requests import run_late
from reliability.lists import ABORTED, COMMITTED, UNKNOWN, Lists, Transaction, judge_lists


@pytest.mark.process
def test_late_requests_do_nothing_to_later_transactions_of_the_second_protocol() -> None:
    found = jars("kafka-tools")
    if isinstance(found, str):
        pytest.skip(found)
    row = run_late("java", 15.0)
    assert row["wrong"] == "nothing", row
    assert row["committed"]
    assert row["late requests"]


def _told(
    lists: Lists, *transactions: Transaction, read_along: Lists | None = None
) -> dict[str, int]:
    by_name = {each.name: each for each in transactions}
    kinds: dict[str, int] = {}
    for anomaly in judge_lists(by_name, lists, read_along or {}):
        kinds[anomaly.kind] = kinds.get(anomaly.kind, 0) + 1
    return kinds


def _one(name: str, outcome: str, read: tuple[str, ...] = ()) -> Transaction:
    writer, number = name.split("/")
    return Transaction(name, writer, int(number), (0, 1), outcome, read)


@pytest.mark.parametrize(
    ("outcome", "lists", "told"),
    [
        (COMMITTED, {0: ["a/1"], 1: ["a/1"]}, {}),
        (COMMITTED, {}, {"lost": 1}),
        (COMMITTED, {0: ["a/1"]}, {"torn": 1}),
        (COMMITTED, {0: ["a/1", "a/1"], 1: ["a/1"]}, {"duplicate": 1}),
        (ABORTED, {}, {}),
        (ABORTED, {0: ["a/1"], 1: ["a/1"]}, {"aborted read": 1}),
        (UNKNOWN, {0: ["a/1"], 1: ["a/1"]}, {}),
        (UNKNOWN, {}, {}),
        (UNKNOWN, {1: ["a/1"]}, {"torn": 1}),
        (UNKNOWN, {1: ["a/1"], 2: ["a/1"]}, {"torn": 1}),
    ],
)
def test_a_transaction_is_in_all_of_its_lists_or_in_none(
    outcome: str, lists: Lists, told: dict[str, int]
) -> None:
    assert _told(lists, _one("a/1", outcome)) == told


def test_a_name_that_nobody_wrote_is_told() -> None:
    assert _told({0: ["b/1"]}) == {"aborted read": 1}


def test_transactions_of_one_writer_stand_in_their_order() -> None:
    first, second = _one("a/1", COMMITTED), _one("a/2", COMMITTED)
    assert _told({0: ["a/1", "a/2"], 1: ["a/2", "a/1"]}, first, second) == {"reordered": 1}


def test_transactions_of_two_writers_stand_in_any_order() -> None:
    first, second = _one("a/1", COMMITTED), _one("b/1", COMMITTED)
    assert _told({0: ["a/1", "b/1"], 1: ["b/1", "a/1"]}, first, second) == {}


@pytest.mark.parametrize("seen", [["a/2"], ["a/1", "a/1"], ["a/1", "a/2", "a/3"]])
def test_who_reads_along_reads_the_list_as_it_is_in_the_end(seen: list[str]) -> None:
    both = (_one("a/1", COMMITTED), _one("a/2", COMMITTED))
    lists = {0: ["a/1", "a/2"], 1: ["a/1", "a/2"]}
    assert _told(lists, *both, read_along={0: ["a/1"]}) == {}
    assert _told(lists, *both, read_along={0: seen}) == {"changed": 1}


def test_two_transactions_do_not_read_each_other() -> None:
    lists = {0: ["a/1", "b/1"], 1: ["a/1", "b/1"]}
    assert _told(lists, _one("a/1", COMMITTED), _one("b/1", COMMITTED, read=("a/1",))) == {}
    mutual = (_one("a/1", COMMITTED, read=("b/1",)), _one("b/1", COMMITTED, read=("a/1",)))
    assert _told(lists, *mutual) == {"cycle": 1}


def test_a_transaction_does_not_read_itself_through_a_later_one_of_its_writer() -> None:
    lists = {0: ["a/1", "a/2", "b/1"], 1: ["a/1", "a/2", "b/1"]}
    some = (
        _one("a/1", COMMITTED, read=("b/1",)),
        _one("a/2", COMMITTED),
        _one("b/1", COMMITTED, read=("a/2",)),
    )
    assert _told(lists, *some) == {"cycle": 1}
