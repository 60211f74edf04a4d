"""Work that a group owes to thousands of members or positions, a portion in each turn of the loop.

    begin(steps) ─► as many steps as this turn has left ─► (later) ─► a portion of the next work ...

Steps are a generator that yields what each of them cost. Works take turns, a portion each: a large
group does not keep small ones waiting. What is to be decided is decided before `begin`; a step
looks again at whatever may have changed since the one before it.

Source: run to completion as in outbox.py, cut where a run would be long (ADR 0051).
"""

from collections import deque
from collections.abc import Iterator

from penstock.coordinator.outbox import Later, Outbox

PORTION = 200
"""What the steps of one turn may cost; one is about 10 us of processor time, so 2 ms."""
TO_TELL = 3
"""What an answer to a member costs, with its encoding and its session."""
TO_LOG = 3
"""What is told with a line in the log costs so much more."""
TO_WRITE = 8
"""What a write to the journal costs beside its records."""
POSITIONS = 10
"""Positions, or entries like them, that are looked at for one."""

Steps = Iterator[int]


class Portions:
    """Works that have begun, in the order of their turns."""

    __slots__ = ("_is_due", "_is_running", "_later", "_left", "_outbox", "_works")

    def __init__(self, outbox: Outbox, later: Later | None = None) -> None:
        """Without `later` every work is done when it begins."""
        self._outbox = outbox
        self._later = later
        self._works: deque[Steps] = deque()
        self._left = PORTION
        """Of this turn; only looked after once it is used up, so a small work may wait a turn."""
        self._is_due = False
        self._is_running = False

    def __len__(self) -> int:
        return len(self._works)

    def begin(self, steps: Steps) -> None:
        """Do the steps, now and in turns to come."""
        if self._later is None:
            with self._outbox.turn():
                for _ in steps:
                    pass
            return
        self._works.append(steps)
        if not self._is_running and not self._is_due:
            self._run()

    def _next_turn(self) -> None:
        self._is_due = False
        self._left = PORTION
        self._run()

    def _run(self) -> None:
        """Spend what is left of this turn, and ask for another if that is not enough."""
        self._is_running = True
        try:
            with self._outbox.turn():
                while self._works and self._left > 0:
                    work = self._works.popleft()
                    if self._spend_on(work):
                        self._works.append(work)
        finally:
            self._is_running = False
            if self._works and self._later is not None:
                self._is_due = True
                self._later(self._next_turn)

    def _spend_on(self, work: Steps) -> bool:
        """Do steps of one work; return whether there are more of them."""
        for cost in work:
            self._left -= cost
            if self._left <= 0:
                return True
        return False
