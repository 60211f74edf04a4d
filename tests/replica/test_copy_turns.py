"""Sessions that copy at a rate rest in turn, and none is left resting."""

from harness.log_world import World
from penstock.replica.copy_turns import CALL_MS_MAX, CopyTurns
from penstock.replication.copy_pace import CopyPace

RATE = 1_000


class Session:
    """A slave that is out of step; `woken` counts how often it may ask again."""

    def __init__(self) -> None:
        self.is_resting = False
        self.may_wait = True
        self.woken = 0

    def wake(self) -> None:
        self.woken += 1


class Sharing:
    """Two sessions, of which the first has sent what takes a time at the rate."""

    def __init__(self, sent_bytes: int) -> None:
        self.world = World()
        self.pace = CopyPace(RATE, self.world)
        self.turns = CopyTurns(self.pace, self.world)
        self.first, self.second = Session(), Session()
        assert self.turns.may_send(self.first)
        self.pace.sent(sent_bytes)
        assert not self.turns.may_send(self.first)
        assert not self.turns.may_send(self.second)

    @property
    def woken(self) -> tuple[int, int]:
        return self.first.woken, self.second.woken


def test_who_rests_is_woken_when_the_rate_allows_it_and_not_before() -> None:
    sharing = Sharing(2 * RATE)
    sharing.world.advance(1_999)
    assert sharing.woken == (0, 0)
    sharing.world.advance(1)
    assert sharing.woken == (1, 0)
    assert sharing.turns.may_send(sharing.first)


def test_the_one_that_has_rested_longest_is_next() -> None:
    sharing = Sharing(RATE)
    sharing.world.advance(1_000)
    assert sharing.woken == (1, 0)
    sharing.pace.sent(RATE)
    assert not sharing.turns.may_send(sharing.first)
    sharing.world.advance(1_000)
    assert sharing.woken == (1, 1)
    assert sharing.turns.rests == 3


def test_a_higher_rate_and_none_wake_who_rests_by_the_lower_one() -> None:
    for rate in (100 * RATE, 0):
        sharing = Sharing(CALL_MS_MAX)
        sharing.turns.use_rate(rate)
        sharing.world.advance(CALL_MS_MAX // 100 + 10)
        assert sharing.woken == (1, 1), rate
        assert sharing.turns.resting_count == 0


def test_a_session_that_has_ended_takes_nobodys_turn() -> None:
    sharing = Sharing(RATE)
    sharing.turns.leave(sharing.first)
    sharing.world.advance(1_000)
    assert sharing.woken == (0, 1)


def test_who_is_waited_for_by_now_does_not_rest_on() -> None:
    sharing = Sharing(CALL_MS_MAX)
    sharing.second.may_wait = False
    sharing.turns.look()
    assert sharing.woken == (0, 1)
    assert not sharing.second.is_resting
    assert sharing.first.is_resting
