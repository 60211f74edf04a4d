"""Purgatory: produce requests that wait until the log is acknowledged up to their end.

    append order   = order of end positions = order of release
    release        pop from the left while end_position <= confirmed position, a slice in a turn
    deadlines      checked once a second: they pass only if the disk or the replicas hang

A queue rather than a timer per request: at 100,000 requests a second, timers would cost more than
the append. A request that has timed out leaves the queue, so its length is bounded by the in-flight
limit of every connection (net/limits.py): the answer lets the connection send another request. A
coordinator's write stays, since it counts as soon as it is confirmed; the runtime bounds these.

Acknowledged requests wait for their slice at the head of the queue. They count as answered: a
smaller set, a deadline, a fenced log and the end of a mastership do not affect them.

A queue accepts requests while the broker is master. `refuse_all` ends that: parked and later
requests are refused with the given error, until `open` begins the next mastership.

Source: Kafka `ThresholdPurgatory` (parked by threshold), RocketMQ `GroupTransferService` without
its head-of-line wait (#1535): no request blocks another.
"""

from collections import deque
from collections.abc import Callable, Iterator
from typing import Protocol

from penstock.base.ids import Position
from penstock.base.invariant import invariant
from penstock.replication.errors import ReplicationError

SLICE = 256
"""Requests answered in one iteration of the event loop: one write for clients on many connections
may release tens of thousands. A group commit mostly releases fewer."""

Later = Callable[[Callable[[], None]], object]
"""Calls a function in a later iteration of the event loop."""


class Waiting(Protocol):
    """A parked request. After the first call that answers it, all others do nothing."""

    deadline_ms: int
    """Monotonic time after which the request is answered with a time-out."""

    def complete(self) -> None:
        """The awaited position is acknowledged."""

    def expire(self) -> bool:
        """The deadline has passed first. Return whether it still waits for the position.

        What does leaves the queue only by another call, and `expire` may be repeated.
        """

    def fail(self) -> None:
        """The log is fenced: it will never be acknowledged here."""

    def refuse(self, error: ReplicationError) -> None:
        """The broker is no longer master: what was appended may or may not survive."""

    def shrunk(self, in_sync_count: int) -> None:
        """Fewer members are in sync, or more may be asked for, before the position was confirmed.

        A request that needs more than `in_sync_count` members ends with
        NOT_ENOUGH_REPLICAS_AFTER_APPEND. Called only when the sync-state set shrinks, the set
        gets a member, or its policy a larger minimum.
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
        self._queue: deque[tuple[Position, Waiting]] = deque()
        self._last_position = self._released = Position(0)
        self._is_going_on = False
        """Whether a later iteration will complete released requests."""
        self._is_failed = False
        self._refusal: ReplicationError | None = None

    def __len__(self) -> int:
        return len(self._queue)

    @property
    def is_awaiting(self) -> bool:
        """Whether anything is parked that is not acknowledged yet."""
        return bool(self._queue) and self._queue[-1][0] > self._released

    def park(self, end_position: Position, waiting: Waiting) -> None:
        """Park until everything below `end_position` (exclusive) is acknowledged.

        If that is the case already, complete at once, but not before requests parked earlier: a
        duplicate appends nothing, so no later append would release it. After `fail_all` every
        request fails at once, after `refuse_all` it is refused.
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

    def release(self, position: Position) -> None:
        """Complete every request whose end is at or below `position`, in slices."""
        if position < self._released:
            invariant(False, "the acknowledged position went back", at=position)
        self._released = position
        if not self._is_going_on:
            self._complete_slice()

    def expire(self, now_ms: int) -> int:
        """Time out what is overdue; return the number of requests that are over by that."""
        overdue = [waiting for waiting in self._awaiting() if waiting.deadline_ms <= now_ms]
        over = {id(waiting) for waiting in overdue if not waiting.expire()}
        if over:
            self._queue = deque(parked for parked in self._queue if id(parked[1]) not in over)
        return len(over)

    def shrunk(self, in_sync_count: int) -> None:
        """Notify everything parked that only `in_sync_count` members are in sync now."""
        for waiting in self._awaiting():
            waiting.shrunk(in_sync_count)

    def fail_all(self) -> None:
        """Fail everything parked: this log acknowledges nothing more."""
        self._is_failed = True
        for waiting in self._taken():
            waiting.fail()

    def refuse_all(self, error: ReplicationError) -> None:
        """Refuse everything parked, and everything until `open`, with `error`."""
        self._refusal = error
        refused = self._taken()
        self._released = self._last_position = Position(0)
        for waiting in refused:
            waiting.refuse(error)

    def open(self, released: Position) -> None:
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
        """Empty the queue: complete what is acknowledged, return the rest."""
        taken, self._queue = self._queue, deque()
        self._is_going_on = False
        released = self._released
        while taken and taken[0][0] <= released:
            taken.popleft()[1].complete()
        return [waiting for _, waiting in taken]
