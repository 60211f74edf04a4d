"""Deleted topics whose partitions are let go, some in each turn of the loop.

    topic deleted ─► SLICE partitions ─► (next turn) ─► SLICE more of the next topic ─► ...

A topic may have 10,000 partitions, and one request may delete many topics. Topics take turns, so a
small one that is deleted behind a large one is gone soon.

Source: our own, ADR 0077; Kafka stops and deletes replicas in the handler of StopReplica.
"""

from collections import deque
from collections.abc import Iterator

from penstock.base.ports import Scheduler

SLICE = 500
"""Partitions in one turn: 2 ms if there are fetches parked on none of them."""


class Removals:
    """Each is an iterator with a step for each partition."""

    __slots__ = ("_is_due", "_left", "_scheduler", "_waiting")

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._waiting: deque[Iterator[None]] = deque()
        self._left = SLICE
        """Steps left in this turn; more than one topic may be deleted in it."""
        self._is_due = False

    def begin(self, steps: Iterator[None]) -> None:
        """Do the steps, now as far as this turn has room, else in turns to come."""
        self._waiting.append(steps)
        self._go_on()
        self._come_back()

    def _come_back(self) -> None:
        if not self._is_due:
            self._is_due = True
            self._scheduler.call_soon(self._next_turn)

    def _next_turn(self) -> None:
        self._is_due = False
        self._left = SLICE
        self._go_on()
        if self._waiting:
            self._come_back()

    def _go_on(self) -> None:
        while self._waiting and self._left > 0:
            steps = self._waiting.popleft()
            if not self._is_over(steps):
                self._waiting.append(steps)

    def _is_over(self, steps: Iterator[None]) -> bool:
        """Do as many steps as are left in this turn; return whether none is left to do."""
        for _ in steps:
            self._left -= 1
            if self._left <= 0:
                return False
        return True
