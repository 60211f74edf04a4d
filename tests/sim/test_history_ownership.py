"""What is judged of groups: who owned what, who committed when, what nobody read."""

from typing import Any

import pytest

from simulator.history import (
    NOTHING_COMMITTED,
    Anomaly,
    Commit,
    History,
    Outcome,
    Owned,
    Poll,
    Rules,
    Send,
    judge,
)

KEPT_NS = 1_000


def given(
    generation: int,
    member_id: str,
    *partitions: int,
    at: int = 0,
    owner: str = "",
    group: str = "g",
) -> Owned:
    return Owned(group, generation, owner or member_id, member_id, partitions, at)


def commit(offset: int, at: int, *, generation: int = 1, member_id: str = "m", **more: Any):
    fields = {"end_ns": at + 1, "owner": member_id, **more}
    return Commit("g", 0, offset, at, generation=generation, member_id=member_id, **fields)


def found(history: History, rules: Rules | None = None) -> list[Anomaly]:
    return [finding.anomaly for finding in judge(history, rules).findings]


# Ownership


def test_members_of_one_generation_share_the_partitions() -> None:
    owned = [given(1, "a", 0, 1), given(1, "b", 2), given(2, "b", 0, 1, 2, at=5)]
    assert found(History(owned=owned)) == []


def test_a_partition_that_two_members_own_in_a_generation_is_found() -> None:
    owned = [given(1, "a", 0, 1), given(1, "b", 1, 2, at=5)]
    assert found(History(owned=owned)) == [Anomaly.OWNED_TWICE]


def test_other_groups_own_the_same_partitions() -> None:
    assert found(History(owned=[given(1, "a", 0), given(1, "b", 0, group="h")])) == []


def test_a_static_member_keeps_what_it_owns_under_a_new_id() -> None:
    owned = [given(1, "a-1", 0, owner="a"), given(1, "a-2", 0, owner="a", at=5)]
    assert found(History(owned=owned)) == []


@pytest.mark.parametrize(("after_ns", "is_found"), [(KEPT_NS - 1, True), (KEPT_NS, False)])
def test_a_generation_comes_again_only_when_the_group_can_be_forgotten(after_ns, is_found) -> None:
    owned = [given(1, "a", 0), given(1, "b", 0, at=after_ns)]
    anomalies = found(History(owned=owned), Rules(positions_kept_ns=KEPT_NS))
    assert anomalies == [Anomaly.OWNED_TWICE] * is_found


def test_who_may_own_nothing_any_more_is_in_nobodys_way() -> None:
    gone = given(-1, "a", at=3)._replace(is_gone=True)
    owned = [given(1, "a", 0), given(1, "c", 1), gone, given(1, "b", 0, at=5)]
    assert found(History(owned=owned)) == []
    assert found(History(owned=[*owned, given(1, "b", 1, at=6)])) == [Anomaly.OWNED_TWICE]


# Commits of somebody who was replaced


def test_a_commit_of_an_older_generation_is_found() -> None:
    owned = [given(1, "m", 0), given(2, "n", 0, at=10)]
    assert found(History(commits=[commit(5, 11)], owned=owned)) == [Anomaly.STALE_COMMIT]


def test_a_commit_that_was_sent_before_the_next_generation_is_none_of_an_older_one() -> None:
    owned = [given(1, "m", 0), given(2, "n", 0, at=10)]
    assert found(History(commits=[commit(5, 10, end_ns=50)], owned=owned)) == []


@pytest.mark.parametrize("outcome", [Outcome.FAILED, Outcome.UNKNOWN])
def test_a_commit_of_an_older_generation_may_be_tried(outcome) -> None:
    owned = [given(1, "m", 0), given(2, "n", 0, at=10)]
    assert found(History(commits=[commit(5, 11, outcome=outcome)], owned=owned)) == []


def test_a_commit_of_what_a_static_member_was_before_is_found() -> None:
    owned = [given(1, "m-1", 0, owner="m"), given(1, "m-2", 0, owner="m", at=10)]
    now, before = (commit(5, 11, member_id=name, owner="m") for name in ("m-2", "m-1"))
    assert found(History(commits=[now], owned=owned)) == []
    assert found(History(commits=[now, before], owned=owned)) == [Anomaly.STALE_COMMIT]


def test_a_forgotten_group_begins_its_generations_again() -> None:
    owned = [given(7, "m", 0), given(1, "m", 0, at=KEPT_NS)]
    commits = [commit(5, KEPT_NS + 1)]
    rules = Rules(positions_kept_ns=KEPT_NS)
    assert found(History(commits=commits, owned=owned), rules) == []
    assert found(History(commits=commits, owned=owned)) == [Anomaly.STALE_COMMIT]


# Positions that are kept for a while


@pytest.mark.parametrize(("at", "is_found"), [(KEPT_NS + 8, True), (KEPT_NS + 9, False)])
def test_positions_are_kept_for_their_time_after_the_last_commit(at, is_found) -> None:
    gone = commit(NOTHING_COMMITTED, at, is_fetched=True)
    history = History(commits=[commit(7, 0), commit(9, 10), gone])
    anomalies = found(history, Rules(positions_kept_ns=KEPT_NS))
    assert anomalies == [Anomaly.COMMIT_REGRESSION] * is_found


def test_a_position_that_was_only_fetched_is_not_kept_for_longer() -> None:
    seen = commit(7, 500, is_fetched=True)
    gone = commit(NOTHING_COMMITTED, KEPT_NS + 1, is_fetched=True)
    history = History(commits=[commit(7, 0), seen, gone])
    assert found(history, Rules(positions_kept_ns=KEPT_NS)) == []


def test_what_is_committed_after_a_group_was_forgotten_counts_anew() -> None:
    again = [commit(7, 0), commit(3, KEPT_NS + 5), commit(4, KEPT_NS + 10)]
    rules = Rules(positions_kept_ns=KEPT_NS)
    assert found(History(commits=again), rules) == []
    back = [*again, commit(3, KEPT_NS + 20, is_fetched=True)]
    assert found(History(commits=back), rules) == [Anomaly.COMMIT_REGRESSION]


# What a coordinator tells that was replaced


@pytest.mark.parametrize(("asked_at", "is_found"), [(109, False), (110, False), (111, True)])
def test_a_position_may_be_as_old_as_what_a_replaced_coordinator_tells(asked_at, is_found) -> None:
    fetched = commit(5, asked_at, is_fetched=True)
    history = History(commits=[commit(5, 0), commit(9, 9, end_ns=10), fetched])
    anomalies = found(history, Rules(stale_ns_max=100))
    assert anomalies == [Anomaly.COMMIT_REGRESSION] * is_found


def test_a_commit_is_never_judged_as_if_it_were_asked_for_earlier() -> None:
    history = History(commits=[commit(9, 9, end_ns=10), commit(5, 11)])
    assert found(history, Rules(stale_ns_max=100)) == [Anomaly.COMMIT_REGRESSION]


def test_a_position_that_went_back_on_purpose_is_none_that_a_coordinator_forgot() -> None:
    back = commit(2, 20, is_rewind=True)
    history = History(commits=[commit(9, 9, end_ns=10), back, commit(2, 50, is_fetched=True)])
    assert found(history, Rules(stale_ns_max=30)) == []
    lost = commit(1, 60, is_fetched=True)
    again = history._replace(commits=[*history.commits, lost])
    assert found(again, Rules(stale_ns_max=30)) == [Anomaly.COMMIT_REGRESSION]


# What a group reads


def history_of(*read: tuple[str, int], start: int | None = None) -> History:
    """Three records, what each consumer read of them, and the whole of it read by another."""
    sends = [Send("p", 0, f"v{at}", at, at + 1, Outcome.ACKED, at) for at in range(3)]
    records = [(at, f"v{at}") for at in range(3)]
    polls = [Poll("final", 0, records[start or 0 :], 90, 91, start_offset=start)]
    polls += [
        Poll(name, 0, [records[at]], 10 + n, 11 + n, True) for n, (name, at) in enumerate(read)
    ]
    return History(sends=sends, polls=polls)


READERS = Rules(final_reader="final", readers=[("g", ["a", "b"])])


def test_members_read_everything_between_them() -> None:
    assert found(history_of(("a", 0), ("b", 1), ("a", 2)), READERS) == []


def test_an_acknowledged_record_that_no_member_read_is_found() -> None:
    history = history_of(("a", 0), ("c", 1), ("b", 2))
    assert found(history, READERS) == [Anomaly.GROUP_SKIP]


def test_nothing_is_said_of_groups_that_have_not_come_to_the_end() -> None:
    assert found(history_of(("a", 0)), Rules(final_reader="final")) == []


def test_members_need_not_have_read_what_is_below_the_start_of_the_log() -> None:
    assert found(history_of(("b", 2), start=2), READERS) == []


# What a broker tells that stood still


@pytest.mark.parametrize(
    ("told_by", "at", "is_found"),
    [("b1", 48, True), ("b1", 50, False), ("b1", 71, True), ("b2", 50, True)],
)
def test_a_broker_that_has_just_woken_may_tell_an_old_position(told_by, at, is_found) -> None:
    old = commit(5, at, is_fetched=True, told_by=told_by)
    anomalies = found(History(commits=[commit(7, 10), old]), Rules(woken=[("b1", 50, 70)]))
    assert anomalies == [Anomaly.COMMIT_REGRESSION] * is_found
