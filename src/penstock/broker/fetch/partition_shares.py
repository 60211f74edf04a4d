"""How many partitions long fetches look at, and are parked on: of all clients together.

    look(count) ─► wait, holding only the request ─► decode, look at the logs, answer ─► leave
                                                       └─ nothing there ─► park ─► unpark

Every partition that is looked at takes half a kilobyte of objects, and a request of one megabyte
names 60,000 of them. So a long fetch waits for its share before it is decoded. Who then finds
nothing may be parked, where there is room for that; else it is answered at once, with nothing.
"""

import asyncio
from collections import deque

LOOKING_MAX = 40_000
"""A fetch of more looks alone."""
PARKED_MAX = 100_000
PARTITION_BYTES = 512
"""What a partition takes that is looked at or parked on."""


class FetchPartitions:
    """Counts them, and who waits. One for a broker."""

    def __init__(self) -> None:
        self.parked = 0
        self.looking = 0
        self._waiting: deque[tuple[asyncio.Future[None], int]] = deque()

    async def look(self, count: int) -> None:
        """Wait until so many partitions may be looked at, in the order of asking."""
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
        """Look at so many no more, or at so many less than was thought."""
        self.looking -= count
        while self._waiting:
            place, wanted = self._waiting[0]
            if not place.done():  # else who waited was cancelled
                if not self._fits(wanted):
                    return
                self.looking += wanted
                place.set_result(None)
            self._waiting.popleft()

    def park(self, count: int) -> bool:
        """Be parked on so many that were looked at; False: there is no room for that."""
        if self.parked + count > PARKED_MAX:
            return False
        self.parked += count
        self.leave(count)
        return True

    def unpark(self, count: int) -> None:
        """Be parked on so many no more."""
        self.parked -= count

    def _fits(self, count: int) -> bool:
        return not self.looking or self.looking + count <= LOOKING_MAX
