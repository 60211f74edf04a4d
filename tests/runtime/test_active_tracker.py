"""Whom a broker takes for the active controller, word by word."""

from penstock.base.ids import ControllerEpoch, PeerId
from penstock.controller.replicated_log import NO_LEADER
from penstock.runtime.session.active import ActiveTracker
from tests.runtime.session_cluster import on_loop


@on_loop
async def test_who_knows_of_nobody_takes_nothing_back_of_its_own_epoch() -> None:
    # A controller that voted in an epoch, or that has just slept, says that it knows nobody.
    tracker = ActiveTracker()
    tracker.on_heartbeat_answer(PeerId(5), ControllerEpoch(2))
    tracker.on_heartbeat_answer(NO_LEADER, ControllerEpoch(2))
    assert (tracker.active_id, tracker.controller_epoch) == (5, 2)
    tracker.on_heartbeat_answer(NO_LEADER, ControllerEpoch(3))
    assert (tracker.active_id, tracker.controller_epoch) == (NO_LEADER, 3)


@on_loop
async def test_refusal_that_comes_when_another_is_active_changes_nothing() -> None:
    tracker = ActiveTracker()
    tracker.on_heartbeat_answer(PeerId(5), ControllerEpoch(2))
    tracker.on_heartbeat_answer(PeerId(6), ControllerEpoch(3))
    news = tracker.news
    tracker.on_refusal(asked=PeerId(5), named=PeerId(4))
    assert tracker.active_id == 6
    assert not news.done()


@on_loop
async def test_refusal_is_believed_and_nobody_is_asked_that_names_itself() -> None:
    tracker = ActiveTracker()
    tracker.on_heartbeat_answer(PeerId(5), ControllerEpoch(2))
    news = tracker.news
    tracker.on_refusal(asked=PeerId(5), named=PeerId(6))
    assert tracker.active_id == 6
    assert news.done()
    tracker.on_refusal(asked=PeerId(6), named=PeerId(6))
    assert tracker.active_id == NO_LEADER
