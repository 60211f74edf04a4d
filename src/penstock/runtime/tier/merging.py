"""Builds what a copier wants merged, and puts it, beside the copying and behind it.

    reads and puts keep to a rate, all of a node together; one merged object is in memory at a time
    what fails is left alone for a while: a damaged object's partition for longer than the others

Nothing waits for a merge, and a merge that fails makes no copy wait.

Source: docs/adr/0176.
"""

import asyncio
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from penstock.base.ports import Clock
from penstock.base.token_bucket import TokenBucket
from penstock.tier.copies.effects import MergePlan
from penstock.tier.copies.merge_plan import MergePlanner
from penstock.tier.copies.source import Image
from penstock.tier.errors import LostObject, LyingObject
from penstock.tier.port import ObjectStore
from penstock.tier.read.merge import build_merged
from penstock.tier.read.reader import TierReader

SUMMARIES_BYTES = 1 << 20
"""Of those that are kept: the present run's is asked for a few times."""
DAMAGED_MS = 3_600_000
"""For how long the partition of an object that can not be read is left out."""
FAILED_MS = 300_000
"""Before anything is merged after a store that failed."""

T = TypeVar("T")


class MergeRoom:
    """What the merges of one node share: a rate, a place in memory, a thread."""

    def __init__(self, clock: Clock, bytes_per_second: int) -> None:
        self._clock = clock
        self._bucket = TokenBucket(bytes_per_second, clock.monotonic_us())
        self._threads = ThreadPoolExecutor(1, "tier-merges")
        self.place = asyncio.Semaphore(1)

    def has_place(self) -> bool:
        """Whether no merge is under way."""
        return not self.place.locked()

    async def pace(self, size: int) -> None:
        """Wait until so many bytes are within the rate."""
        wait_us = self._bucket.take(size, self._clock.monotonic_us())
        if wait_us:
            await asyncio.sleep(wait_us / 1_000_000)

    async def work(self, work: Callable[[], T]) -> T:
        """Call a function beside the loop."""
        return await asyncio.get_running_loop().run_in_executor(self._threads, work)


class Merging:
    """The merges of one mastership."""

    def __init__(
        self,
        store: ObjectStore,
        planner: MergePlanner,
        room: MergeRoom,
        identity: tuple[bytes, int],
    ) -> None:
        """`identity`: cluster and replica set."""
        self.planner = planner
        self._room = room
        self._identity = identity
        self._reader = TierReader(store, SUMMARIES_BYTES, work=room.work)

    async def put(self, plan: MergePlan, put: Callable[[Image], Awaitable[None]]) -> None:
        """Build an object and have it put. Raises PlatformError: it is not there, or unknown."""
        async with self._room.place:
            image = await build_merged(
                self._reader, plan, self._identity, pace=self._room.pace, work=self._room.work
            )
            await self._room.pace(sum(len(chunk) for chunk in image.file))
            await put(image)

    def failed(self, plan: MergePlan, error: Exception) -> None:
        """Leave alone for a while what has let a merge fail."""
        match error:
            case LostObject(topic_partition=key):
                self.planner.put_off(key, DAMAGED_MS)
            case LyingObject(name=name):
                for one in plan:
                    if any(str(run.name) == name for run in one.runs):
                        self.planner.put_off(one.part.topic_partition, DAMAGED_MS)
            case _:
                self.planner.pause(FAILED_MS)
