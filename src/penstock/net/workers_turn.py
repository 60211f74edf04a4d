"""Short sleeps of a busy event loop that let worker threads run.

    loop busy, a sync done ─► its worker waits for the GIL ─► nothing is acknowledged

A thread gets the GIL from one that computes only by requesting it after an interval without a
switch between threads; each system call of the loop that releases the GIL for a moment may restart
that interval. So a worker that has written and synced may wait for a second. A loop that has just
worked for half a millisecond sleeps for some microseconds: a waiting thread gets the GIL then.

Source: CPython's ceval_gil.c (take_gil); measured with benchmarks of attacks, ADR 0048.
"""

import time
from collections.abc import Callable

PAUSE_SECONDS = 0.000_03
"""Requested sleep; a kernel makes 80 us of it. Waiting threads are woken in that time."""
BUSY_SECONDS = 0.0005
"""Time between two sleeps: they take a seventh of the time of a loop with long work."""


class WorkersTurn:
    """When the loop has last slept. One for all long computations on a loop."""

    __slots__ = ("_paused", "watched")

    def __init__(self) -> None:
        self.watched: list[Callable[[], bool]] = []
        """Each returns whether some worker threads have work."""
        self._paused = 0.0

    def come(self) -> None:
        """Release the GIL by a sleep, unless that was just done or no thread has work."""
        now = time.perf_counter()
        is_due = now - self._paused >= BUSY_SECONDS
        if is_due and any(is_busy() for is_busy in self.watched):
            time.sleep(PAUSE_SECONDS)
            self._paused = time.perf_counter()


WORKERS_TURN = WorkersTurn()
"""The one of this process, which has one loop."""
