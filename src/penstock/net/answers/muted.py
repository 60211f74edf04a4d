"""Connections that take no more requests for a while, each with its timer.

Answers still leave. A connection that ends takes its timer along, so there are as many timers as
open connections at most, and few unless clients are throttled.

Source: KIP-219; Kafka `ThrottledChannel`, `SocketServer` (muted channels).
"""

import asyncio
from collections.abc import Callable
from typing import Any, NamedTuple


class _Waiting(NamedTuple):
    due: float
    """A time of the loop. uvloop's handle for what is due at once does not tell one."""
    timer: asyncio.Handle


class MutedConnections:
    """Those of one listener. Times are milliseconds."""

    __slots__ = ("_loop", "_timers")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._timers: dict[Any, _Waiting] = {}

    def __contains__(self, connection: Any) -> bool:
        return connection in self._timers

    def __len__(self) -> int:
        return len(self._timers)

    def wake_after(self, connection: Any, delay_ms: int, wake: Callable[[], None]) -> None:
        """Call `wake` after this time, and not before a time that was asked for earlier."""
        due = self._loop.time() + delay_ms / 1000
        known = self._timers.get(connection)
        if known is not None:
            if known.due >= due:
                return
            known.timer.cancel()
        timer = self._loop.call_at(due, self._wake, connection, wake)
        self._timers[connection] = _Waiting(due, timer)

    def forget(self, connection: Any) -> None:
        """Drop the timer of a connection that has ended."""
        waiting = self._timers.pop(connection, None)
        if waiting is not None:
            waiting.timer.cancel()

    def _wake(self, connection: Any, wake: Callable[[], None]) -> None:
        del self._timers[connection]
        wake()
