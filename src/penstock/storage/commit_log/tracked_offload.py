"""An Offload that knows whether work is under way: a log is replaced only while there is none.

Source: Raft implementations likewise wait for their disk work before a snapshot replaces the log.
"""

from collections.abc import Callable
from typing import TypeVar

from penstock.base.ports import Lane, Offload

T = TypeVar("T")


class TrackedOffload:
    """Wraps one log's Offload; used on the loop only."""

    __slots__ = ("_offload", "_under_way", "_when_idle")

    def __init__(self, offload: Offload) -> None:
        self._offload = offload
        self._under_way = 0
        self._when_idle: list[Callable[[], None]] = []

    def submit(
        self,
        work: Callable[[], T],
        done: Callable[[T | None, BaseException | None], None],
        lane: Lane = Lane.WORK,
    ) -> None:
        """Run `work` off the loop, then `done(result, error)` on it."""
        self._under_way += 1

        def finished(result: T | None, error: BaseException | None) -> None:
            self._under_way -= 1
            try:
                done(result, error)
            finally:
                self._tell()

        self._offload.submit(work, finished, lane)

    def when_idle(self, action: Callable[[], None]) -> None:
        """Run `action` once no work is under way; at once where that is so now."""
        self._when_idle.append(action)
        self._tell()

    def _tell(self) -> None:
        if not self._under_way:
            actions, self._when_idle = self._when_idle, []
            for action in actions:
                action()
