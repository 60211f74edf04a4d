"""A moment for worker threads, while the loop has much to do.

    loop busy, a sync done ─► its worker waits for the interpreter's lock ─► nobody is acknowledged

A thread gets the lock from one that computes only by asking for it, after an interval without any
switch between threads; each system call of the loop that lets go of the lock for a moment may begin
that interval anew. So a worker that has written and synced may wait for a second. A loop that has
just worked for half a millisecond sleeps for some microseconds: whoever waits has the lock then.

Source: CPython's ceval_gil.c (take_gil); measured with benchmarks of attacks, ADR 0048.
"""

import time
from collections.abc import Callable

PAUSE_SECONDS = 0.000_03
"""Asked for; a kernel makes 80 us of it. Threads that wait are woken in that time."""
BUSY_SECONDS = 0.0005
"""Between two pauses: of the time of a loop that is busy with long work they take a seventh."""


class WorkersTurn:
    """When the loop has paused last. One for all that computes for long on a loop."""

    __slots__ = ("_paused", "watched")

    def __init__(self) -> None:
        self.watched: list[Callable[[], bool]] = []
        """Each tells whether some worker threads have work."""
        self._paused = 0.0

    def come(self) -> None:
        """Let go of the interpreter's lock, unless that was just done or no thread has work."""
        now = time.perf_counter()
        is_due = now - self._paused >= BUSY_SECONDS
        if is_due and any(is_busy() for is_busy in self.watched):
            time.sleep(PAUSE_SECONDS)
            self._paused = time.perf_counter()


WORKERS_TURN = WorkersTurn()
"""Of this process, which has one loop."""
