"""Room for bytes that are under way, in the order of asking."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class ByteRoom:
    """Counts bytes up to a number; more than that has all of the room, and comes alone."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._waiting: deque[tuple[int, asyncio.Future[None]]] = deque()
        self.held = 0

    @asynccontextmanager
    async def room(self, size: int) -> AsyncIterator[None]:
        """Wait until so many bytes fit, and count them until this is left."""
        size = min(size, self._most)
        await self._enter(size)
        try:
            yield
        finally:
            self._leave(size)

    async def _enter(self, size: int) -> None:
        if not self._waiting and self.held + size <= self._most:
            self.held += size
            return
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((size, future))
        try:
            await future
        except asyncio.CancelledError:
            if future.cancelled():
                self._grant()
            else:  # it was granted in the turn in which whoever waits was cancelled
                self._leave(size)
            raise

    def _leave(self, size: int) -> None:
        self.held -= size
        self._grant()

    def _grant(self) -> None:
        while self._waiting:
            size, future = self._waiting[0]
            if not future.done() and self.held + size > self._most:
                return
            self._waiting.popleft()
            if not future.done():
                self.held += size
                future.set_result(None)
