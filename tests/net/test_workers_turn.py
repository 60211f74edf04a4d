"""A busy loop lets go of the interpreter's lock for worker threads that have work."""

import asyncio
import threading

import pytest

from penstock.net import workers_turn
from penstock.net.workers_turn import WORKERS_TURN, WorkersTurn
from penstock.runtime.io.disk import ThreadOffload


class Clock:
    """Time that only sleeping, or who asks for it, lets pass."""

    def __init__(self) -> None:
        self.now = 100.0
        self.slept = 0

    def perf_counter(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.slept += 1
        self.now += seconds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(workers_turn, "time", made)
    return made


def test_it_pauses_once_in_a_while_as_long_as_a_thread_has_work(clock: Clock) -> None:
    turn, work = WorkersTurn(), [True]
    turn.watched += [lambda: False, lambda: work[0]]
    for _ in range(5):
        turn.come()
    assert clock.slept == 1
    clock.now += workers_turn.BUSY_SECONDS
    turn.come()
    assert clock.slept == 2
    work[0] = False
    clock.now += workers_turn.BUSY_SECONDS
    turn.come()
    assert clock.slept == 2


def test_threads_say_whether_they_have_work_until_they_are_closed() -> None:
    loop, released = asyncio.new_event_loop(), threading.Event()
    before = len(WORKERS_TURN.watched)
    offload = ThreadOffload(loop, name="watched", threads=1)
    assert len(WORKERS_TURN.watched) == before + 1
    for _ in range(2):
        offload.submit(released.wait, lambda *_: None)
    assert offload.is_busy()
    released.set()
    offload.close()
    loop.close()
    assert len(WORKERS_TURN.watched) == before
    assert not offload.is_busy()
