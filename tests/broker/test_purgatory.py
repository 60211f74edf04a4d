from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.base.invariant import InvariantViolation
from penstock.broker.sets.purgatory import AckQueue
from penstock.replication.errors import NotMaster, ReplicationError


@dataclass
class Parked:
    deadline_ms: int = 1000
    events: list[str] = field(default_factory=list)

    def complete(self) -> None:
        self.events.append("complete")

    def expire(self) -> None:
        self.events.append("expire")

    def fail(self) -> None:
        self.events.append("fail")

    def refuse(self, error: ReplicationError) -> None:
        self.events.append(f"refused: {error}")

    def shrunk(self, in_sync_count: int) -> None:
        self.events.append(f"shrunk to {in_sync_count}")


def test_a_request_is_completed_when_its_end_is_acknowledged_and_not_before() -> None:
    queue, parked = AckQueue(), Parked()
    queue.park(100, parked)
    queue.release(99)
    assert parked.events == []
    queue.release(100)
    assert parked.events == ["complete"]


def test_requests_complete_in_log_order() -> None:
    queue = AckQueue()
    order: list[int] = []

    class Named(Parked):
        def complete(self) -> None:
            order.append(self.deadline_ms)

    for position in (10, 20, 20, 30):
        queue.park(position, Named(deadline_ms=position))
    queue.release(30)
    assert order == [10, 20, 20, 30]


def test_parking_at_an_end_that_is_acknowledged_already_completes_at_once() -> None:
    queue, parked = AckQueue(), Parked()
    queue.release(100)
    queue.park(100, parked)
    assert parked.events == ["complete"]


def test_parking_below_an_earlier_end_is_an_invariant_violation() -> None:
    queue = AckQueue()
    queue.park(100, Parked())
    with pytest.raises(InvariantViolation):
        queue.park(99, Parked())


def test_an_overdue_request_times_out_and_one_in_time_does_not() -> None:
    queue, late, early = AckQueue(), Parked(deadline_ms=500), Parked(deadline_ms=501)
    queue.park(1, late)
    queue.park(2, early)
    assert queue.expire(500) == 1
    assert (late.events, early.events) == (["expire"], [])


def test_a_fenced_log_fails_everything_that_is_parked_once() -> None:
    queue, parked = AckQueue(), Parked()
    queue.park(1, parked)
    queue.fail_all()
    queue.release(1)
    assert parked.events == ["fail"]
    assert len(queue) == 0


def test_the_end_of_a_mastership_refuses_what_is_parked_and_what_comes_until_the_next() -> None:
    queue, parked, late, next_one = AckQueue(), Parked(), Parked(), Parked()
    queue.park(100, parked)
    queue.refuse_all(NotMaster("gone"))
    queue.park(100, late)
    assert parked.events == late.events == ["refused: gone"]
    queue.open(40)
    queue.park(60, next_one)
    assert next_one.events == [], "positions may have gone back"
    queue.release(60)
    assert next_one.events == ["complete"]


def test_what_is_parked_hears_of_a_set_that_shrinks() -> None:
    queue, parked = AckQueue(), Parked()
    queue.park(100, parked)
    queue.shrunk(1)
    queue.release(100)
    assert parked.events == ["shrunk to 1", "complete"]


@given(st.lists(st.integers(0, 50)), st.lists(st.integers(0, 2000)))
def test_release_completes_exactly_what_a_scan_would(steps: list[int], marks: list[int]) -> None:
    queue, parked, position = AckQueue(), [], 0
    for step in steps:
        position += step
        parked.append((position, Parked()))
        queue.park(*parked[-1])
    reached = 0
    for mark in marks:
        reached = max(reached, mark)
        queue.release(reached)
        for end, waiting in parked:
            assert waiting.events == (["complete"] if end <= reached else [])
