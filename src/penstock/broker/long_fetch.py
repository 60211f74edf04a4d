"""A fetch of many partitions: decoded, looked at and answered in slices, and parked at a bound.

    connection held ─► decode in slices ─► session ─► look, SLICE partitions in a turn
        ▲                                               │ nothing there
        └─ answer, encoded in slices ◄── found, error, deadline ◄── parked until woken, look again

One of a connection at a time, and looked at in the places of long requests, when there is room for
an answer (net/answer_room.py); that room is kept until the answer is sent. The partitions that
all of them together are parked on are bounded: who finds no room is answered at once, with nothing.
A look that has found records goes through the others without reading: they come next time, as a
session puts what was served behind them. It answers with what there is: the least number of bytes
that a fetch may ask for would have to be counted over all of them at every wake-up.

Source: fetch_operation.py, which does the looking; Kafka `DelayedFetch`.
"""

import asyncio
from collections.abc import Iterator
from contextlib import suppress
from typing import TYPE_CHECKING

from penstock.broker.fetch_operation import Consumer, FetchOperation, PartitionRead

if TYPE_CHECKING:
    from penstock.broker.broker import Broker
    from penstock.net.connection import Connection

SLICE = 200
"""Partitions that are looked at in one turn of the loop."""
PARTITIONS_HERE = 500
"""A fetch of more is a long one."""
PARKED_PARTITIONS_MAX = 200_000
"""Of all long fetches together: half a kilobyte each."""
LOOK_AGAIN_S = 0.05
"""From one look in vain to the next: many small appends wake a fetch of many partitions once."""
PEER_CHECK_S = 1.0


class LongFetch:
    """The looks of one fetch; `read` gives what they found, until `close`. Use once."""

    __slots__ = ("_broker", "_connection", "_consumer", "_kept", "_max_bytes", "_woken", "reads")

    def __init__(
        self,
        broker: "Broker",
        connection: "Connection",
        reads: list[PartitionRead],
        *,
        max_bytes: int,
        consumer: Consumer,
    ) -> None:
        self._broker = broker
        self._connection = connection
        self.reads = reads
        self._max_bytes = max_bytes
        self._consumer = consumer
        self._kept = 0
        """Bytes that are counted for what a look may find, or has found."""
        self._woken = asyncio.Event()

    def on_readable(self) -> None:
        """A partition's end has moved."""
        self._woken.set()

    def on_changed(self) -> None:
        """A partition is gone, or has another master or log."""
        self._woken.set()

    async def read(self, max_wait_ms: int) -> None:
        """Look until there is something to tell, or the time is over, or the peer has gone."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + max_wait_ms / 1000
        if await self._look() or max_wait_ms <= 0:
            return
        broker = self._broker
        if broker.parked_partitions + len(self.reads) > PARKED_PARTITIONS_MAX:
            return
        broker.parked_partitions += len(self.reads)
        broker.stats.fetches_parked += 1
        try:
            await self._watch()  # before the look: what comes meanwhile wakes it
            while not await self._look() and await self._is_woken(deadline):
                await self._watch()
        finally:
            broker.parked_partitions -= len(self.reads)
            await self._leave()

    async def _is_woken(self, deadline: float) -> bool:
        """Wait for a partition; False when the time is over, or the peer has gone."""
        loop = asyncio.get_running_loop()
        await asyncio.sleep(LOOK_AGAIN_S)
        while not self._woken.is_set():
            left = deadline - loop.time()
            if left <= 0 or self._connection.has_gone():
                return False
            with suppress(TimeoutError):
                await asyncio.wait_for(self._woken.wait(), min(PEER_CHECK_S, left))
        return True

    def close(self) -> None:
        """Count what was found no more: it is on its way to the peer, or gone."""
        self._keep(0)

    def _keep(self, size: int) -> None:
        if self._kept:
            self._connection.let_go(self._kept)
        self._kept = size
        if size:
            self._connection.keep(size)

    async def _look(self) -> bool:
        """Look at all partitions; returns whether there is something to tell, or nobody to tell."""
        most = await self._room()
        left, is_told = most, False
        async with self._broker.long_places:
            if not most or self._connection.has_gone():
                return True
            self._woken.clear()
            for reads in self._slices():
                await self._broker.turns.next()
                await self._look_at(reads, left)
                found = sum([read.size for read in reads])
                if found:
                    left = 0
                    self._keep(found)
                is_told = is_told or found > 0 or any(read.is_told for read in reads)
        if left:
            self._keep(0)
        return is_told

    async def _room(self) -> int:
        """Wait until an answer may be prepared; returns of how many bytes, and keeps as many."""
        granted: asyncio.Future[int] = asyncio.get_running_loop().create_future()

        def begin(most: int) -> int:
            if granted.done():  # who waited was cancelled
                return 0
            granted.set_result(most)
            self._keep(most)
            return most

        self._connection.ask_room(self._max_bytes, begin)
        return await granted

    async def _look_at(self, reads: list[PartitionRead], max_bytes: int) -> None:
        done = asyncio.Event()
        operation = FetchOperation(
            self._broker,
            reads,
            min_bytes=0,
            max_bytes=max_bytes,
            on_done=lambda _: done.set(),
            consumer=self._consumer,
        )
        operation.start(0)
        await done.wait()

    async def _watch(self) -> None:
        for reads in self._slices():
            await self._broker.turns.next()
            for read in reads:
                hosted = read.hosted
                if hosted is not None:
                    hosted.waiters[self] = None
                    hosted.seen_high_watermark = read.high_watermark
                    hosted.watch()

    async def _leave(self) -> None:
        for reads in self._slices():
            await self._broker.turns.next()
            for read in reads:
                if read.hosted is not None:
                    read.hosted.waiters.pop(self, None)

    def _slices(self) -> Iterator[list[PartitionRead]]:
        for at in range(0, len(self.reads), SLICE):
            yield self.reads[at : at + SLICE]
