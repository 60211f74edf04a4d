"""Planted examples of two masters, of a set without its master, of replicas that differ."""

from typing import Any

import pytest

from simulator.history import (
    NO_MASTER,
    Anomaly,
    History,
    MastershipSeen,
    ReplicaEntry,
    ReplicaLog,
    judge,
)


def seen(
    master: int, epoch: int, members: tuple[int, ...] | None = None, observer: str = "broker 1"
) -> MastershipSeen:
    return MastershipSeen(observer, "set-0", epoch, master, 0, members)


def found(history: History) -> list[Anomaly]:
    return [finding.anomaly for finding in judge(history).findings]


def test_two_masters_of_one_epoch_are_found_once() -> None:
    masterships = [seen(1, 4), seen(2, 4, observer="broker 2"), seen(2, 4, observer="broker 3")]
    assert found(History(masterships=masterships)) == [Anomaly.TWO_MASTERS]


def test_a_master_for_each_epoch_is_right() -> None:
    masterships = [seen(1, 4, (1, 2)), seen(NO_MASTER, 4, (1, 2)), seen(2, 5, (2,)), seen(1, 4)]
    assert found(History(masterships=masterships)) == []


def test_a_sync_state_set_without_its_master_is_found() -> None:
    assert found(History(masterships=[seen(1, 4, (2, 3))])) == [Anomaly.MASTER_NOT_IN_SYNC]


def log(replica: int, *entries: tuple[int, int], confirm: int, **more: Any) -> ReplicaLog:
    """Entries are (leader epoch, digest), ten positions each."""
    made = [
        ReplicaEntry(at * 10, at * 10 + 10, epoch, digest)
        for at, (epoch, digest) in enumerate(entries)
    ]
    return ReplicaLog(replica, "set-0", made, confirm)._replace(**more)


SAME = ((1, 7), (1, 8), (2, 9))


@pytest.mark.parametrize(
    "other",
    [
        ((1, 7), (1, 5), (2, 9)),  # other bytes
        ((1, 7), (2, 8), (2, 9)),  # the same bytes of another epoch
        ((1, 7), (1, 8)),  # it ends before what is confirmed
    ],
)
def test_members_that_differ_below_what_is_confirmed_diverge(
    other: tuple[tuple[int, int], ...],
) -> None:
    replicas = [log(1, *SAME, confirm=30), log(2, *other, confirm=20)]
    assert found(History(replicas=replicas)) == [Anomaly.EPOCH_DIVERGENCE]


def test_members_may_differ_above_what_is_confirmed() -> None:
    replicas = [log(1, *SAME, confirm=20), log(2, (1, 7), (1, 8), (3, 1), confirm=10)]
    assert found(History(replicas=replicas)) == []


def test_who_is_not_in_the_sync_state_set_may_hold_anything() -> None:
    replicas = [log(1, *SAME, confirm=30), log(2, (1, 5), confirm=0, is_in_sync=False)]
    assert found(History(replicas=replicas)) == []


def test_what_one_member_has_deleted_is_not_compared() -> None:
    cut = log(2, *SAME, confirm=30, start_position=10)
    cut = cut._replace(entries=cut.entries[1:])
    assert found(History(replicas=[log(1, *SAME, confirm=30), cut])) == []
