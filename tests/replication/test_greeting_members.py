"""What is known of a member between its hello and its beginning to follow: nothing that counts."""

from tests.replication.test_sync_state import ADAPTIVE, A, B, C, Set


def test_adaptive_does_not_count_what_a_member_held_before_it_greeted_anew() -> None:
    # C may be copying the log again, or has lost its end with the power. Without B, an election
    # among {A, C} asks one member: C could be chosen with whatever it holds by then.
    sets = Set(A, B, C, policy=ADAPTIVE)
    sets.connect(B, C)
    sets.keeper.disconnected(C, sets.now + 60)
    sets.keeper.greeted(C)
    sets.keeper.disconnected(B, sets.now)
    assert sets.next(100) == (A,)


def test_a_member_that_greets_keeps_its_place_for_as_long_as_its_grace_lasts() -> None:
    sets = Set(A, B, C)
    sets.connect(B, C)
    sets.keeper.disconnected(C, sets.now)
    sets.keeper.greeted(C)
    assert sets.next(90) is None
    assert sets.next(10) == (A, B)
