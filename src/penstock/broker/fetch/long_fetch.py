"""A fetch of many partitions: decoded, read and answered in slices, parked within a limit.

    connection held ─► room for an answer ─► share of partitions ─► decode in slices ─► session
        ─► read, SLICE partitions per iteration ─► records, error: answer, encoded in slices
               ▲                            └──► nothing: park
               └── room for an answer ◄── woken ◄┘ └──► deadline: answer

There is one per connection at a time. It reads in the places of long requests, once there is room
for an answer (net/answers/answer_room.py), which is kept until the answer is sent. The partitions
that all long fetches together read and are parked on are limited (partition_shares.py) and count
against the memory budget. Room is acquired first: a client that does not receive its answers waits
without a share of partitions.

Once records were found, the remaining partitions are checked without being read; they come first
next time, as a session moves the served ones to its end. The answer is sent with whatever was
found: honouring the fetch's minimum bytes would mean adding up all partitions at every wake-up.

Source: operation.py, which reads the partitions; Kafka `DelayedFetch`.
"""

import asyncio
from collections.abc import Iterator
from contextlib import suppress
from typing import TYPE_CHECKING

from penstock.broker.fetch.consumer import Consumer
from penstock.broker.fetch.operation import FetchOperation
from penstock.broker.fetch.partition_read import PartitionRead
from penstock.broker.fetch.partition_shares import PARTITION_BYTES

if TYPE_CHECKING:
    from penstock.broker.broker import Broker
    from penstock.net.connection import Connection

SLICE = 100
"""Partitions that are read in one iteration of the event loop."""
PARTITIONS_HERE = 500
"""A fetch of more partitions is a long one."""
LOOK_AGAIN_S = 0.05
"""Pause after an empty read, so that many small appends wake a fetch of many partitions once."""
PEER_CHECK_S = 1.0


class LongFetch:
    """One fetch: `begin`, `read` the partitions, answer, `close`. Used once."""

    __slots__ = (
        "_broker",
        "_connection",
        "_consumer",
        "_granted",
        "_is_parked",
        "_kept",
        "_max_bytes",
        "_partitions",
        "_reads",
        "_woken",
    )

    def __init__(self, broker: "Broker", connection: "Connection") -> None:
        self._broker = broker
        self._connection = connection
        self._reads: list[PartitionRead] = []
        self._consumer: Consumer
        self._max_bytes = self._granted = 0
        self._partitions = 0
        """Partitions of the broker's limit that this fetch occupies."""
        self._is_parked = False
        self._kept = 0
        """Bytes counted for the records that a read may find, or has found."""
        self._woken = asyncio.Event()

    async def begin(self, partitions: int) -> bool:
        """Wait until up to so many partitions may be read; False if the client has disconnected."""
        self._max_bytes = self._connection.answer_bytes_max
        self._granted = await self._room()
        if not self._granted or self._connection.has_gone():
            return False
        await self._broker.fetch_partitions.look(partitions)
        self._count_partitions(partitions)
        return not self._connection.has_gone()

    def have(self, partitions: int) -> None:
        """Set the actual number of partitions, which is mostly lower than the estimate."""
        self._broker.fetch_partitions.leave(self._partitions - partitions)
        self._count_partitions(partitions)

    def on_readable(self) -> int:
        """A partition's end has moved."""
        return self.on_changed()

    def on_changed(self) -> int:
        """A partition was deleted, or has another master or log."""
        self._woken.set()
        return 1

    async def read(
        self, reads: list[PartitionRead], consumer: Consumer, max_bytes: int, max_wait_ms: int
    ) -> bool:
        """Read until there is something to answer or the time is over; False if disconnected.

        `reads` then has the result.
        """
        loop = asyncio.get_running_loop()
        deadline = loop.time() + max_wait_ms / 1000
        self._reads, self._consumer, self._max_bytes = reads, consumer, max_bytes
        is_told = await self._look(min(self._granted, max_bytes))
        if is_told or max_wait_ms <= 0 or not self._park():
            return not self._connection.has_gone()
        self._broker.stats.fetches_parked += 1
        try:
            await self._watch()  # before reading, so that no append is missed
            while not await self._look_again() and await self._is_woken(deadline):
                await self._watch()
        finally:
            await self._leave()
        return not self._connection.has_gone()

    def _park(self) -> bool:
        self._is_parked = self._broker.fetch_partitions.park(self._partitions)
        return self._is_parked

    async def _is_woken(self, deadline: float) -> bool:
        """Wait for a partition; False if the time is over or the client has disconnected.

        The time may be over although there was a wake: appends of an open transaction wake a
        consumer of committed records, who finds nothing, as often as they come.
        """
        loop = asyncio.get_running_loop()
        if loop.time() >= deadline:
            return False
        await asyncio.sleep(LOOK_AGAIN_S)
        while not self._woken.is_set():
            left = deadline - loop.time()
            if left <= 0 or self._connection.has_gone():
                return False
            with suppress(TimeoutError):
                await asyncio.wait_for(self._woken.wait(), min(PEER_CHECK_S, left))
        return True

    def close(self) -> None:
        """Release all that is counted: the result was handed to the connection, or dropped."""
        partitions = self._partitions
        self._keep(0)
        self._count_partitions(0)
        if self._is_parked:
            self._broker.fetch_partitions.unpark(partitions)
        elif partitions:
            self._broker.fetch_partitions.leave(partitions)

    def _keep(self, size: int) -> None:
        if self._kept:
            self._connection.let_go(self._kept)
        self._kept = size
        if size:
            self._connection.keep(size)

    def _count_partitions(self, count: int) -> None:
        more = (count - self._partitions) * PARTITION_BYTES
        self._partitions = count
        if more > 0:
            self._connection.keep(more)
        elif more:
            self._connection.let_go(-more)

    async def _look_again(self) -> bool:
        most = await self._room()
        return not most or await self._look(most)

    async def _look(self, most: int) -> bool:
        """Read all partitions; return whether to answer now, or the client has disconnected."""
        left, is_told = most, False
        async with self._broker.long_places.place(0):
            if self._connection.has_gone():
                return True
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
        """Wait until an answer may be prepared; return its size limit, which is counted."""
        granted: asyncio.Future[int] = asyncio.get_running_loop().create_future()

        def begin(most: int) -> int:
            if granted.done():  # the waiting task was cancelled
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
        """Park on all partitions; one that has woken this fetch has let go of it.

        A wake from here on counts, also one that comes before the next read: its partition is to
        be parked on again.
        """
        self._woken.clear()
        for reads in self._slices():
            await self._broker.turns.next()
            for read in reads:
                hosted = read.hosted
                if hosted is not None:
                    hosted.park(self, read.high_watermark)

    async def _leave(self) -> None:
        for reads in self._slices():
            await self._broker.turns.next()
            for read in reads:
                if read.hosted is not None:
                    read.hosted.leave(self)

    def _slices(self) -> Iterator[list[PartitionRead]]:
        for at in range(0, len(self._reads), SLICE):
            yield self._reads[at : at + SLICE]
