"""What the connections of one listener share: limits, counters, memory, and the current tick."""

import asyncio
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from penstock.net.answers.answer_room import AnswerRoom
from penstock.net.answers.muted import MutedConnections
from penstock.net.limits import NetLimits
from penstock.net.receive import ReceiveBuffers
from penstock.net.stats import NetStats
from penstock.net.turn_share import TurnShare

ConnectionT = TypeVar("ConnectionT")

OnFrame = Callable[[ConnectionT, memoryview], None]
"""Called with one whole frame without its size field; the memory is valid and writable until the
call returns."""

OnRun = Callable[[ConnectionT, memoryview, int, int, int], tuple[int, int]]
"""Called with (connection, memory, at, end, most): received memory [at, end) that begins with a
whole frame, size field included, followed by more bytes.

Handles the whole frames there that belong together, at most `most`, and returns their number and
where they end, exclusive; (0, at) leaves the first to `on_frame`. The memory is valid as there."""

OnClose = Callable[[ConnectionT], None]


class ConnectionContext(Generic[ConnectionT]):
    """What the connections of one listener share; they are of the type `ConnectionT`."""

    __slots__ = (
        "buffers",
        "connections",
        "holders",
        "limits",
        "loop",
        "muted",
        "on_frame",
        "on_gone",
        "on_run",
        "room",
        "stats",
        "tick",
        "turn",
    )

    def __init__(
        self,
        *,
        limits: NetLimits,
        buffers: ReceiveBuffers,
        on_frame: OnFrame[ConnectionT],
        on_run: OnRun[ConnectionT],
        on_gone: OnClose[ConnectionT],
    ) -> None:
        """`on_gone` is called exactly once for each connection, when it has closed."""
        self.loop = asyncio.get_running_loop()
        self.turn = TurnShare(self.loop)
        self.muted = MutedConnections(self.loop)
        self.limits = limits
        self.buffers = buffers
        self.room = AnswerRoom(buffers.budget, self.loop)
        self.on_frame = on_frame
        self.on_run = on_run
        self.on_gone = on_gone
        self.stats = NetStats()
        self.connections: dict[ConnectionT, None] = {}
        self.holders: dict[ConnectionT, None] = {}
        """Those with a PartFrame: as many as the budget has spare buffers, at most."""
        self.tick = 0


def one_by_one(
    connection: Any, memory: memoryview, at: int, end: int, most: int
) -> tuple[int, int]:
    """Handle no frames together: for listeners whose owner does not support runs."""
    return 0, at
