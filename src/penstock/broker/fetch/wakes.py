"""Parked fetches that look again: some in each turn of the event loop, in order of their arrival.

    records became readable ─┐
    partition changed ───────┼─► its fetches ─► what this turn has left ─► (quiet turns) ─► more
    deadline of a fetch ─────┘

Thousands of fetches may wait for one partition, and each may read and answer. Partitions take
turns, a portion each, so that those with few fetches do not wait for one with many. What comes to
a partition that is still being woken joins the end of that wake, so that a fetch is in it once.

A fetch that has not had its turn yet is parked as before: it reads what there is by then, or hears
that the partition is gone or led elsewhere, and where its client has gone it ends (operation.py).

Source: ours, as in coordinator/portions.py (ADR 0051); Kafka completes what it wakes in the thread
of the append (`DelayedOperationPurgatory.checkAndComplete`).
"""

from collections import OrderedDict, deque
from collections.abc import Callable, Iterable
from typing import Protocol

from penstock.base.ports import Clock, Scheduler
from penstock.net.quiet_turns import QuietTurns

PORTION = 200
"""Cost of the looks in one turn: a unit is about 10 us of processor time, so 2 ms."""
TO_ANSWER = 8
"""Cost of a look with its answer, besides its partitions, each of which costs 1."""
TO_WAIT_ON = 2
"""Cost of finding that there is too little still, besides the partitions."""
CHECKED = 8
"""Partitions whose size is asked for one unit."""


class FetchWaiter(Protocol):
    """A parked fetch that has to read again. Both return what it cost."""

    def on_readable(self) -> int:
        """The end of the readable records may have moved."""

    def on_changed(self) -> int:
        """The partition was deleted, or has another master or log, or the fetch is overdue: look,
        however little there is.
        """


class Wake:
    """The fetches of one partition that have still to look."""

    __slots__ = ("_is_changed", "_waiters")

    def __init__(self) -> None:
        self._waiters: OrderedDict[FetchWaiter, None] = OrderedDict()
        self._is_changed = False

    def __len__(self) -> int:
        return len(self._waiters)

    def add(self, waiters: Iterable[FetchWaiter], *, is_changed: bool) -> None:
        """Have these look, after those before; each once. A change concerns them all."""
        for waiter in waiters:
            self._waiters[waiter] = None
        self._is_changed = self._is_changed or is_changed

    def leave(self, waiter: FetchWaiter) -> None:
        """Let a fetch that is over not look any more."""
        self._waiters.pop(waiter, None)

    def end(self) -> None:
        """Free the dict, which would otherwise keep its size."""
        self._waiters.clear()

    def look(self) -> int:
        """Let the first one look; return what it cost."""
        waiter, _ = self._waiters.popitem(last=False)
        return waiter.on_changed() if self._is_changed else waiter.on_readable()


class Wakes:
    """The wakes under way. One for each broker."""

    __slots__ = ("_clock", "_is_running", "_left", "_note", "_quiet", "_waiting")

    def __init__(self, scheduler: Scheduler, clock: Clock, note: Callable[[int], None]) -> None:
        """`note` gets the microseconds of each portion."""
        self._clock = clock
        self._note = note
        self._quiet = QuietTurns(scheduler.call_soon, self._give)
        self._waiting: deque[Wake] = deque()
        self._left = PORTION
        """Cost left in this turn. It is only renewed once used up, as small wakes are the rule."""
        self._is_running = False

    def begin(self, waiters: Iterable[FetchWaiter], *, is_changed: bool) -> Wake:
        """Let these look, now as far as this turn has room, else in turns to come."""
        wake = Wake()
        wake.add(waiters, is_changed=is_changed)
        self._waiting.append(wake)
        if self._left > 0 and not self._is_running:
            self._spend()
        return wake

    def _give(self) -> None:
        self._left = PORTION
        if self._waiting:
            self._quiet.rest()
            self._spend()

    def _spend(self) -> None:
        """Use up what this turn has left, a wake after the other; come back for what is left."""
        begun = self._clock.monotonic_us()
        self._is_running = True
        try:
            while self._waiting and self._left > 0:
                self._spend_on(self._waiting.popleft())
        finally:
            self._is_running = False
            self._note(self._clock.monotonic_us() - begun)
            if self._waiting or self._left <= 0:
                self._quiet.ask()

    def _spend_on(self, wake: Wake) -> None:
        try:
            while wake and self._left > 0:
                self._left -= wake.look()
        finally:
            if wake:
                self._waiting.append(wake)
            else:
                wake.end()
