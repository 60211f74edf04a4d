"""Sessions, silence, and this process's own pauses."""

from penstock.base.ids import BrokerId
from penstock.controller.active.liveness import Liveness


def _heard() -> Liveness:
    liveness = Liveness(5_000)
    liveness.opened(BrokerId(1), 11, 0)
    assert liveness.heard(BrokerId(1), 11, "run", 100)
    return liveness


def test_a_broker_lives_for_the_timeout_after_its_last_heartbeat() -> None:
    liveness = _heard()
    assert liveness.is_live(BrokerId(1), 5_100)
    assert not liveness.is_live(BrokerId(1), 5_101)


def test_a_set_is_named_first_once_in_each_session() -> None:
    liveness = _heard()
    assert not liveness.names_first(BrokerId(1), [])
    assert liveness.names_first(BrokerId(1), [3])
    assert liveness.names_first(BrokerId(1), [3, 4])
    assert not liveness.names_first(BrokerId(1), [4])
    liveness.opened(BrokerId(1), 12, 200)
    assert liveness.names_first(BrokerId(1), [4])


def test_a_closed_session_counts_at_once() -> None:
    liveness = _heard()
    assert liveness.closed(BrokerId(1), 11)
    assert not liveness.is_live(BrokerId(1), 101)
    assert not liveness.heard(BrokerId(1), 11, "run", 102)
    assert not liveness.is_live(BrokerId(1), 103)


def test_what_comes_from_an_older_session_changes_nothing() -> None:
    liveness = _heard()
    liveness.opened(BrokerId(1), 12, 200)
    assert not liveness.closed(BrokerId(1), 11)
    assert not liveness.heard(BrokerId(1), 11, "older", 4_000)
    assert liveness.incarnation(BrokerId(1)) == ""
    assert not liveness.is_live(BrokerId(1), 5_201)


def test_a_broker_never_heard_of_gets_the_timeout_but_can_not_be_asked() -> None:
    liveness = Liveness(5_000)
    assert not liveness.is_live(BrokerId(7), 0)
    liveness.expect(BrokerId(7), 1_000)
    liveness.expect(BrokerId(7), 3_000)
    assert liveness.is_live(BrokerId(7), 6_000)
    assert not liveness.is_live(BrokerId(7), 6_001)
    assert not liveness.is_connected(BrokerId(7), 1_000)
    assert liveness.heard_ms_ago(BrokerId(7), 2_000) == -1


def test_own_pause_is_nobodys_silence() -> None:
    liveness = _heard()
    liveness.tick(100, 500)
    liveness.tick(60_100, 500)
    assert liveness.is_live(BrokerId(1), 60_100)
    for now in range(60_600, 66_100, 500):
        liveness.tick(now, 500)
    assert not liveness.is_live(BrokerId(1), 66_100)


def test_a_silence_from_before_an_own_pause_goes_on_behind_it() -> None:
    # Forgiven whole, a dead broker would stay where the controller pauses now and then.
    liveness = _heard()
    for now in range(100, 4_101, 500):
        liveness.tick(now, 500)
    liveness.tick(64_100, 500)
    assert liveness.is_live(BrokerId(1), 64_100)
    liveness.tick(64_600, 500)
    assert not liveness.is_live(BrokerId(1), 64_600)


def test_a_broker_that_was_heard_behind_an_own_pause_gets_no_more_than_the_timeout() -> None:
    # What waited in the socket is read before the timer that tells of the pause.
    liveness = _heard()
    liveness.tick(100, 500)
    assert liveness.heard(BrokerId(1), 11, "run", 60_099)
    for now in range(60_100, 65_101, 500):
        liveness.tick(now, 500)
    assert liveness.is_live(BrokerId(1), 65_100)
    assert not liveness.is_live(BrokerId(1), 65_101)


def test_after_a_long_pause_its_own_word_counts_for_nothing_for_a_timeout() -> None:
    liveness = Liveness(1000)
    liveness.tick(0, 50)
    assert not liveness.was_asleep(500), "a short one is no reason"
    assert liveness.was_asleep(501), "before its own clock has ticked again"
    liveness.tick(3000, 50)
    for now_ms in range(3050, 4001, 50):
        liveness.tick(now_ms, 50)
    assert liveness.was_asleep(3999)
    assert not liveness.was_asleep(4000)


def test_a_broker_whose_door_nobody_answers_is_awaited_no_more() -> None:
    liveness = Liveness(5_000)
    liveness.expect(BrokerId(1), 0)
    assert liveness.is_awaited(BrokerId(1))
    liveness.refused(BrokerId(1))
    assert not liveness.is_awaited(BrokerId(1)), "its door is not knocked at again"
    assert not liveness.is_live(BrokerId(1), 1)
