"""The real clock and the real scheduler: time.* and the event loop behind the ports of base."""

import asyncio
import time
from collections.abc import Callable

from penstock.base.ports import Cancellable


class SystemClock:
    """Wall time may jump; monotonic time does not, and includes time spent in suspend."""

    @staticmethod
    def wall_ms() -> int:
        return time.time_ns() // 1_000_000

    @staticmethod
    def monotonic_ms() -> int:
        return time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1_000_000

    @staticmethod
    def monotonic_us() -> int:
        return time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1_000


class LoopScheduler:
    """Callbacks on an asyncio event loop (uvloop in a node)."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop

    def call_soon(self, callback: Callable[[], None]) -> Cancellable:
        return self._loop.call_soon(callback)

    def call_later(self, delay_ms: int, callback: Callable[[], None]) -> Cancellable:
        return self._loop.call_later(delay_ms / 1000, callback)
