"""Connections that take no more requests for a while, each with its timer.

Answers still leave. A connection that ends takes its timer along, so there are as many timers as
open connections at most, and few unless clients are throttled.

Source: KIP-219; Kafka `ThrottledChannel`, `SocketServer` (muted channels).
"""

import asyncio
from collections.abc import Callable
from typing import Any


class MutedConnections:
    """Those of one listener. Times are milliseconds."""

    __slots__ = ("_loop", "_timers")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._timers: dict[Any, asyncio.TimerHandle] = {}

    def __contains__(self, connection: Any) -> bool:
        return connection in self._timers

    def __len__(self) -> int:
        return len(self._timers)

    def wake_after(self, connection: Any, delay_ms: int, wake: Callable[[], None]) -> None:
        """Call `wake` after this time, and not before a time that was asked for earlier."""
        due = self._loop.time() + delay_ms / 1000
        known = self._timers.get(connection)
        if known is not None:
            if known.when() >= due:
                return
            known.cancel()
        self._timers[connection] = self._loop.call_at(due, self._wake, connection, wake)

    def forget(self, connection: Any) -> None:
        """Drop the timer of a connection that has ended."""
        timer = self._timers.pop(connection, None)
        if timer is not None:
            timer.cancel()

    def _wake(self, connection: Any, wake: Callable[[], None]) -> None:
        del self._timers[connection]
        wake()
