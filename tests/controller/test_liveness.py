"""Sessions, silence, and this process's own pauses."""

from penstock.base.ids import BrokerId, ReplicaSetId, SessionId
from penstock.controller.active.liveness import Liveness
from penstock.controller.active.own_pauses import OwnPauses


class Ticking:
    """A controller's timer, with what it does about its own pauses."""

    def __init__(self) -> None:
        self._pauses = OwnPauses(5_000)
        self.liveness = _heard(self._pauses)

    def tick(self, now_ms: int, interval_ms: int) -> None:
        self.liveness.excuse(self._pauses.tick(now_ms, interval_ms), now_ms)


def _silent() -> Liveness:
    return Liveness(5_000, OwnPauses(5_000))


def _heard(pauses: OwnPauses | None = None) -> Liveness:
    liveness = Liveness(5_000, pauses or OwnPauses(5_000))
    liveness.opened(BrokerId(1), SessionId(11), 0)
    assert liveness.heard(BrokerId(1), SessionId(11), "run", 100)
    return liveness


def test_a_broker_lives_for_the_timeout_after_its_last_heartbeat() -> None:
    liveness = _heard()
    assert liveness.is_live(BrokerId(1), 5_100)
    assert not liveness.is_live(BrokerId(1), 5_101)


def test_a_set_is_named_first_once_in_each_session() -> None:
    liveness = _heard()
    session = liveness.heard(BrokerId(1), SessionId(11), "run", 200)
    assert session
    assert not session.names_first([])
    assert session.names_first([ReplicaSetId(3)])
    assert session.names_first([ReplicaSetId(3), ReplicaSetId(4)])
    assert not session.names_first([ReplicaSetId(4)])
    liveness.opened(BrokerId(1), SessionId(12), 200)
    session = liveness.heard(BrokerId(1), SessionId(12), "run", 200)
    assert session
    assert session.names_first([ReplicaSetId(4)])


def test_a_closed_session_counts_at_once() -> None:
    liveness = _heard()
    assert liveness.closed(BrokerId(1), SessionId(11))
    assert not liveness.is_live(BrokerId(1), 101)
    assert not liveness.heard(BrokerId(1), SessionId(11), "run", 102)
    assert not liveness.is_live(BrokerId(1), 103)


def test_what_comes_from_an_older_session_changes_nothing() -> None:
    liveness = _heard()
    liveness.opened(BrokerId(1), SessionId(12), 200)
    assert not liveness.closed(BrokerId(1), SessionId(11))
    assert not liveness.heard(BrokerId(1), SessionId(11), "older", 4_000)
    assert liveness.incarnation(BrokerId(1)) == ""
    assert not liveness.is_live(BrokerId(1), 5_201)


def test_a_broker_never_heard_of_gets_the_timeout_but_can_not_be_asked() -> None:
    liveness = _silent()
    assert not liveness.is_live(BrokerId(7), 0)
    liveness.expect(BrokerId(7), 1_000)
    liveness.expect(BrokerId(7), 3_000)
    assert liveness.is_live(BrokerId(7), 6_000)
    assert not liveness.is_live(BrokerId(7), 6_001)
    assert not liveness.is_connected(BrokerId(7), 1_000)
    assert liveness.heard_ms_ago(BrokerId(7), 2_000) == -1


def test_own_pause_is_nobodys_silence() -> None:
    timer = Ticking()
    liveness = timer.liveness
    timer.tick(100, 500)
    timer.tick(60_100, 500)
    assert liveness.is_live(BrokerId(1), 60_100)
    for now in range(60_600, 66_100, 500):
        timer.tick(now, 500)
    assert not liveness.is_live(BrokerId(1), 66_100)


def test_own_pause_is_nobodys_silence_before_the_tick_that_tells_of_it() -> None:
    # A timer or a call that was due earlier runs first, and may ask who is dead.
    timer = Ticking()
    liveness = timer.liveness
    timer.tick(100, 500)
    assert liveness.is_live(BrokerId(1), 60_099)
    timer.tick(60_100, 500)
    assert liveness.is_live(BrokerId(1), 60_100)


def test_a_silence_from_before_an_own_pause_goes_on_behind_it() -> None:
    # Forgiven whole, a dead broker would stay where the controller pauses now and then.
    timer = Ticking()
    liveness = timer.liveness
    for now in range(100, 4_101, 500):
        timer.tick(now, 500)
    timer.tick(64_100, 500)
    assert liveness.is_live(BrokerId(1), 64_100)
    timer.tick(64_600, 500)
    assert not liveness.is_live(BrokerId(1), 64_600)


def test_a_broker_that_was_heard_behind_an_own_pause_gets_no_more_than_the_timeout() -> None:
    # What waited in the socket is read before the timer that tells of the pause.
    timer = Ticking()
    liveness = timer.liveness
    timer.tick(100, 500)
    assert liveness.heard(BrokerId(1), SessionId(11), "run", 60_099)
    for now in range(60_100, 65_101, 500):
        timer.tick(now, 500)
    assert liveness.is_live(BrokerId(1), 65_100)
    assert not liveness.is_live(BrokerId(1), 65_101)


def test_after_a_long_pause_its_own_word_counts_for_nothing_for_a_timeout() -> None:
    pauses = OwnPauses(1000)
    pauses.tick(0, 50)
    assert not pauses.was_asleep(500), "a short one is no reason"
    assert pauses.was_asleep(501), "before its own clock has ticked again"
    pauses.tick(3000, 50)
    for now_ms in range(3050, 4001, 50):
        pauses.tick(now_ms, 50)
    assert pauses.was_asleep(3999)
    assert not pauses.was_asleep(4000)


def test_a_broker_whose_door_nobody_answers_is_awaited_no_more() -> None:
    liveness = _silent()
    liveness.expect(BrokerId(1), 0)
    assert liveness.is_awaited(BrokerId(1))
    liveness.refused(BrokerId(1))
    assert not liveness.is_awaited(BrokerId(1)), "its door is not knocked at again"
    assert not liveness.is_live(BrokerId(1), 1)
