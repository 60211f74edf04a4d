"""The share group of a run: who writes, who takes and settles, and what must be true in the end.

    accepted, rejected    never handed out again
    handed out            as it was written, and never of a transaction that was aborted
    everything            is settled within the time of a lock after the last fault

An administrator moves and forgets shares of other groups. In half of the runs with sharers a
producer of transactions writes to the topic as well, and the group reads what is committed.

Source: KIP-932.
"""

from collections.abc import Callable, Coroutine, Iterator
from random import Random
from typing import Any

from simulator.clients.feeder import PARTITIONS, Feeder
from simulator.clients.group_settings import set_of_group
from simulator.clients.shares.keeper import ShareKeeper
from simulator.clients.shares.sharer import Sharer
from simulator.clients.shares.writer import SharedWriter
from simulator.clients.transactions import create_topic
from simulator.clients.world import ClientWorld
from simulator.history.shares import Place, ShareNotes, judge_shares, left_over
from simulator.kernel.process import Process
from simulator.kernel.simulation import Simulation

TOPIC, GROUP = "shared", "sharers"
LOCK_MS = 15_000
DELIVERIES_MAX = 5
COMMITTED_SHARE = 0.5
"""Of groups, that read what is committed."""
TOLD_MAX = 3
Start = Callable[[str, list[Coroutine[Any, Any, None]]], Process]


class Sharers:
    """`count` members of one group."""

    def __init__(self, simulation: Simulation, world: ClientWorld, count: int) -> None:
        self._world = world
        self._random = simulation.random("sharers")
        self.notes = ShareNotes()
        self.feeder = Feeder(world=world, random=simulation.random("shared-feeder"), topic=TOPIC)
        self.keeper = ShareKeeper(
            world=world,
            random=simulation.random("share-keeper"),
            topic=TOPIC,
            members_group=GROUP,
            feeder=self.feeder,
        )
        committed = simulation.random("shared-writer")
        self.writer: SharedWriter | None = None
        if committed.random() < COMMITTED_SHARE:
            self.writer = SharedWriter(
                world=world,
                name="shared-tx",
                topic=TOPIC,
                random=committed,
                version=committed.choice((1, 2)),
            )
        self.sharers = [
            Sharer(
                world=world,
                group=GROUP,
                topic=TOPIC,
                number=number,
                random=simulation.random(f"sharer{number}"),
                notes=self.notes,
            )
            for number in range(count)
        ]

    def start(self, start: Start) -> list[Process]:
        """Start them; returns the processes of those that write."""
        writers = [start("shared-feeder", [self._feed()])]
        if self.writer is not None:
            writers.append(start("shared-writer", [self._write(self.writer)]))
        start("share-keeper", [self._keep()])
        for one in self.sharers:
            start(f"sharer{one.number}", [self._share(one)])
        return writers

    async def _feed(self) -> None:
        await create_topic(self._world, self._random, TOPIC, PARTITIONS)
        await self.feeder.run()

    async def _write(self, writer: SharedWriter) -> None:
        await create_topic(self._world, writer.random, TOPIC, PARTITIONS)
        await writer.run()

    async def _keep(self) -> None:
        await create_topic(self._world, self.keeper.random, TOPIC, PARTITIONS)
        await self.keeper.run()

    async def _share(self, one: Sharer) -> None:
        await create_topic(self._world, one.random, TOPIC, PARTITIONS)
        await configure(self._world, one.random, is_committed=self.writer is not None)
        await one.run()

    @property
    def written(self) -> dict[Place, str]:
        """What was acknowledged, and committed, by partition and offset."""
        committed = {} if self.writer is None else self.writer.committed
        return committed | {
            (partition, offset): value
            for partition, values in self.feeder.written.items()
            for offset, value in values.items()
        }

    def behind(self) -> Iterator[str]:
        """Name the records that are not over."""
        left = left_over(self.notes, self.written, DELIVERIES_MAX)
        said = ", ".join(f"{one.number}: {one.last_error or 'fine'}" for one in self.sharers)
        yield from (f"{text} (sharers {said})" for text in left[:TOLD_MAX])

    def judge(self) -> list[str]:
        """Return what members were told and must not be."""
        aborted = frozenset[str]() if self.writer is None else self.writer.aborted
        return judge_shares(self.notes, self.written, self._world.rules, aborted)


async def configure(world: ClientWorld, draw: Random, *, is_committed: bool) -> None:
    """Let the group begin at the beginning, with short locks; returns when it is so."""
    keys = {"share.auto.offset.reset": "earliest", "share.record.lock.duration.ms": str(LOCK_MS)}
    if is_committed:
        keys["share.isolation.level"] = "read_committed"
    await set_of_group(world, draw, GROUP, keys)
