from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.base.ids import Position
from penstock.base.invariant import InvariantViolation
from penstock.replica.purgatory import SLICE, AckQueue
from penstock.replication.errors import NotMaster, ReplicationError


class Turns:
    """Turns of a loop: what was asked to be called later, and when to call it."""

    def __init__(self) -> None:
        self._due: deque[Callable[[], None]] = deque()

    def __call__(self, callback: Callable[[], None]) -> None:
        self._due.append(callback)

    def pass_one(self) -> bool:
        """Return whether anything was due in this one."""
        due = [self._due.popleft() for _ in range(len(self._due))]
        for callback in due:
            callback()
        return bool(due)


@dataclass
class Parked:
    deadline_ms: int = 1000
    events: list[str] = field(default_factory=list)
    is_staying: bool = False

    def complete(self) -> None:
        self.events.append("complete")

    def expire(self) -> bool:
        self.events.append("expire")
        return self.is_staying

    def fail(self) -> None:
        self.events.append("fail")

    def refuse(self, error: ReplicationError) -> None:
        self.events.append(f"refused: {error}")

    def shrunk(self, in_sync_count: int) -> None:
        self.events.append(f"shrunk to {in_sync_count}")


def test_a_request_is_completed_when_its_end_is_acknowledged_and_not_before() -> None:
    queue, parked = AckQueue(Turns()), Parked()
    queue.park(Position(100), parked)
    queue.release(Position(99))
    assert parked.events == []
    queue.release(Position(100))
    assert parked.events == ["complete"]


def test_requests_complete_in_log_order() -> None:
    queue = AckQueue(Turns())
    order: list[int] = []

    class Named(Parked):
        def complete(self) -> None:
            order.append(self.deadline_ms)

    for position in (10, 20, 20, 30):
        queue.park(Position(position), Named(deadline_ms=position))
    queue.release(Position(30))
    assert order == [10, 20, 20, 30]


def test_parking_at_an_end_that_is_acknowledged_already_completes_at_once() -> None:
    queue, parked = AckQueue(Turns()), Parked()
    queue.release(Position(100))
    queue.park(Position(100), parked)
    assert parked.events == ["complete"]


def test_parking_below_an_earlier_end_is_an_invariant_violation() -> None:
    queue = AckQueue(Turns())
    queue.park(Position(100), Parked())
    with pytest.raises(InvariantViolation):
        queue.park(Position(99), Parked())


def test_an_overdue_request_times_out_and_one_in_time_does_not() -> None:
    queue, late, early = AckQueue(Turns()), Parked(deadline_ms=500), Parked(deadline_ms=501)
    queue.park(Position(1), late)
    queue.park(Position(2), early)
    assert queue.expire(500) == 1
    assert (late.events, early.events) == (["expire"], [])


def test_what_has_timed_out_leaves_the_queue_though_the_log_stands_still() -> None:
    queue, late, early = AckQueue(Turns()), Parked(deadline_ms=500), Parked(deadline_ms=501)
    queue.park(Position(1), late)
    queue.park(Position(2), early)
    queue.expire(500)
    assert (len(queue), queue.is_awaiting) == (1, True)
    assert queue.expire(500) == 0, "a time-out is counted once"
    queue.shrunk(1)
    queue.release(Position(2))
    assert (late.events, early.events) == (["expire"], ["shrunk to 1", "complete"])
    late, next_one = Parked(deadline_ms=600), Parked(deadline_ms=700)
    queue.park(Position(3), late)
    queue.expire(600)
    assert not queue.is_awaiting
    queue.park(Position(3), next_one)
    queue.release(Position(3))
    assert (late.events, next_one.events) == (["expire"], ["complete"])


def test_a_write_that_still_counts_stays_after_its_deadline() -> None:
    queue, write = AckQueue(Turns()), Parked(deadline_ms=500, is_staying=True)
    queue.park(Position(1), write)
    assert queue.expire(500) == 0
    queue.release(Position(1))
    assert write.events == ["expire", "complete"]


def test_a_time_out_leaves_what_waits_for_its_slice() -> None:
    queue, turns, parked = _parked_and_released(SLICE + 2)
    late = Parked(deadline_ms=1000)
    queue.park(Position(SLICE + 3), late)
    assert queue.expire(2000) == 1
    turns.pass_one()
    assert (_completed(parked), late.events) == (SLICE + 2, ["expire"])


def test_a_repeat_of_what_is_acknowledged_succeeds_though_the_log_has_just_been_fenced() -> None:
    queue, _, parked = _parked_and_released(SLICE + 1)
    repeat = Parked()
    queue.fail_all()
    queue.park(Position(len(parked)), repeat)
    assert repeat.events == ["complete"]


def test_a_fenced_log_fails_everything_that_is_parked_once() -> None:
    queue, parked = AckQueue(Turns()), Parked()
    queue.park(Position(1), parked)
    queue.fail_all()
    queue.release(Position(1))
    assert parked.events == ["fail"]
    assert len(queue) == 0


def test_the_end_of_a_mastership_refuses_what_is_parked_and_what_comes_until_the_next() -> None:
    queue, parked, late, next_one = AckQueue(Turns()), Parked(), Parked(), Parked()
    queue.park(Position(100), parked)
    queue.refuse_all(NotMaster("gone"))
    queue.park(Position(100), late)
    assert parked.events == late.events == ["refused: gone"]
    queue.open(Position(40))
    queue.park(Position(60), next_one)
    assert next_one.events == [], "positions may have gone back"
    queue.release(Position(60))
    assert next_one.events == ["complete"]


def test_what_is_parked_hears_of_a_set_that_shrinks() -> None:
    queue, parked = AckQueue(Turns()), Parked()
    queue.park(Position(100), parked)
    queue.shrunk(1)
    queue.release(Position(100))
    assert parked.events == ["shrunk to 1", "complete"]


def _parked_and_released(count: int) -> tuple[AckQueue, Turns, list[Parked]]:
    turns = Turns()
    queue, parked = AckQueue(turns), [Parked() for _ in range(count)]
    for end, one in enumerate(parked, 1):
        queue.park(Position(end), one)
    queue.release(Position(count))
    return queue, turns, parked


def _completed(parked: list[Parked]) -> int:
    events = [one.events for one in parked]
    count = events.count(["complete"])
    assert events == [["complete"]] * count + [[]] * (len(parked) - count), "not in order"
    return count


def test_what_one_sync_acknowledges_is_answered_a_slice_in_a_turn() -> None:
    queue, turns, parked = _parked_and_released(2 * SLICE + 7)
    assert _completed(parked) == SLICE
    assert not queue.is_awaiting, "all of it is acknowledged, though not all of it is answered"
    queue.release(Position(len(parked) + 100))
    assert _completed(parked) == SLICE, "a later position begins no turn of its own"
    assert turns.pass_one()
    assert _completed(parked) == 2 * SLICE
    assert turns.pass_one()
    assert _completed(parked) == len(parked)
    assert not turns.pass_one()


def test_what_is_appended_later_is_not_answered_before_what_waits_for_its_slice() -> None:
    queue, turns, parked = _parked_and_released(SLICE + 1)
    later = Parked()
    queue.release(Position(SLICE + 9))
    queue.park(Position(SLICE + 9), later)
    assert later.events == []
    turns.pass_one()
    assert _completed([*parked, later]) == SLICE + 2


def test_nothing_takes_an_acknowledgement_back_that_waits_for_its_slice() -> None:
    queue, turns, parked = _parked_and_released(SLICE + 2)
    awaiting = Parked(deadline_ms=5000)
    queue.park(Position(SLICE + 3), awaiting)
    assert queue.is_awaiting
    assert queue.expire(2000) == 0
    queue.shrunk(1)
    assert awaiting.events == ["shrunk to 1"]
    queue.refuse_all(NotMaster("gone"))
    assert _completed(parked) == SLICE + 2
    assert awaiting.events == ["shrunk to 1", "refused: gone"]
    queue.open(Position(0))
    next_one = Parked()
    queue.park(Position(1), next_one)
    turns.pass_one()
    assert next_one.events == [], "a turn of the mastership before"


def test_a_fenced_log_answers_what_was_acknowledged_before() -> None:
    queue, _, parked = _parked_and_released(SLICE + 2)
    awaiting = Parked()
    queue.park(Position(SLICE + 3), awaiting)
    queue.fail_all()
    assert _completed(parked) == SLICE + 2
    assert awaiting.events == ["fail"]


@given(st.lists(st.integers(0, 50)), st.lists(st.integers(0, 2000)))
def test_release_completes_exactly_what_a_scan_would(steps: list[int], marks: list[int]) -> None:
    queue, parked, position = AckQueue(Turns()), [], Position(0)
    for step in steps:
        position = Position(position + step)
        parked.append((position, Parked()))
        queue.park(*parked[-1])
    reached = 0
    for mark in marks:
        reached = max(reached, mark)
        queue.release(Position(reached))
        for end, waiting in parked:
            assert waiting.events == (["complete"] if end <= reached else [])


def test_a_repeat_of_what_waits_for_its_slice_is_answered_behind_it() -> None:
    queue, turns, parked = _parked_and_released(SLICE + 1)
    repeat = Parked()
    queue.park(Position(SLICE + 1), repeat)
    assert repeat.events == []
    turns.pass_one()
    assert _completed([*parked, repeat]) == SLICE + 2
