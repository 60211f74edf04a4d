"""Runs of a master that wait until the slave's log takes more, in the order of the log.

The log takes none during a sync or while a segment is made. A run arrives in the buffer of its
link, so one that has to wait is copied, once.

Source: as followed_set.py. It does not append: that is FollowedSet's.
"""

from collections import deque

from penstock.base.invariant import invariant
from penstock.frames.run import Run


class PendingRuns:
    """At most `bytes_max` of waiting runs."""

    __slots__ = ("_bytes", "_bytes_max", "runs")

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._bytes = 0
        self.runs: deque[Run] = deque()
        """What waits; changed by the methods only."""

    def put(self, run: Run, *, is_first: bool = False) -> bool:
        """Keep a run, before all others if `is_first`. Returns False if that is too much."""
        if self._bytes + len(run.data) > self._bytes_max:
            return False
        self._bytes += len(run.data)
        if not isinstance(run.data.obj, bytes):
            run = run._replace(data=memoryview(bytes(run.data)))
        if is_first:
            self.runs.appendleft(run)
        else:
            self.runs.append(run)
        return True

    def take(self) -> Run:
        """Return the first run; it waits no more."""
        run = self.runs.popleft()
        self._bytes -= len(run.data)
        is_counted = self._bytes >= 0 if self.runs else self._bytes == 0
        invariant(is_counted, "waiting runs are counted", count=len(self.runs), bytes=self._bytes)
        return run

    def clear(self) -> None:
        """Drop all runs."""
        self.runs.clear()
        self._bytes = 0
