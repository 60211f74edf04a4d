"""What the connections of one listener share: limits, counters, memory, and the current tick."""

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

from penstock.net.limits import NetLimits
from penstock.net.receive import ReceiveBuffers
from penstock.net.stats import NetStats

if TYPE_CHECKING:
    from penstock.net.connection import Connection

OnFrame = Callable[["Connection", memoryview], None]
"""Gets one whole frame without its size field; the memory is valid, and writable, until it
returns."""

OnClose = Callable[["Connection"], None]


class ConnectionContext:
    """What the connections of one listener share."""

    __slots__ = (
        "buffers",
        "connections",
        "limits",
        "listener_name",
        "loop",
        "on_frame",
        "on_gone",
        "stats",
        "tick",
    )

    def __init__(
        self,
        *,
        listener_name: str,
        limits: NetLimits,
        buffers: ReceiveBuffers,
        on_frame: OnFrame,
        on_gone: OnClose,
    ) -> None:
        """`on_gone` is called once for each connection that was made, when it is no more."""
        self.loop = asyncio.get_running_loop()
        self.listener_name = listener_name
        self.limits = limits
        self.buffers = buffers
        self.on_frame = on_frame
        self.on_gone = on_gone
        self.stats = NetStats()
        self.connections: dict[Connection, None] = {}
        self.tick = 0
