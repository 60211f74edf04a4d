"""How long handlers of requests may hold the loop in one turn, all connections together.

    connection A   frame │ frame │ ...
    connection B         │       │ frame │ used up: the rest waits
    connection C                          waits as a whole ─► next turn: C, B, ...

One request is short, or is cut into slices (ADR 0033). Thousands of connections with one each are
not, where a turn takes what all of them have sent. So a turn ends after TURN_SECONDS of handling:
links of peers, which are not in it, heartbeats and answers come in between. What waits does so in
its connection, which is read no further. Who has had nothing of what was sent goes before those who
have had some and have more, and while several wait each has VISIT_SECONDS: a client with one
request does not wait for the pipelines of all others.

Nothing is scheduled as long as little is done: the clock starts anew once a turn has handled
requests for COUNTED_SECONDS. ADR 0044.
"""

import asyncio
import time
from collections import deque
from collections.abc import Callable

from penstock.net.workers_turn import WORKERS_TURN

TURN_SECONDS = 0.005
"""One more request may begin just before it is over; with a slice and a few answers that are begun
a turn is below 10 ms."""
VISIT_SECONDS = 0.0005
"""Of one connection while others wait; one request at least."""
COUNTED_SECONDS = 0.001
"""What is not counted of one turn may be counted in the next one."""


class TurnShare:
    """What handlers have left of the turn, and who waits for the next one. One for a listener."""

    __slots__ = ("_fresh", "_is_due", "_loop", "_visit_left", "_visited", "left", "stopwatch")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self.stopwatch: Callable[[], float] = time.perf_counter
        """Tells seconds that pass while code runs, from any moment on."""
        self.left = TURN_SECONDS
        """Seconds; below 0 nobody begins a request."""
        self._visit_left = TURN_SECONDS
        self._is_due = False
        self._fresh: deque[Callable[[], None]] = deque()
        self._visited: deque[Callable[[], None]] = deque()

    def spend(self, seconds: float) -> bool:
        """Count the handling of a request; returns whether the connection may go on."""
        self.left -= seconds
        self._visit_left -= seconds
        if not self._is_due and self.left < TURN_SECONDS - COUNTED_SECONDS:
            self._come_back()
        return self.left > 0 and self._visit_left > 0

    def wait(self, go_on: Callable[[], None], *, is_fresh: bool) -> None:
        """Call `go_on` in a turn to come; `is_fresh` where nothing of it was handled yet."""
        (self._fresh if is_fresh else self._visited).append(go_on)
        self._come_back()

    def _come_back(self) -> None:
        if not self._is_due:
            self._is_due = True
            self._loop.call_soon(self._begin)

    def _begin(self) -> None:
        self._is_due = False
        WORKERS_TURN.come()
        self.left = TURN_SECONDS
        visited = len(self._visited)
        try:
            self._visit(self._visited, min(visited, 1))  # however many come who had nothing
            self._visit(self._fresh, len(self._fresh))
            self._visit(self._visited, visited - 1)
        finally:
            self._visit_left = TURN_SECONDS
            if self._fresh or self._visited:
                self._come_back()

    def _visit(self, waiting: deque[Callable[[], None]], count: int) -> None:
        is_alone = len(self._fresh) + len(self._visited) == 1
        for _ in range(count):
            if self.left <= 0:
                return
            self._visit_left = TURN_SECONDS if is_alone else VISIT_SECONDS
            waiting.popleft()()
