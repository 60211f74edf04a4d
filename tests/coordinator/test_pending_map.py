"""What transactions have written to a map counts by its place in the log, and by their markers."""

from penstock.base.ids import ProducerId
from penstock.coordinator.pending import Pending
from penstock.coordinator.pending_map import PendingMap

P, Q = 1, 2


def written(numbers: PendingMap[str, int], producer_id: int, **values: int | None) -> None:
    numbers.confirm(numbers.begin_pending(ProducerId(producer_id), values))


def ended(numbers: PendingMap[str, int], producer_id: int, *, is_commit: bool) -> None:
    numbers.confirm(numbers.begin_ending(ProducerId(producer_id), is_commit=is_commit))


def test_what_is_pending_counts_when_its_transaction_is_committed() -> None:
    numbers: PendingMap[str, int] = PendingMap()
    written(numbers, P, a=1, b=2)
    written(numbers, P, a=3)
    assert numbers.values == {}
    assert numbers.is_in_flight("a")
    ended(numbers, P, is_commit=True)
    assert numbers.values == {"a": 3, "b": 2}
    assert not numbers.is_in_flight("a")
    assert not numbers.pending


def test_what_was_aborted_never_counts() -> None:
    numbers: PendingMap[str, int] = PendingMap()
    numbers.restore({"a": 1})
    written(numbers, P, a=2)
    ended(numbers, P, is_commit=False)
    ended(numbers, P, is_commit=True)
    assert numbers.values == {"a": 1}


def test_a_plain_change_behind_it_wins_over_what_is_pending() -> None:
    numbers: PendingMap[str, int] = PendingMap()
    written(numbers, P, a=1, b=2)
    numbers.confirm(numbers.begin({"a": 5, "b": None}))
    assert not numbers.is_in_flight("a")
    ended(numbers, P, is_commit=True)
    assert numbers.values == {"a": 5}


def test_of_two_transactions_the_one_that_wrote_later_wins_whichever_ends_first() -> None:
    for first, second in ((P, Q), (Q, P)):
        numbers: PendingMap[str, int] = PendingMap()
        written(numbers, P, a=1)
        written(numbers, Q, a=2)
        ended(numbers, first, is_commit=True)
        ended(numbers, second, is_commit=True)
        assert numbers.values == {"a": 2}


def test_a_marker_ends_only_what_is_before_it() -> None:
    numbers: PendingMap[str, int] = PendingMap()
    written(numbers, P, a=1)
    marker = numbers.begin_ending(ProducerId(P), is_commit=True)
    later = numbers.begin_pending(ProducerId(P), {"a": 2})
    assert numbers.latest_of(["a"]) == {"a": 1}
    assert numbers.latest_pending_of(["a"]) == {"a": [2]}
    numbers.confirm(marker)
    numbers.confirm(later)
    assert numbers.values == {"a": 1}
    ended(numbers, P, is_commit=True)
    assert numbers.values == {"a": 2}


def test_what_was_refused_is_neither_pending_nor_ended() -> None:
    numbers: PendingMap[str, int] = PendingMap()
    numbers.refuse(numbers.begin_pending(ProducerId(P), {"a": 1}))
    assert not numbers.is_in_flight("a")
    written(numbers, P, b=1)
    numbers.refuse(numbers.begin_ending(ProducerId(P), is_commit=True))
    assert numbers.is_in_flight("b")
    assert numbers.values == {}


def test_keys_have_those_that_are_only_pending() -> None:
    numbers: PendingMap[str, int] = PendingMap()
    numbers.restore({"a": 1})
    written(numbers, P, a=2, b=2)
    numbers.begin_pending(ProducerId(P), {"c": 3})
    assert sorted(numbers.keys()) == ["a", "b", "c"]


def test_what_was_overtaken_before_it_was_confirmed_waits_for_no_transaction() -> None:
    made: PendingMap[str, int] = PendingMap()
    first = made.begin_pending(ProducerId(P), {"k": 5})
    later = made.begin({"k": 6})
    made.confirm(later)
    made.confirm(first)
    assert "k" not in made.pending
    ended(made, P, is_commit=True)
    assert made.values == {"k": 6}


def test_a_rewrite_finds_nothing_of_what_was_overtaken_and_is_not_confirmed() -> None:
    made: PendingMap[str, int] = PendingMap()
    first, plain = made.begin_pending(ProducerId(P), {"k": 5}), made.begin({"l": 5})
    later = made.begin({"k": 6, "l": 6})
    made.confirm(later)
    assert made.latest_of(["k", "l"]) == {"k": 6, "l": 6}
    assert made.latest_pending_of(["k", "l"]) == {}
    made.confirm(plain)
    made.confirm(first)
    assert made.values == {"k": 6, "l": 6}


def test_a_producer_all_of_whose_values_have_lost_takes_no_memory() -> None:
    pending: Pending[str, int] = Pending()
    pending.put(ProducerId(7), "a", 1, 10)
    pending.put(ProducerId(7), "b", 2, 20)
    assert pending.drop("a", 5) == [10]
    assert pending.count_of(ProducerId(7)) == 1
    assert pending.drop("b", 5) == [20]
    assert not pending._by_producer
    assert pending.take(ProducerId(7)) == []
