import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.ids import as_epochs
from penstock.base.ids import LeaderEpoch, Position
from penstock.base.invariant import InvariantViolation
from penstock.replication.epochs import EpochHistory


def end_of(history: EpochHistory, leader_epoch: int, log_end: int = 2000) -> tuple[int, int] | None:
    return history.end_of(LeaderEpoch(leader_epoch), Position(log_end))


def test_an_epoch_ends_where_the_next_one_starts() -> None:
    assert end_of(EpochHistory(as_epochs((3, 0), (4, 900))), 3) == (3, 900)


def test_the_newest_epoch_ends_at_the_log_end() -> None:
    assert end_of(EpochHistory(as_epochs((3, 0), (4, 900))), 4) == (4, 2000)


def test_an_unknown_epoch_is_answered_with_the_largest_one_below() -> None:
    # KIP-279: two fast failovers leave an epoch that this log never saw.
    assert end_of(EpochHistory(as_epochs((3, 0), (6, 900))), 5) == (3, 900)


def test_an_epoch_above_or_below_everything_recorded_is_not_answered() -> None:
    history = EpochHistory(as_epochs((3, 0), (6, 900)))
    assert end_of(history, 7) is None
    assert end_of(history, 2) is None
    assert end_of(EpochHistory(), 0) is None


def test_an_epoch_without_writes_is_recorded_and_empty() -> None:
    # KAFKA-10706: back-to-back elections without data.
    history = EpochHistory(as_epochs((5, 1400), (6, 1400)))
    assert end_of(history, 5) == (5, 1400)
    assert history.latest == 6


def test_an_epoch_that_goes_back_is_an_invariant_violation() -> None:
    with pytest.raises(InvariantViolation):
        EpochHistory(as_epochs((5, 0), (5, 10)))


@given(st.sets(st.integers(0, 30), min_size=1), st.integers(0, 31))
def test_end_of_agrees_with_a_linear_search(epochs: set[int], asked: int) -> None:
    entries = [(epoch, epoch * 10) for epoch in sorted(epochs)]
    below = [epoch for epoch in sorted(epochs) if epoch <= asked]
    above = [epoch for epoch in sorted(epochs) if epoch > asked]
    expected = None
    if below and asked <= max(epochs):
        expected = (below[-1], above[0] * 10 if above else 2000)
    assert end_of(EpochHistory(as_epochs(*entries)), asked) == expected
