"""A promise ends by word of whoever may, never by itself."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.base.ids import ControllerEpoch, LeaderEpoch, RequestId
from penstock.replication.promise import Asker, Promise

ASKER = Asker(ControllerEpoch(5), RequestId(10))


@pytest.fixture
def promised() -> Promise:
    promise = Promise()
    promise.make(LeaderEpoch(3), ASKER)
    return promise


def test_nothing_is_held_before_anybody_asks() -> None:
    assert not Promise().holds(LeaderEpoch(0))
    assert Promise().asker is None


def test_a_promise_holds_the_mastership_asked_about_and_older_ones(promised: Promise) -> None:
    assert promised.asker == ASKER
    assert promised.holds(LeaderEpoch(3))
    assert promised.holds(LeaderEpoch(2))
    assert not promised.holds(LeaderEpoch(4))


@pytest.mark.parametrize(
    "asker",
    [ASKER, Asker(ControllerEpoch(5), RequestId(11)), Asker(ControllerEpoch(6), RequestId(1))],
)
def test_the_same_or_a_newer_asker_releases(promised: Promise, asker: Asker) -> None:
    assert promised.release(LeaderEpoch(3), asker)
    assert promised.asker is None
    assert not promised.holds(LeaderEpoch(3))


@pytest.mark.parametrize(
    "asker", [Asker(ControllerEpoch(5), RequestId(9)), Asker(ControllerEpoch(4), RequestId(99))]
)
def test_an_older_asker_does_not_release(promised: Promise, asker: Asker) -> None:
    assert not promised.release(LeaderEpoch(3), asker)
    assert promised.holds(LeaderEpoch(3))


def test_a_release_does_not_bring_back_masterships_that_are_over(promised: Promise) -> None:
    promised.release(LeaderEpoch(3), ASKER)
    assert promised.holds(LeaderEpoch(2))


def test_a_release_that_names_a_newer_mastership_ends_the_older_for_good(promised: Promise) -> None:
    assert promised.release(LeaderEpoch(4), Asker(ControllerEpoch(6), RequestId(1)))
    assert promised.holds(LeaderEpoch(3))
    assert not promised.holds(LeaderEpoch(4))


def test_a_late_release_of_an_older_mastership_changes_nothing(promised: Promise) -> None:
    promised.make(LeaderEpoch(4), Asker(ControllerEpoch(5), RequestId(12)))
    assert not promised.release(LeaderEpoch(3), Asker(ControllerEpoch(5), RequestId(12)))
    assert promised.holds(LeaderEpoch(4))


def test_a_question_about_a_mastership_that_is_over_promises_nothing_new(
    promised: Promise,
) -> None:
    promised.release(LeaderEpoch(4), ASKER)
    promised.make(LeaderEpoch(3), Asker(ControllerEpoch(5), RequestId(11)))
    assert promised.asker is None
    assert not promised.holds(LeaderEpoch(4))


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 4), st.integers(0, 4))))
def test_a_mastership_that_was_over_once_stays_so(words: list[tuple[bool, int, int]]) -> None:
    promise, newest = Promise(), -1
    for is_question, leader_epoch, term in words:
        tell = promise.make if is_question else promise.release
        tell(LeaderEpoch(leader_epoch), Asker(ControllerEpoch(term), RequestId(0)))
        if is_question:
            newest = max(newest, leader_epoch)
        assert all(promise.holds(LeaderEpoch(older)) for older in range(newest))


def test_an_older_asker_does_not_take_a_promise_over(promised: Promise) -> None:
    older = Asker(ControllerEpoch(4), RequestId(99))
    promised.make(LeaderEpoch(3), older)
    assert promised.asker == ASKER
    assert not promised.release(LeaderEpoch(3), older)
    assert promised.holds(LeaderEpoch(3))


def test_a_promise_that_ended_is_made_again_for_the_same_mastership(promised: Promise) -> None:
    assert promised.release(LeaderEpoch(3), ASKER)
    later = Asker(ControllerEpoch(6), RequestId(1))
    promised.make(LeaderEpoch(3), later)
    assert promised.holds(LeaderEpoch(3))
    assert promised.asker == later
