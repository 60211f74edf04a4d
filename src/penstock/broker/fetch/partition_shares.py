"""Limits how many partitions all long fetches together read, and are parked on.

    look(count) ─► wait, holding only the request ─► decode, read the logs, answer ─► leave
                                                       └─ nothing found ─► park ─► unpark

Every partition in a fetch takes half a kilobyte of objects, and a request of one megabyte names
60,000 of them. So a long fetch waits for its share before it is decoded. If it finds nothing, it
may be parked while the limit permits; otherwise it is answered at once, without records.
"""

import asyncio
from collections import deque

LOOKING_MAX = 40_000
"""A fetch with more partitions is read alone."""
PARKED_MAX = 100_000
PARTITION_BYTES = 512
"""Memory of a partition that is read or parked on, in bytes."""


class FetchPartitions:
    """Counts the partitions and queues the fetches that wait. One for each broker."""

    def __init__(self) -> None:
        self.parked = 0
        self.looking = 0
        self._waiting: deque[tuple[asyncio.Future[None], int]] = deque()

    async def look(self, count: int) -> None:
        """Wait until so many partitions may be read, in order of arrival."""
        if not self._waiting and self._fits(count):
            self.looking += count
            return
        place: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((place, count))
        try:
            await place
        except asyncio.CancelledError:
            if place.done() and not place.cancelled():
                self.leave(count)
            raise

    def leave(self, count: int) -> None:
        """Release so many partitions: the fetch has ended, or has fewer than estimated."""
        self.looking -= count
        while self._waiting:
            place, wanted = self._waiting[0]
            if not place.done():  # else the waiting task was cancelled
                if not self._fits(wanted):
                    return
                self.looking += wanted
                place.set_result(None)
            self._waiting.popleft()

    def park(self, count: int) -> bool:
        """Be parked on so many partitions that were read; False if the limit is reached."""
        if self.parked + count > PARKED_MAX:
            return False
        self.parked += count
        self.leave(count)
        return True

    def unpark(self, count: int) -> None:
        """Release so many parked partitions."""
        self.parked -= count

    def _fits(self, count: int) -> bool:
        return not self.looking or self.looking + count <= LOOKING_MAX
