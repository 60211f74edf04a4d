"""The share that frames of peers have of a turn of the loop, for all links of a process together.

A single frame is short. A hundred thousand small ones, or request after request, are not: a read
receives them all, and the loop reads again and again before it does anything else. So links handle
frames for some milliseconds in a turn, as connections handle requests (turn_share.py), and
separately from them. Frames beyond that wait in their link, which is not read meanwhile; a link
with one frame, such as a heartbeat, goes before those with many.
"""

import asyncio
import time
from collections.abc import Callable

from penstock.net.peer_measure import FrameTurns
from penstock.net.turn_share import PEERS_SECONDS, TurnShare


class PeerTurn:
    """The share of a process, on the running event loop."""

    __slots__ = ("_loop", "_share", "_stopwatch", "frames")

    def __init__(self, stopwatch: Callable[[], float] = time.perf_counter) -> None:
        """`stopwatch` returns seconds of a clock that runs while code runs, with any origin."""
        self._stopwatch = stopwatch
        self.frames = FrameTurns()
        """The longest times by kind of frame."""
        self._loop: asyncio.AbstractEventLoop | None = None
        self._share: TurnShare | None = None

    def share(self) -> TurnShare:
        """Return the share of the running loop."""
        loop = asyncio.get_running_loop()
        if self._share is None or self._loop is not loop:
            self._loop = loop
            self._share = TurnShare(loop, PEERS_SECONDS, quiet_turns=0)
            self._share.stopwatch = self._stopwatch
        return self._share

    def longest(self) -> dict[str, float]:
        """Return the longest turns of the last one to two minutes, in seconds by kind of frame."""
        return self.frames.longest(self._stopwatch())
