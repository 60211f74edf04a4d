"""Long work, such as for thousands of members, a portion in each turn of the event loop.

    begin(steps) ─► as many steps as this portion has left ─► (later) ─► a portion of the next work

`steps` is a generator that yields the cost of each step. Works alternate, a portion each, so that a
large group does not keep small ones waiting. Decisions are made before `begin`; a step checks again
whatever may have changed since the one before it.

Source: run to completion as in outbox.py, cut where a run would be long (ADR 0051).
"""

from collections import deque
from collections.abc import Iterator

from penstock.coordinator.outbox import Later, Outbox

PORTION = 200
"""Cost of the steps in one turn: a unit is about 10 us of processor time, so 2 ms."""
TO_TELL = 3
"""Cost of an answer to a member, with its encoding and its session."""
TO_LOG = 3
"""Additional cost of a line in the log."""
TO_WRITE = 8
"""Cost of a write to the journal, besides its records."""
POSITIONS = 10
"""Positions, or similar entries, that can be looked at for one unit."""

Steps = Iterator[int]


class Portions:
    """Works that have begun, in the order in which they get their next portion."""

    __slots__ = ("_is_due", "_is_running", "_later", "_left", "_outbox", "_works")

    def __init__(self, outbox: Outbox, later: Later | None = None) -> None:
        """Without `later` every work is completed by `begin`."""
        self._outbox = outbox
        self._later = later
        self._works: deque[Steps] = deque()
        self._left = PORTION
        """Cost left in this portion. It is only renewed once used up, so small work may wait."""
        self._is_due = False
        self._is_running = False

    def __len__(self) -> int:
        return len(self._works)

    def begin(self, steps: Steps) -> None:
        """Do the steps, now and in later turns of the loop."""
        if self._later is None:
            with self._outbox.holding():
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
        """Use up what is left of this portion, and schedule another one if work remains."""
        self._is_running = True
        try:
            with self._outbox.holding():
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
        """Do steps of one work; return whether more of them may be left."""
        for cost in work:
            self._left -= cost
            if self._left <= 0:
                return True
        return False
