"""The share that frames of peers have of a turn of the loop, all links of a process together.

One frame is short; a peer that sends a hundred thousand small ones, or asks and asks, is not: a
read takes them as they come, and the loop reads again and again before it looks at anything else.
So links handle frames for some milliseconds in a turn, as connections do requests (turn_share.py),
apart from them. What has arrived beyond that waits in its link, which is not read meanwhile; a link
that has one frame, such as a heartbeat, goes before those that have many.
"""

import asyncio
import time
from collections.abc import Callable

from penstock.net.peer_measure import FrameTurns
from penstock.net.turn_share import PEERS_SECONDS, TurnShare


class PeerTurn:
    """The share of a process, of whichever loop it runs on."""

    __slots__ = ("_loop", "_share", "_stopwatch", "frames")

    def __init__(self, stopwatch: Callable[[], float] = time.perf_counter) -> None:
        """`stopwatch` tells seconds that pass while code runs, from any moment on."""
        self._stopwatch = stopwatch
        self.frames = FrameTurns()
        """How long they were."""
        self._loop: asyncio.AbstractEventLoop | None = None
        self._share: TurnShare | None = None

    def share(self) -> TurnShare:
        """Return the share of the running loop."""
        loop = asyncio.get_running_loop()
        if self._share is None or self._loop is not loop:
            self._loop = loop
            self._share = TurnShare(loop, PEERS_SECONDS)
            self._share.stopwatch = self._stopwatch
        return self._share

    def longest(self) -> dict[str, float]:
        """Return the longest turns of the last one to two minutes, in seconds by kind of frame."""
        return self.frames.longest(self._stopwatch())
