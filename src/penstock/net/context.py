"""What the connections of one listener share: limits, counters, memory, and the current tick."""

import asyncio
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from penstock.net.answers.answer_room import AnswerRoom
from penstock.net.limits import NetLimits
from penstock.net.receive import ReceiveBuffers
from penstock.net.stats import NetStats
from penstock.net.turn_share import TurnShare

ConnectionT = TypeVar("ConnectionT")

OnFrame = Callable[[ConnectionT, memoryview], None]
"""Gets one whole frame without its size field; the memory is valid, and writable, until it
returns."""

OnRun = Callable[[ConnectionT, memoryview, int, int, int], tuple[int, int]]
"""Gets (connection, memory, at, end, most): received memory [at, end) that begins with a whole
frame, size field included, and has more behind it.

Handles what belongs together of the whole frames there, at most `most`, and returns how many that
were and where they end; (0, at) leaves the first to `on_frame`. The memory is as valid as there."""

OnClose = Callable[[ConnectionT], None]


class ConnectionContext(Generic[ConnectionT]):
    """What the connections of one listener share; they are of the type `ConnectionT`."""

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
        on_frame: OnFrame[ConnectionT],
        on_run: OnRun[ConnectionT],
        on_gone: OnClose[ConnectionT],
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
        self.connections: dict[ConnectionT, None] = {}
        self.tick = 0


def one_by_one(
    connection: Any, memory: memoryview, at: int, end: int, most: int
) -> tuple[int, int]:
    """Take no frames together: what a listener does whose owner has no use for runs."""
    return 0, at
