"""Who is in step, where members come back or come in the place of others."""

from penstock.base import ids
from penstock.base.ack_policy import AckPolicy, PolicyKind
from tests.replication.test_sync_state import A, B, C, D, Set


def test_adaptive_asks_for_no_member_in_the_place_of_another_while_too_few_hold_all() -> None:
    # Three copies confirmed 500: A, D and maybe B, which has yet to say what it holds. Of {A, B, C}
    # one answer would be enough for an election, and B could be chosen.
    three = AckPolicy(kind=PolicyKind.ADAPTIVE, required=3, minimum=1)
    sets = Set(A, B, D, policy=three, replicas=(A, B, C, D))
    sets.connect(B, C, D)
    sets.keeper.greeted(B)
    sets.keeper.disconnected(D, sets.now)
    assert sets.next(100) == (A, C)


def test_a_slave_that_connects_again_has_not_caught_up_by_that() -> None:
    sets = Set()
    sets.connect(B, C)
    sets.end, sets.now = 900, 600
    sets.keeper.acknowledged(C, ids.Position(900), ids.Position(900), sets.now)
    sets.keeper.disconnected(B, sets.now)
    sets.connect(B, position=500)
    assert sets.next(399) is None
    assert sets.next(1) == (A, C)
