"""Who is in step: at bounds, and behind answers and recorded changes."""

from dataclasses import replace

from penstock.base import ids
from penstock.base.ack_policy import AckPolicy, PolicyKind
from penstock.replication.sync_state import Outcome
from tests.replication.test_sync_state import CONFIG, A, B, C, Set


def test_the_grace_of_a_lost_connection_begins_with_its_loss() -> None:
    sets = Set()
    sets.connect(B, C)
    assert sets.next(600) is None
    sets.keeper.disconnected(C, sets.now)
    assert sets.next(99) is None
    assert sets.next(1) == (A, B)


def test_what_a_slave_acknowledges_counts_from_that_moment() -> None:
    """The master writes on before anybody is judged."""
    sets = Set(A, B, replicas=(A, B))
    sets.connect(B, position=400)
    sets.now = 900
    sets.keeper.acknowledged(B, ids.Position(500), ids.Position(500), sets.now)
    sets.end = 600
    assert sets.next(999) is None
    assert sets.next(1) == (A,)


def test_a_member_that_comes_back_with_nothing_leaves() -> None:
    sets = Set()
    sets.connect(B, position=0)
    sets.connect(C)
    assert sets.next() == (A, C)


def test_a_member_that_comes_back_with_nothing_lags_by_the_whole_log() -> None:
    quorum = AckPolicy(kind=PolicyKind.QUORUM)
    config = replace(CONFIG, replica_lag_bytes=499)
    sets = Set(policy=quorum, config=config)
    sets.connect(B, position=0)
    sets.connect(C, position=1)
    assert sets.next() == (A, C)


def test_a_change_that_was_recorded_is_not_asked_for_again_before_the_image_shows_it() -> None:
    sets = Set(A, B)
    sets.connect(B)
    for position, in_step in ((500, (A, B, C)), (0, (A, B)), (500, (A, B, C))):
        sets.connect(C, position=position)
        assert sets.next() == in_step
        sets.answer(Outcome.RECORDED)
        assert sets.next() is None
        sets.record(*in_step)
        assert sets.next() is None


def test_what_is_wanted_after_a_recorded_change_is_asked_for() -> None:
    sets = Set(A, B)
    sets.connect(B, C)
    assert sets.next() == (A, B, C)
    sets.answer(Outcome.RECORDED)
    sets.record(A, B, C)
    sets.keeper.disconnected(C, sets.now)
    assert sets.next(100) == (A, B)
