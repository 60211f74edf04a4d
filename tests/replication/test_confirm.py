import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.base.ids import Position, ReplicaId
from penstock.base.invariant import InvariantViolation
from penstock.replication.confirm import ConfirmTracker

A, B, C = ReplicaId(1), ReplicaId(2), ReplicaId(3)


def test_confirm_position_of_a_lone_master_is_its_own_durable_end() -> None:
    tracker = ConfirmTracker([A], Position(0))
    assert tracker.acknowledge(A, Position(100))
    assert tracker.position == 100


def test_confirm_position_waits_for_the_slowest_member() -> None:
    tracker = ConfirmTracker([A, B], Position(0))
    assert not tracker.acknowledge(A, Position(100))
    assert tracker.acknowledge(B, Position(40))
    assert tracker.position == 40


def test_a_member_that_is_added_holds_the_confirm_position_and_never_lowers_it() -> None:
    tracker = ConfirmTracker([A], Position(0))
    tracker.acknowledge(A, Position(100))
    assert not tracker.change_members([A, B])
    assert not tracker.acknowledge(A, Position(200))
    assert tracker.position == 100


def test_a_member_that_leaves_lets_the_confirm_position_go_on() -> None:
    tracker = ConfirmTracker([A, B], Position(0))
    tracker.acknowledge(A, Position(100))
    assert tracker.change_members([A])
    assert tracker.position == 100


def test_an_acknowledgement_that_goes_back_is_an_invariant_violation() -> None:
    tracker = ConfirmTracker([A], Position(0))
    tracker.acknowledge(A, Position(100))
    with pytest.raises(InvariantViolation):
        tracker.acknowledge(A, Position(99))


@given(st.lists(st.tuples(st.sampled_from([A, B, C]), st.integers(0, 1000))))
def test_confirm_position_equals_the_running_minimum_of_a_dumb_twin(
    reports: list[tuple[ReplicaId, int]],
) -> None:
    tracker = ConfirmTracker([A, B, C], Position(0))
    durable = {A: 0, B: 0, C: 0}
    for replica, step in reports:
        durable[replica] += step
        tracker.acknowledge(replica, Position(durable[replica]))
        assert tracker.position == min(durable.values())
