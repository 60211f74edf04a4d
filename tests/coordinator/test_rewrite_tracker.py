"""When a partition of the internal topic is due for a rewrite."""

from penstock.coordinator.rewrites import FRUITLESS_MAX, RewriteTracker


def due_after(tracker: RewriteTracker) -> int:
    """Ask until partition 0 is due; returns how often it was not."""
    asked = 0
    while not tracker.due():
        asked += 1
    return asked


def test_a_partition_is_due_when_it_has_grown_by_the_threshold() -> None:
    tracker = RewriteTracker(100)
    tracker.appended(0, 99)
    assert tracker.due() == ()
    tracker.appended(0, 1)
    assert tracker.due() == (0,)


def test_a_large_partition_is_due_when_it_has_doubled() -> None:
    tracker = RewriteTracker(100)
    tracker.rewritten(0, 1_000)
    tracker.appended(0, 999)
    assert tracker.due() == ()
    tracker.appended(0, 1)
    assert (tracker.due(), tracker.live_bytes(0)) == ((0,), 2_000)


def test_a_partition_that_has_become_small_is_due_as_a_small_one() -> None:
    tracker = RewriteTracker(100)
    tracker.rewritten(0, 1_000)
    tracker.appended(0, 1_000)
    tracker.rewritten(0, 10)
    assert (tracker.due(), tracker.live_bytes(0)) == ((), 10)
    tracker.appended(0, 100)
    assert (tracker.due(), tracker.live_bytes(0)) == ((0,), 110)


def test_a_rewrite_that_cuts_nothing_off_is_tried_again_ever_more_rarely() -> None:
    tracker = RewriteTracker(100)
    tracker.appended(0, 100)
    waits = []
    for _ in range(FRUITLESS_MAX + 3):
        waits.append(due_after(tracker))
        tracker.failed(0)
    assert waits == [0, 1, 2, 4, 8, 16, 32, 64, 64]


def test_a_rewrite_that_cuts_begins_the_waits_anew() -> None:
    tracker = RewriteTracker(100)
    tracker.appended(0, 100)
    for _ in range(3):
        tracker.failed(0)
    tracker.rewritten(0, 10)
    tracker.appended(0, 100)
    assert due_after(tracker) == 0
    tracker.failed(0)
    assert due_after(tracker) == 1


def test_what_is_given_up_leaves_nothing_behind() -> None:
    tracker = RewriteTracker(100)
    tracker.rewritten(0, 1_000)
    tracker.appended(0, 100)
    tracker.failed(0)
    tracker.hold(0)
    tracker.forget(0)
    assert (tracker.held, tracker.live_bytes(0), tracker.due()) == ((), 0, ())
    tracker.appended(0, 100)
    assert tracker.due() == (0,)
