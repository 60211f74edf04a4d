"""What a process logs while it waits for a group of controllers to be founded or found.

Source: raft/founding.py; ADR 0027.
"""

import logging

from penstock.raft.raft import Raft

FIRST_MS = 3_000
REPEAT_MS = 60_000

log = logging.getLogger(__name__)


class Waiting:
    """Logs from time to time what is missing; nothing once the log has begun."""

    def __init__(self, core: Raft, tick_ms: int) -> None:
        self._core = core
        self._tick_ms = tick_ms
        self._left_ms = FIRST_MS

    def tick(self) -> None:
        """Count one tick of time."""
        if not self._core.is_new:
            return
        self._left_ms -= self._tick_ms
        if self._left_ms > 0:
            return
        self._left_ms = REPEAT_MS
        awaited = ", ".join(map(str, self._core.awaited_founders)) or "the first of them"
        log.warning(
            "this metadata log is empty and no leading controller is reached. The controllers of"
            " cluster.voters found a group once all of them report to be new; missing: %s."
            " If there was a group, start a majority of its controllers with their own disks",
            awaited,
        )
