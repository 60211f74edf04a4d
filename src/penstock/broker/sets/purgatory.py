"""Purgatory: produce requests that wait until the log is acknowledged up to their end.

    append order   = order of end positions = order of release
    release        pop from the left while end_position <= confirmed position, a slice in a turn
    deadlines      looked at once a second: a hung disk is the only thing that lets them pass

A queue and not a timer per request: at 100,000 requests a second a timer each would cost more than
the append. The length is bounded by the in-flight cap of every connection (net/limits.py).

What is acknowledged waits for its slice at the head of the queue. It is as good as answered: a set
that shrinks, a deadline, a fenced log and the end of a mastership do not touch it.

A queue takes requests while the broker is master. `refuse_all` ends that: what is parked, and what
comes later, is refused with the error given, until `open` begins the next mastership.

Source: Kafka `ThresholdPurgatory` (parked by threshold), RocketMQ `GroupTransferService` without
its head-of-line wait (#1535): nothing here blocks anything else.
"""

from collections import deque
from collections.abc import Callable, Iterator
from typing import Protocol

from penstock.base.invariant import invariant
from penstock.replication.errors import ReplicationError

SLICE = 256
"""Requests answered in one turn of the loop: one write of a client on many connections may release
tens of thousands. A group commit releases fewer, mostly."""

Later = Callable[[Callable[[], None]], object]
"""Calls something in a later turn of the loop."""


class Waiting(Protocol):
    """A request that is parked. After the first that ends it, all other calls do nothing."""

    deadline_ms: int
    """Monotonic time after which the request is answered with a time-out."""

    def complete(self) -> None:
        """The awaited position is acknowledged."""

    def expire(self) -> None:
        """The deadline has passed first; `complete` and `fail` may still come, and do nothing."""

    def fail(self) -> None:
        """The log is fenced: it will never be acknowledged here."""

    def refuse(self, error: ReplicationError) -> None:
        """The broker is not master any more: it may or may not survive what was appended."""

    def shrunk(self, in_sync_count: int) -> None:
        """The sync-state set has lost a member before the position was confirmed.

        What needs more than `in_sync_count` members is answered NOT_ENOUGH_REPLICAS_AFTER_APPEND
        when the request ends. Called only when a set shrinks, never on the usual path.
        """


class AckQueue:
    """Parked requests of one replica set, in the order of their end positions."""

    __slots__ = (
        "_is_failed",
        "_is_going_on",
        "_last_position",
        "_later",
        "_queue",
        "_refusal",
        "_released",
    )

    def __init__(self, later: Later) -> None:
        self._later = later
        self._queue: deque[tuple[int, Waiting]] = deque()
        self._last_position = 0
        self._released = 0
        self._is_going_on = False
        """Whether what is released already has another turn."""
        self._is_failed = False
        self._refusal: ReplicationError | None = None

    def __len__(self) -> int:
        return len(self._queue)

    @property
    def is_awaiting(self) -> bool:
        """Whether anything is parked that is not acknowledged yet."""
        return bool(self._queue) and self._queue[-1][0] > self._released

    def park(self, end_position: int, waiting: Waiting) -> None:
        """Park until everything below `end_position` (exclusive) is acknowledged.

        What is acknowledged already completes at once: a duplicate appends nothing, so nothing
        that follows it would release it; but not before what was appended earlier. After
        `fail_all` everything else fails at once, after `refuse_all` everything is refused.
        """
        if self._refusal is not None:
            waiting.refuse(self._refusal)
            return
        is_behind_others = self._is_going_on and end_position >= self._last_position
        if end_position <= self._released and not is_behind_others:
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
        """Complete every request whose end lies at or below `position`, in slices."""
        self._released = position
        if not self._is_going_on:
            self._complete_slice()

    def expire(self, now_ms: int) -> int:
        """Time out what is overdue; returns how many were."""
        overdue = [waiting for waiting in self._awaiting() if waiting.deadline_ms <= now_ms]
        for waiting in overdue:
            waiting.expire()
        return len(overdue)

    def shrunk(self, in_sync_count: int) -> None:
        """Tell everything parked that only `in_sync_count` members are in step now."""
        for waiting in self._awaiting():
            waiting.shrunk(in_sync_count)

    def fail_all(self) -> None:
        """Answer everything that is parked: this log acknowledges nothing any more."""
        self._is_failed = True
        for waiting in self._taken():
            waiting.fail()

    def refuse_all(self, error: ReplicationError) -> None:
        """Refuse everything that is parked, and what comes until `open`, with `error`."""
        self._refusal = error
        refused = self._taken()
        self._released = self._last_position = 0
        for waiting in refused:
            waiting.refuse(error)

    def open(self, released: int) -> None:
        """Begin a mastership: everything below `released` (exclusive) is acknowledged already."""
        if self._refusal is not None:
            invariant(not self._queue, "parked while not master", count=len(self._queue))
            self._refusal = None
        self.release(released)

    def _complete_slice(self) -> None:
        self._is_going_on = False
        for _ in range(SLICE):
            if not self._queue or self._queue[0][0] > self._released:
                return
            self._queue.popleft()[1].complete()
        if self._queue and self._queue[0][0] <= self._released:
            self._is_going_on = True
            self._later(self._complete_slice)

    def _awaiting(self) -> Iterator[Waiting]:
        return (waiting for end, waiting in self._queue if end > self._released)

    def _taken(self) -> list[Waiting]:
        """Empty the queue: complete what is acknowledged, return what is not."""
        taken, self._queue = self._queue, deque()
        released = self._released
        while taken and taken[0][0] <= released:
            taken.popleft()[1].complete()
        return [waiting for _, waiting in taken]
