"""Limits how many long requests are decoded at a time, as decoded ones take much memory.

    place(bytes) ─► wait for one of LONG_PLACES ─► decode, handle, encode ─► the next request
                         away() ─► waits for controllers or replicas ─► waits for a place again

A request that waits for controllers or replicas needs no time of the loop, so its place is free for
others. Otherwise a few requests that cannot be answered now (an election of controllers, too few
members in sync) would keep every long one waiting. Decoded requests that are away still take
memory, so their bytes are limited too.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

LONG_PLACES = 2
"""100,000 elements are some 50 MB of objects. All share one event loop, so that more places would
not serve more requests."""
LET_GO_BYTES = 1 << 20
"""Decoded bytes after which, once no request has a place, memory is worth giving back."""
AWAY_BYTES_MAX = 2 << 20
"""Bytes of frames whose requests are away. Decoded they take some thirty times as much."""


class LongPlaces:
    """The places, and the tasks that have one. One for each broker."""

    def __init__(self) -> None:
        self._free = asyncio.Semaphore(LONG_PLACES)
        self._holders: dict[asyncio.Task[object] | None, int] = {}
        self._away_bytes = 0
        self._decoded_bytes = 0

    @property
    def is_idle(self) -> bool:
        """Whether no request has a place."""
        return not self._holders

    def has_let_go(self) -> bool:
        """Whether much was decoded and freed since the last call that returned True."""
        if self._decoded_bytes < LET_GO_BYTES or not self.is_idle:
            return False
        self._decoded_bytes = 0
        return True

    @asynccontextmanager
    async def place(self, frame_bytes: int) -> AsyncIterator[None]:
        """Hold one of the places, in order of arrival, for a request of so many bytes."""
        await self._take(frame_bytes)
        self._decoded_bytes += frame_bytes
        try:
            yield
        finally:
            self._leave()

    @asynccontextmanager
    async def away(self) -> AsyncIterator[None]:
        """Release this task's place, if it has one, for the duration of the block."""
        size = self._holders.get(asyncio.current_task()) if self._holders else None
        if size is None or self._away_bytes + size > AWAY_BYTES_MAX:
            yield
            return
        self._away_bytes += size
        try:
            async with self.aside():
                yield
        finally:
            self._away_bytes -= size

    @asynccontextmanager
    async def aside(self) -> AsyncIterator[None]:
        """As `away`, before anything was decoded: only bytes wait, so they are not limited here."""
        size = self._holders[asyncio.current_task()]
        self._leave()
        try:
            yield
        finally:
            await self._take(size)

    async def _take(self, size: int) -> None:
        await self._free.acquire()
        self._holders[asyncio.current_task()] = size

    def _leave(self) -> None:
        """Release the place, unless the task was cancelled while it waited to come back."""
        if self._holders.pop(asyncio.current_task(), None) is not None:
            self._free.release()
