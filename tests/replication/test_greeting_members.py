"""What counts of a member that was away, and of what was confirmed before this mastership."""

from penstock.base.ids import BrokerId, Position
from tests.replication.test_sync_state import ADAPTIVE, A, B, C, Set


def test_adaptive_does_not_count_what_a_member_held_before_it_greeted_anew() -> None:
    # C may be copying the log again, or has lost its end with the power. Without B, an election
    # among {A, C} asks one member: C could be chosen with whatever it holds by then.
    sets = Set(A, B, C, policy=ADAPTIVE)
    sets.connect(B, C)
    sets.keeper.disconnected(BrokerId(C), sets.now + 60)
    sets.keeper.greeted(BrokerId(C))
    sets.keeper.disconnected(BrokerId(B), sets.now)
    assert sets.next(100) == (A,)


def test_a_member_that_greets_keeps_its_place_for_as_long_as_its_grace_lasts() -> None:
    sets = Set(A, B, C)
    sets.connect(B, C)
    sets.keeper.disconnected(BrokerId(C), sets.now)
    sets.keeper.greeted(BrokerId(C))
    assert sets.next(90) is None
    assert sets.next(10) == (A, B)


def test_adaptive_counts_copies_of_what_an_earlier_master_has_confirmed() -> None:
    # The epoch starts at 500, and only 300 are known to be confirmed: an earlier master may have
    # confirmed the rest with A and B. Among {A, C} one answer would elect C.
    sets = Set(A, B, C, policy=ADAPTIVE)
    sets.epoch_start, sets.confirm, sets.end = 500, 300, 600
    sets.connect(B, position=600)
    sets.connect(C, position=400)
    sets.keeper.disconnected(BrokerId(B), sets.now)
    assert sets.next(100) == (A,)


def test_a_slave_that_comes_back_is_not_caught_up_by_having_what_there_was_before() -> None:
    sets = Set(A, B, replicas=(A, B))
    sets.connect(B)
    assert sets.next() is None
    sets.keeper.disconnected(BrokerId(B), sets.now)
    sets.end = 900
    assert sets.next(90) is None
    sets.connect(B)
    assert sets.next(909) is None
    assert sets.next(1) == (A,)


def test_a_slave_that_comes_back_was_caught_up_at_its_handshake_once_it_has_what_there_was() -> (
    None
):
    sets = Set(A, B, replicas=(A, B))
    sets.connect(B)
    sets.keeper.disconnected(BrokerId(B), sets.now)
    sets.now, sets.end = 60, 600
    sets.connect(B)
    sets.now, sets.end = 960, 700
    sets.keeper.acknowledged(BrokerId(B), Position(600), Position(sets.end), sets.now)
    sets.confirm = 600
    assert sets.next(99) is None
    assert sets.next(1) == (A,)
