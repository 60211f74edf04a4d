"""Changes of the second level's files, one after the other.

    begin ─► waits for those before it ─► the files, then the manifest ─► end ─► the next begins

A change waits for the disk, and each replaces the manifest that the one before has made durable.
There are as many that wait as callers: the housekeeper's jobs, retention and repair have one each.

Source: ours; ADR 0103.
"""

from collections import deque
from collections.abc import Callable

from penstock.base.errors import PlatformError

Changed = Callable[[PlatformError | None], None]


class Changes:
    """The change under way, and those that wait for it."""

    __slots__ = ("_is_changing", "_waiting")

    def __init__(self) -> None:
        self._waiting: deque[Callable[[], None]] = deque()
        self._is_changing = False

    def begin(self, begin: Callable[[], None]) -> None:
        """Begin a change of the files when those before it have ended; it calls `end`."""
        self._waiting.append(begin)
        self._begin_next()

    def while_unchanged(self, begin: Callable[[Callable[[], None]], None]) -> None:
        """Call `begin(end)` as a change of its own, which ends when `end` is called."""
        self.begin(lambda: begin(lambda: self.end(unheard, None)))

    def end(self, done: Changed, error: PlatformError | None) -> None:
        """End the change under way, tell who waits for it, and begin the next one."""
        assert self._is_changing, "no change is under way"
        self._is_changing = False
        done(error)
        self._begin_next()

    def _begin_next(self) -> None:
        if self._waiting and not self._is_changing:
            self._is_changing = True
            self._waiting.popleft()()


def unheard(_: PlatformError | None) -> None:
    """Nobody waits: where the manifest could not be replaced, the next pass judges anew."""
