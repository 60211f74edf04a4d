"""The object store of a cluster, and each host's way to it: requests take time, and may go wrong.

    request ─► a moment ─► its effect in the bucket ─► a moment ─► the answer, if it is not lost

A request that has left goes on: whoever sent it may be killed, give up, or stand still meanwhile.
So a put may land after its writer's time-out, but never later than PUT_S_MAX after it was sent.

    SharedStore    the bucket, and what is wrong with the way of which host
    DistantStore   the port of the tier for one process
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextvars import Context
from enum import Enum
from random import Random
from typing import Any, TypeVar

from penstock.base.ids import TopicPartition
from penstock.base.ports import Buffer
from penstock.tier.errors import TierError
from penstock.tier.metadata.manifest import Snapshot
from penstock.tier.port import Condition, Plain, Stat, Version
from simulator.kernel.object_store import Bucket, Fate, ModelledStore

T = TypeVar("T")
Outcome = tuple[tuple[T] | None, TierError | None]
"""What a request gave, or what it raised."""

WAY_S = (0.001, 0.02)
"""Of a request, and of its answer."""
SLOW_WAY_S = (0.1, 0.6)
LATE_S = (0.05, 0.9)
"""From the failure of a put to its effect."""
PUT_S_MAX = SLOW_WAY_S[1] + LATE_S[1]


class Mood(Enum):
    """What is wrong with a host's way to the store."""

    SLOW = "slow"
    FORGETFUL = "answers are lost"
    LATE = "puts fail, and land later"
    FAILING = "nothing works"


_FATES: dict[Mood, tuple[Fate, ...]] = {
    Mood.SLOW: (Fate.DONE,),
    Mood.FORGETFUL: (Fate.LOST_ANSWER, Fate.DONE),
    Mood.LATE: (Fate.LATE, Fate.LATE, Fate.DONE),
    Mood.FAILING: (Fate.FAILED, Fate.THROTTLED, Fate.REFUSED),
}


class SharedStore:
    """See the module."""

    def __init__(self) -> None:
        self.bucket = Bucket()
        self.moods: dict[str, list[Mood]] = {}
        """Host -> what is wrong with its way; the newest counts."""
        self.told: dict[TopicPartition, Snapshot] = {}
        """What a master was last told of each partition: of all objects, these count."""
        self._sound: dict[str, bytes] = {}

    def mood_of(self, host: str) -> Mood | None:
        """Return what is wrong with a host's way."""
        moods = self.moods.get(host)
        return moods[-1] if moods else None

    @property
    def damaged(self) -> frozenset[str]:
        """Names of the objects of which a bit has turned over."""
        return frozenset(self._sound)

    def flip_bit(self, name: str, position: int, bit: int) -> None:
        """Turn a bit of an object over. Raises KeyError, IndexError."""
        data, version = self.bucket.objects[name]
        damaged = bytearray(data)
        damaged[position] ^= 1 << bit
        self._sound.setdefault(name, data)
        self.bucket.objects[name] = bytes(damaged), version

    def mend(self, name: str) -> None:
        """Make an object as it was, unless it is gone."""
        sound = self._sound.pop(name, None)
        if sound is not None and name in self.bucket.objects:
            self.bucket.objects[name] = sound, self.bucket.objects[name][1]


class DistantStore:
    """See the module. `world()` is the context in which requests go on without their sender."""

    def __init__(
        self, shared: SharedStore, host: str, draw: Random, *, world: Callable[[], Context]
    ) -> None:
        self._shared = shared
        self._host = host
        self._random = draw
        self._world = world
        self._there = ModelledStore(shared.bucket, self._fate_of)

    def _fate_of(self, operation: str, _name: str) -> Fate:
        mood = self._shared.mood_of(self._host)
        if mood is None or (mood is Mood.LATE and operation != "put"):
            return Fate.DONE
        return self._random.choice(_FATES[mood])

    def _way_s(self) -> float:
        is_slow = self._shared.mood_of(self._host) is Mood.SLOW
        return self._random.uniform(*(SLOW_WAY_S if is_slow else WAY_S))

    async def _ask(self, begin: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Have a request done at the store, and return its answer."""
        loop = asyncio.get_running_loop()
        answered: asyncio.Future[Outcome[T]] = loop.create_future()

        def answer(outcome: Outcome[T]) -> None:
            if not answered.done():  # who has asked may have given up
                answered.set_result(outcome)

        def arrive() -> None:
            late_count = len(self._shared.bucket.late)
            outcome = _outcome_of(begin())
            if len(self._shared.bucket.late) > late_count:
                loop.call_later(self._random.uniform(*LATE_S), self._land, context=self._world())
            loop.call_later(self._way_s(), answer, outcome, context=self._world())

        loop.call_later(self._way_s(), arrive, context=self._world())
        result, error = await answered
        if error is not None:
            raise error
        assert result is not None
        return result[0]

    def _land(self) -> None:
        """Let the oldest of the late puts take effect: each has an event like this of its own."""
        self._shared.bucket.land_late()

    async def put(
        self, name: str, chunks: Sequence[Buffer], condition: Condition = Plain.ALWAYS
    ) -> Version:
        """As the port says."""
        data = b"".join(chunks)
        return await self._ask(lambda: self._there.put(name, [data], condition))

    async def put_large(self, name: str, parts: AsyncIterator[Buffer]) -> None:
        """As the port says."""
        await self.put(name, [bytes(part) async for part in parts])

    async def read(self, name: str, position: int, length: int) -> memoryview:
        """As the port says."""
        return (await self.read_many(name, [(position, length)]))[0]

    async def read_many(self, name: str, ranges: Sequence[tuple[int, int]]) -> list[memoryview]:
        """As the port says."""
        return await self._ask(lambda: self._there.read_many(name, ranges))

    async def look(self, name: str) -> Stat:
        """As the port says."""
        return await self._ask(lambda: self._there.look(name))

    async def pages(self, prefix: str) -> AsyncIterator[Sequence[Stat]]:
        """As the port says."""

        async def listed() -> list[Sequence[Stat]]:
            return [page async for page in self._there.pages(prefix)]

        for page in await self._ask(listed):
            yield page

    async def delete(self, names: Sequence[str]) -> None:
        """As the port says."""
        await self._ask(lambda: self._there.delete(names))


def _outcome_of(work: Coroutine[Any, Any, T]) -> Outcome[T]:
    try:
        return (at_once(work),), None
    except TierError as error:
        return None, error


def at_once(work: Coroutine[Any, Any, T]) -> T:
    """Return what a coroutine gives that waits for nothing."""
    try:
        work.send(None)
    except StopIteration as ended:
        result: T = ended.value
        return result
    raise AssertionError("it waits for something")
