"""Who of all long requests may be decoded now: a few, as decoded ones take much memory.

    place(bytes) ─► wait for one of LONG_PLACES ─► decode, handle, encode ─► the next one's
                         away() ─► waits for controllers or replicas ─► a place again

What waits for somebody else does nothing meanwhile, so its place is free for others: else a few
requests that nobody answers (controllers are electing, a set has too few in step) would keep every
long one waiting. Decoded requests that are away still take memory: only so many bytes of them.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

LONG_PLACES = 2
"""100,000 elements are some 50 MB of objects. They take turns on one loop: more places serve no
more requests."""
LET_GO_BYTES = 1 << 20
"""When so many bytes were decoded and nobody has a place any more, memory can be given back."""
AWAY_BYTES_MAX = 2 << 20
"""Of frames whose requests are away. Decoded they are some thirty times as much."""


class LongPlaces:
    """Places, and who has one. One for a broker."""

    def __init__(self) -> None:
        self._free = asyncio.Semaphore(LONG_PLACES)
        self._holders: dict[asyncio.Task[object] | None, int] = {}
        self._away_bytes = 0
        self._decoded_bytes = 0

    @property
    def is_idle(self) -> bool:
        """Whether nobody has a place."""
        return not self._holders

    def has_let_go(self) -> bool:
        """Whether much was decoded and is gone; says so once."""
        if self._decoded_bytes < LET_GO_BYTES or not self.is_idle:
            return False
        self._decoded_bytes = 0
        return True

    @asynccontextmanager
    async def place(self, frame_bytes: int) -> AsyncIterator[None]:
        """Have one of the places, in the order of asking; for a request of so many bytes."""
        await self._take(frame_bytes)
        self._decoded_bytes += frame_bytes
        try:
            yield
        finally:
            self._leave()

    @asynccontextmanager
    async def away(self) -> AsyncIterator[None]:
        """Leave the place of this task to others, if it has one, until the block has ended."""
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
        """Do the same before anything was decoded: then what waits are bytes, however many."""
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
        """Not there where the task was cancelled as it waited to come back."""
        if self._holders.pop(asyncio.current_task(), None) is not None:
            self._free.release()
