"""Reads the trace of messages, and compares it with what the members of the group saw."""

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from random import Random

from penstock.finding.traces import TOPIC as TRACE
from simulator.clients.reading.row_topic import RowTopicReader
from simulator.clients.shares.sharers import DELIVERIES_MAX, GROUP, TOPIC, Sharers
from simulator.clients.wire import LinkFailed
from simulator.clients.world import ClientWorld
from simulator.history.traces import Shared, TraceBook, judge, missing

LOOK_SECONDS = 0.3
FINDINGS_MAX = 5


@dataclass(slots=True, kw_only=True)
class TraceReader:
    """See the module."""

    world: ClientWorld
    random: Random
    sharers: Sharers
    percent: float
    book: TraceBook = field(default_factory=TraceBook)

    async def run(self) -> None:
        """Read until the run is over."""
        reader = RowTopicReader(
            world=self.world, random=self.random, topic=TRACE, add=self.book.add
        )
        while not self.world.is_over:
            await asyncio.sleep(LOOK_SECONDS)
            if self.world.is_stopping:
                try:
                    await reader.read()
                except LinkFailed:
                    continue

    @property
    def _shared(self) -> Shared:
        sharers = self.sharers
        return Shared(TOPIC, GROUP, sharers.notes, sharers.written, DELIVERIES_MAX, self.percent)

    def behind(self, counts_on: Callable[[int, float, str], bool]) -> Iterator[str]:
        """Name what is not written yet, of what processes have confirmed that live on.

        `counts_on` tells this of a broker, a time and the topic of rows.
        """
        for why, word in missing(self.book, self._shared):
            if counts_on(word.leader, word.asked_ns / 1e9, TRACE):
                yield why

    def judge(self) -> list[str]:
        """Return what is wrong with the rows."""
        found = islice(judge(self.book, self._shared), FINDINGS_MAX)
        return [f"trace of messages: {text}" for text in found]
