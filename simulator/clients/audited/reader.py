"""Reads the rows of the audit, once nobody does anything that is compared with them any more."""

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from random import Random

from penstock.audit.row import TOPIC as AUDIT
from simulator.clients.audited.visitor import Visitor
from simulator.clients.reading.row_topic import RowTopicReader
from simulator.clients.wire import LinkFailed
from simulator.clients.world import ClientWorld
from simulator.history.audit import Book, judge, missing

LOOK_SECONDS = 0.3


@dataclass(slots=True, kw_only=True)
class RowReader:
    """See the module."""

    world: ClientWorld
    random: Random
    visitors: list[Visitor]
    book: Book = field(default_factory=Book)
    looks: int = 0
    """Times that every partition was read to its end."""

    async def run(self) -> None:
        """Read until the run is over."""
        reader = RowTopicReader(
            world=self.world, random=self.random, topic=AUDIT, add=self.book.add
        )
        while not self.world.is_over:
            await asyncio.sleep(LOOK_SECONDS)
            if not self.world.is_stopping:
                continue
            try:
                await reader.read()
            except LinkFailed:
                continue
            self.looks += 1

    def behind(self, counts_on: Callable[[int, float, str], bool]) -> Iterator[str]:
        """Name what is not written yet, of what processes count that live on and may write.

        `counts_on` tells this of a broker, the time at which it was visited, and the topic of rows.
        """
        if not self.looks:
            yield "the rows of the audit are not read"
        for one in self.visitors:
            for visit in one.visits:
                why = missing(self.book, visit)
                if why and counts_on(visit.node, visit.began_s, AUDIT):
                    yield f"row of {why}"

    def judge(self) -> list[str]:
        """Return what is wrong with the rows."""
        visits = [visit for one in self.visitors for visit in one.visits]
        return [f"audit: {text}" for text in judge(self.book, visits)]
