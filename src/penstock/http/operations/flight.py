"""What a stream has sent and nobody has settled: bounded, so that a slow consumer gets no more.

    sent ─► settled here (ack, release, reject)  ─► room for another one
         └► its time is over                     ─► the same: it comes again

What is said at another process is not heard: there, only the end of the time makes room.

Source: ours; Kafka's `share.record.locks` is the nodes' own bound.
"""

import asyncio
import heapq

from penstock.http.upstream.receipts import Handle

Place = tuple[str, int, int]


class Flight:
    """See the module; one for each stream."""

    def __init__(self, count_max: int) -> None:
        self._count_max = count_max
        self._until: dict[Place, float] = {}
        self._ends: list[tuple[float, Place]] = []
        self._has_room = asyncio.Event()

    def __len__(self) -> int:
        return len(self._until)

    def room(self, now: float) -> int:
        """Return how many may be sent more."""
        while self._ends and self._ends[0][0] <= now:
            until, place = heapq.heappop(self._ends)
            if self._until.get(place) == until:
                del self._until[place]
        return self._count_max - len(self._until)

    def add(self, handle: Handle, until: float) -> None:
        """Note a message that is sent, or kept for longer."""
        self._until[handle.place] = until
        heapq.heappush(self._ends, (until, handle.place))
        if len(self._ends) > 2 * self._count_max + len(self._until):
            self._ends = [(end, place) for place, end in self._until.items()]
            heapq.heapify(self._ends)

    def settled(self, handle: Handle, renewed: Handle | None) -> None:
        """Hear what was said of a message."""
        if handle.place not in self._until:
            return
        if renewed is None:
            del self._until[handle.place]
            self._has_room.set()
        else:
            now = asyncio.get_running_loop().time()
            self.add(renewed, now + renewed.receipt.invisible_ms / 1000)

    async def until_room(self, now: float, most_s: float) -> None:
        """Wait until one is settled, the next one's time is over, or for so long."""
        next_end = self._ends[0][0] - now if self._ends else most_s
        self._has_room.clear()
        try:
            async with asyncio.timeout(max(min(next_end, most_s), 0)):
                await self._has_room.wait()
        except TimeoutError:
            return
