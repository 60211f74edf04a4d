"""What the connections of one listener share: limits, counters, memory, and the current tick."""

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

from penstock.net.answer_room import AnswerRoom
from penstock.net.limits import NetLimits
from penstock.net.receive import ReceiveBuffers
from penstock.net.stats import NetStats
from penstock.net.turn_share import TurnShare

if TYPE_CHECKING:
    from penstock.net.connection import Connection

OnFrame = Callable[["Connection", memoryview], None]
"""Gets one whole frame without its size field; the memory is valid, and writable, until it
returns."""

OnRun = Callable[["Connection", memoryview, int, int, int], tuple[int, int]]
"""Gets (connection, memory, at, end, most): received memory [at, end) that begins with a whole
frame, size field included, and has more behind it.

Handles what belongs together of the whole frames there, at most `most`, and returns how many that
were and where they end; (0, at) leaves the first to `on_frame`. The memory is as valid as there."""

OnClose = Callable[["Connection"], None]


class ConnectionContext:
    """What the connections of one listener share."""

    __slots__ = (
        "buffers",
        "connections",
        "limits",
        "loop",
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
        on_frame: OnFrame,
        on_run: OnRun,
        on_gone: OnClose,
    ) -> None:
        """`on_gone` is called once for each connection that was made, when it is no more."""
        self.loop = asyncio.get_running_loop()
        self.turn = TurnShare(self.loop)
        self.limits = limits
        self.buffers = buffers
        self.room = AnswerRoom(buffers.budget, self.loop)
        self.on_frame = on_frame
        self.on_run = on_run
        self.on_gone = on_gone
        self.stats = NetStats()
        self.connections: dict[Connection, None] = {}
        self.tick = 0


def one_by_one(
    connection: "Connection", memory: memoryview, at: int, end: int, most: int
) -> tuple[int, int]:
    """Take no frames together: what a listener does whose owner has no use for runs."""
    return 0, at
