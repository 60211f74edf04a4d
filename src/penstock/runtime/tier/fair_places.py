"""Places for reads of a slow store, shared out among the addresses that ask for them.

    take ─► has its address its share? ─► refused
                     └─► waits ─► has its address fewest at work? ─► works ─► over

Of what may wait or be at work an address has at most as many as are left free: one alone half of
all, the next one a quarter. So a newcomer finds some, and nobody's are taken away. Of the places
one address has all but one, so that a newcomer does not wait for the reads of whoever came first.

Source: dynamic thresholds of shared memory (Choudhury and Hahne, 1998); broker/look_ups.py.
"""

import asyncio
from collections import Counter, deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class FairPlaces:
    """Reads that wait or are at work, by address."""

    def __init__(self, at_once: int, limit: int) -> None:
        """`at_once` may be at work, `limit` at work or waiting."""
        self._at_once = at_once
        self._limit = limit
        self._of: Counter[str] = Counter()
        self._at_work: Counter[str] = Counter()
        self._waiting: dict[str, deque[asyncio.Future[None]]] = {}
        """By address, the one that was served last at the end; none is empty."""

    def take(self, host: str) -> bool:
        """Count one more of an address, until `give_back`; False: it has its share already."""
        if self._of[host] >= self._limit - self._of.total():
            return False
        self._of[host] += 1
        return True

    def give_back(self, host: str) -> None:
        """Count one less."""
        _less(self._of, host)

    @asynccontextmanager
    async def work(self, host: str) -> AsyncIterator[None]:
        """Wait for a place, and have it until this is left."""
        await self._enter(host)
        try:
            yield
        finally:
            self._leave(host)

    async def _enter(self, host: str) -> None:
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(host, deque()).append(future)
        self._grant()
        try:
            await future
        except asyncio.CancelledError:
            if future.cancelled():
                self._grant()
            else:  # it was granted in the turn in which whoever waits was cancelled
                self._leave(host)
            raise

    def _leave(self, host: str) -> None:
        _less(self._at_work, host)
        self._grant()

    def _grant(self) -> None:
        while (host := self._next()) is not None:
            waiting = self._waiting.pop(host)
            future = waiting.popleft()
            if waiting:
                self._waiting[host] = waiting
            if not future.done():
                self._at_work[host] += 1
                future.set_result(None)

    def _next(self) -> str | None:
        """Return whose turn it is; None while nobody may begin."""
        if self._at_work.total() >= self._at_once or not self._waiting:
            return None
        host = min(self._waiting, key=lambda one: self._at_work[one])
        most = max(1, self._at_once - 1)
        return host if self._at_work[host] < most else None


class Tickets:
    """Whose turn it is to have the one place, where nobody waits but all come again.

    Who finds it taken has a ticket, which is good as long as it comes again within some seconds.
    """

    def __init__(self, most: int, good_for_seconds: float) -> None:
        self._most = most
        self._good_for = good_for_seconds
        self._asked: dict[str, float] = {}
        """When they came last; the first one's turn it is."""

    def may_begin(self, host: str, now: float, *, is_free: bool) -> bool:
        """Whether an address may begin now; it has a ticket otherwise, if there is room."""
        self._asked = {
            one: asked for one, asked in self._asked.items() if now - asked <= self._good_for
        }
        first = next(iter(self._asked), host)
        if is_free and first == host:
            self._asked.pop(host, None)
            return True
        if host in self._asked or len(self._asked) < self._most:
            self._asked[host] = now
        return False


def _less(counts: Counter[str], host: str) -> None:
    counts[host] -= 1
    if not counts[host]:
        del counts[host]
