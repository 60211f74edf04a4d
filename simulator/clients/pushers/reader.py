"""Reads the rows of clients' metrics, once nobody pushes any more."""

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from random import Random

from penstock.telemetry.row import TOPIC as METRICS
from simulator.clients.pushers.pusher import Pusher
from simulator.clients.reading.row_topic import RowTopicReader
from simulator.clients.wire import LinkFailed
from simulator.clients.world import ClientWorld
from simulator.history.pushes import PushBook, Pushed, judge, missing

LOOK_SECONDS = 0.3


@dataclass(slots=True, kw_only=True)
class PushReader:
    """See the module."""

    world: ClientWorld
    random: Random
    pushers: list[Pusher]
    book: PushBook = field(default_factory=PushBook)

    async def run(self) -> None:
        """Read until the run is over."""
        reader = RowTopicReader(
            world=self.world, random=self.random, topic=METRICS, add=self.book.add
        )
        while not self.world.is_over:
            await asyncio.sleep(LOOK_SECONDS)
            if self.world.is_stopping:
                try:
                    await reader.read()
                except LinkFailed:
                    continue

    @property
    def pushes(self) -> list[Pushed]:
        """All that was pushed."""
        return [push for one in self.pushers for push in one.pushes]

    def behind(self, counts_on: Callable[[int, float, str], bool]) -> Iterator[str]:
        """Name what is not written yet, of what processes have taken that live on and may write.

        `counts_on` tells this of a broker, a time and the topic of rows.
        """
        for push in self.pushes:
            if (why := missing(self.book, push)) and counts_on(push.node, push.began_s, METRICS):
                yield f"row of {why}"

    def judge(self) -> list[str]:
        """Return what is wrong with the rows."""
        return [f"client metrics: {text}" for text in judge(self.book, self.pushes)]
