"""Planted examples of old answers, stuck consumers and group positions that go back."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulator.history import (
    NOTHING_COMMITTED,
    Anomaly,
    Commit,
    Deletion,
    History,
    Outcome,
    Poll,
    Rules,
    Send,
    judge,
)

MS = 1_000_000


def acked(value: str, offset: int, at_ms: int) -> Send:
    return Send("p", 0, value, at_ms * MS, (at_ms + 1) * MS, Outcome.ACKED, offset)


def poll(
    at_ms: int, *records: tuple[int, str], consumer: str = "c", end: int | None = None
) -> Poll:
    return Poll(consumer, 0, records, at_ms * MS, (at_ms + 1) * MS, end_offset=end)


def found(history: History, rules: Rules | None = None) -> list[Anomaly]:
    return [finding.anomaly for finding in judge(history, rules).findings]


def test_an_end_of_the_log_that_goes_back_is_found() -> None:
    polls = [poll(10, end=3), poll(20, end=2, consumer="d")]
    assert found(History(polls=polls)) == [Anomaly.HIGH_WATERMARK_REGRESSION]


def test_ends_that_were_asked_for_at_the_same_time_may_differ() -> None:
    slow = Poll("d", 0, (), 5 * MS, 20 * MS, end_offset=2)
    assert found(History(polls=[poll(10, end=3), slow])) == []


def test_an_end_may_be_as_old_as_was_allowed() -> None:
    history = History(polls=[poll(10, end=3), poll(20, end=2, consumer="d")])
    assert found(history, Rules(stale_ns_max=10 * MS)) == []


SENDS = [acked("a", 0, 0), acked("b", 1, 100)]


def test_a_consumer_that_polls_and_gets_nothing_is_stuck() -> None:
    empty = [poll(at) for at in range(20, 900, 20)]
    history = History(SENDS, [poll(10, (0, "a")), *empty, poll(5000, (1, "b"), consumer="late")])
    assert found(history, Rules(lag_ns_max=2000 * MS)) == []
    assert found(history, Rules(lag_ns_max=500 * MS)) == [Anomaly.REALTIME_LAG]
    assert judge(history).lag_ns == (881 - 101) * MS


def test_a_consumer_that_gets_it_late_was_behind() -> None:
    history = History(SENDS, [poll(10, (0, "a")), poll(900, (1, "b"))])
    assert found(history, Rules(lag_ns_max=500 * MS)) == [Anomaly.REALTIME_LAG]


def test_reading_an_old_log_from_its_beginning_is_no_lag() -> None:
    history = History(SENDS, [poll(90_000, (0, "a")), poll(90_001, (1, "b"))])
    assert found(history, Rules(lag_ns_max=500 * MS)) == []


def test_who_reads_a_backlog_a_few_records_at_a_time_waits_for_nothing() -> None:
    sends = [acked(f"{offset}", offset, 100 + offset) for offset in range(5)]
    slowly = [poll(at * 400 + 200, (at, f"{at}")) for at in range(5)]
    assert found(History(sends, slowly), Rules(lag_ns_max=500 * MS)) == []
    stuck = [*slowly[:2], poll(900), poll(1_300), slowly[-1]]
    assert Anomaly.REALTIME_LAG in found(History(sends, stuck), Rules(lag_ns_max=500 * MS))


def test_a_consumer_at_the_end_of_the_log_is_not_behind() -> None:
    polls = [poll(200, (0, "a"), (1, "b")), poll(90_000)]
    assert found(History(SENDS, polls), Rules(lag_ns_max=500 * MS)) == []


def test_what_happened_while_something_was_broken_counts_for_no_lag() -> None:
    history = History(SENDS, [poll(10, (0, "a")), poll(900, (1, "b"))])
    assert found(history, Rules(lag_ns_max=500 * MS, lag_from_ns=600 * MS)) == []
    assert found(history, Rules(lag_ns_max=200 * MS, lag_from_ns=600 * MS)) == [
        Anomaly.REALTIME_LAG
    ]


def elsewhere(at_ms: int) -> Poll:
    return poll(at_ms)._replace(is_elsewhere=True)


def test_who_stays_with_a_broker_waits_from_when_that_leads() -> None:
    refused = [elsewhere(at) for at in range(20, 800, 20)]
    history = History(SENDS, [poll(10, (0, "a")), *refused, poll(900, (1, "b"))])
    assert found(history, Rules(lag_ns_max=500 * MS)) == []
    assert found(history, Rules(lag_ns_max=50 * MS)) == [Anomaly.REALTIME_LAG]
    assert judge(history).lag_ns == (901 - 781) * MS


def start(at_ms: int, offset: int) -> Poll:
    return Poll("c", 0, (), at_ms * MS, (at_ms + 1) * MS, start_offset=offset)


def test_a_log_start_below_what_was_deleted_is_found() -> None:
    deletions = [Deletion(0, 5, 100 * MS), Deletion(0, 3, 50 * MS)]
    history = History(polls=[start(60, 3), start(99, 3), start(110, 4)], deletions=deletions)
    assert found(history) == [Anomaly.START_REGRESSION]
    assert found(history, Rules(stale_ns_max=10 * MS)) == []
    later = History(polls=[start(110, 7), start(120, 5)], deletions=deletions)
    assert found(later) == [], "retention promises nothing of the kind"


def commit(offset: int, at: int, **more: Any) -> Commit:
    return Commit("g", 0, offset, at, at + 5)._replace(**more)


def test_a_lower_position_that_was_fetched_is_a_regression() -> None:
    commits = [commit(7, 10), commit(5, 20, is_fetched=True)]
    assert found(History(commits=commits)) == [Anomaly.COMMIT_REGRESSION]


def test_a_position_that_is_gone_is_a_regression() -> None:
    commits = [commit(7, 10), commit(NOTHING_COMMITTED, 20, is_fetched=True)]
    assert found(History(commits=commits)) == [Anomaly.COMMIT_REGRESSION]


def test_a_lower_commit_of_another_member_that_is_accepted_is_a_regression() -> None:
    assert found(History(commits=[commit(7, 10), commit(5, 20)])) == [Anomaly.COMMIT_REGRESSION]


def test_what_was_fetched_once_stays() -> None:
    lost = commit(7, 10, outcome=Outcome.UNKNOWN, end_ns=None)
    seen = commit(7, 20, is_fetched=True)
    assert found(History(commits=[lost, seen, commit(5, 30, is_fetched=True)])) == [
        Anomaly.COMMIT_REGRESSION
    ]


def test_a_refused_or_unanswered_commit_promises_nothing() -> None:
    for outcome in (Outcome.FAILED, Outcome.UNKNOWN):
        commits = [commit(7, 10, outcome=outcome), commit(5, 20, is_fetched=True)]
        assert found(History(commits=commits)) == []


def test_positions_asked_for_at_the_same_time_may_be_either() -> None:
    slow = Commit("g", 0, 5, 8, 40, is_fetched=True)
    assert found(History(commits=[commit(7, 10), slow])) == []


def test_a_group_that_wants_to_go_back_may() -> None:
    commits = [commit(7, 10), commit(0, 20, is_rewind=True), commit(1, 30, is_fetched=True)]
    assert found(History(commits=commits)) == []
    again = [*commits, commit(0, 40, is_fetched=True)]
    assert found(History(commits=again)) == [Anomaly.COMMIT_REGRESSION]


def test_groups_and_partitions_are_apart() -> None:
    commits = [commit(7, 10), commit(5, 20, group="h"), commit(4, 30, partition=1)]
    assert found(History(commits=commits)) == []


@given(st.lists(st.booleans(), min_size=2, max_size=30), st.data())
def test_a_lower_position_anywhere_is_found(fetches: list[bool], data: st.DataObject) -> None:
    commits = [
        commit(number, number * 10, is_fetched=fetched) for number, fetched in enumerate(fetches)
    ]
    assert found(History(commits=commits)) == []
    at = data.draw(st.integers(1, len(commits) - 1))
    commits[at] = commits[at]._replace(offset=at - 2)
    assert found(History(commits=commits)) == [Anomaly.COMMIT_REGRESSION]


@pytest.mark.parametrize(
    ("told_by", "at_ms", "is_found"),
    [("b1", 48, True), ("b1", 50, False), ("b1", 71, True), ("b2", 50, True)],
)
def test_a_broker_that_has_just_woken_may_tell_an_old_end(
    told_by: str, at_ms: int, is_found: bool
) -> None:
    old = poll(at_ms, end=0)._replace(told_by=told_by)
    history = History(sends=[acked("a", 0, 1)], polls=[old, poll(90, (0, "a"))])
    rules = Rules(woken=[("b1", 50 * MS, 70 * MS)])
    assert found(history, rules) == [Anomaly.STALE_READ] * is_found


@pytest.mark.parametrize(("waited_ms", "is_found"), [(25, False), (35, True)])
def test_a_member_of_a_group_may_have_to_wait_for_who_had_the_partition(
    waited_ms: int, is_found: bool
) -> None:
    sends = [acked("a", 0, 1), acked("b", 1, 10)]
    polls = [poll(5, (0, "a"), consumer="m"), poll(10 + waited_ms, (1, "b"), consumer="m")]
    rules = Rules(
        lag_ns_max=10 * MS, rejoin_ns_max=20 * MS, readers=[("g", ["m"])], final_reader=None
    )
    assert found(History(sends=sends, polls=polls), rules) == [Anomaly.REALTIME_LAG] * is_found
