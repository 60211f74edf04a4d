"""How long frames of peers hold the loop at once, by kind of frame, for metrics and the log.

A kind is a name given by the reader of the frames, such as "session Heartbeat"; each has a few
tens. Frames handled in less than NOTED_SECONDS are not counted, and their kind is not determined.

The bytes of long frames are counted beside it: much of what decoding them took is given back to the
system only when it is asked for (node/peer_relief.py).
"""

import logging
from collections.abc import Callable

from penstock.base.callbacks import nothing

NOTED_SECONDS = 0.001
TOLD_SECONDS = 0.1
"""A new longest time above this is logged."""
WINDOW_SECONDS = 60.0

log = logging.getLogger(__name__)


class FrameTurns:
    """The longest time of each kind in the current time window and the last one."""

    __slots__ = ("_before", "_began", "_longest", "long_bytes", "on_long")

    def __init__(self) -> None:
        self.long_bytes = 0
        """Of all frames so far that were handled in slices."""
        self.on_long: Callable[[], None] = nothing
        self._began = 0.0
        self._longest: dict[str, float] = {}
        self._before: dict[str, float] = {}

    def note(self, kind: str, seconds: float, now: float) -> None:
        """Count a frame whose handling ended at `now` of a monotonic clock."""
        self._turn_over(now)
        if seconds > self._longest.get(kind, 0.0):
            self._longest[kind] = seconds
            if seconds >= TOLD_SECONDS:
                log.warning("peer frame=%s held the loop for %d ms", kind, seconds * 1000)

    def note_long(self, size_bytes: int) -> None:
        """Count a frame that is handled in slices."""
        self.long_bytes += size_bytes
        self.on_long()

    def longest(self, now: float) -> dict[str, float]:
        """Return seconds by kind."""
        self._turn_over(now)
        both = (*self._longest.items(), *self._before.items())
        return {kind: max(one for key, one in both if key == kind) for kind, _ in both}

    def _turn_over(self, now: float) -> None:
        passed = now - self._began
        if passed >= WINDOW_SECONDS:
            self._before = self._longest if passed < 2 * WINDOW_SECONDS else {}
            self._longest = {}
            self._began = now
