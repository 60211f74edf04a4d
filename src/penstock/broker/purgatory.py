"""Purgatory: produce requests that wait until the log is acknowledged up to their end.

    append order   = order of end positions = order of release
    release        pop from the left while end_position <= confirmed position
    deadlines      looked at once a second: a hung disk is the only thing that lets them pass

A queue and not a timer per request: at 100,000 requests a second a timer each would cost more than
the append. The length is bounded by the in-flight cap of every connection (net/limits.py).

Source: Kafka `ThresholdPurgatory` (parked by threshold), RocketMQ `GroupTransferService` without
its head-of-line wait (#1535): nothing here blocks anything else.
"""

from collections import deque
from typing import Protocol

from penstock.base.invariant import invariant


class Waiting(Protocol):
    """A request that is parked."""

    deadline_ms: int
    """Monotonic time after which the request is answered with a time-out."""

    def complete(self) -> None:
        """The awaited position is acknowledged."""

    def expire(self) -> None:
        """The deadline has passed first; `complete` and `fail` may still come, and do nothing."""

    def fail(self) -> None:
        """The log is fenced: it will never be acknowledged here."""


class AckQueue:
    """Parked requests of one replica set, in the order of their end positions."""

    __slots__ = ("_is_failed", "_last_position", "_queue", "_released")

    def __init__(self) -> None:
        self._queue: deque[tuple[int, Waiting]] = deque()
        self._last_position = 0
        self._released = 0
        self._is_failed = False

    def __len__(self) -> int:
        return len(self._queue)

    def park(self, end_position: int, waiting: Waiting) -> None:
        """Park until everything below `end_position` (exclusive) is acknowledged.

        What is acknowledged already completes at once: a duplicate appends nothing, so nothing
        that follows it would release it. After `fail_all` everything else fails at once.
        """
        if end_position <= self._released:
            waiting.complete()
            return
        if self._is_failed:
            waiting.fail()
            return
        if end_position < self._last_position:
            invariant(False, "parked out of order", at=end_position)
        self._last_position = end_position
        self._queue.append((end_position, waiting))

    def release(self, position: int) -> None:
        """Complete every request whose end lies at or below `position`."""
        self._released = position
        queue = self._queue
        while queue and queue[0][0] <= position:
            queue.popleft()[1].complete()

    def expire(self, now_ms: int) -> int:
        """Time out what is overdue; returns how many were."""
        overdue = [waiting for _, waiting in self._queue if waiting.deadline_ms <= now_ms]
        for waiting in overdue:
            waiting.expire()
        return len(overdue)

    def fail_all(self) -> None:
        """Answer everything that is parked: this log acknowledges nothing any more."""
        self._is_failed = True
        failed, self._queue = self._queue, deque()
        for _, waiting in failed:
            waiting.fail()
