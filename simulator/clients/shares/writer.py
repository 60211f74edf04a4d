"""Writes transactions to the topic of a share group that reads what is committed.

    committed   each record is settled in the end, as any other
    aborted     no member is ever given one
    unknown     without an answer to the end: nothing is said of it

Source: KIP-932, "Transactions"; KIP-98.
"""

import asyncio
from dataclasses import dataclass, field
from random import Random

from simulator.clients.feeder import PARTITIONS, TOGETHER_MAX
from simulator.clients.transaction_link import (
    NOWHERE,
    TIMEOUT_MS,
    Fenced,
    Instance,
    Refused,
    TransactionLink,
)
from simulator.clients.world import ClientWorld
from simulator.history.shares import Place

IDLE_SECONDS = (0.05, 0.4)
ABORTED_SHARE, SLOW_SHARE, LEFT_OPEN_SHARE = 0.4, 0.04, 0.05


@dataclass(slots=True, kw_only=True)
class SharedWriter:
    """One transactional id."""

    world: ClientWorld
    name: str
    topic: str
    random: Random
    version: int
    committed: dict[Place, str] = field(default_factory=dict)
    aborted: set[str] = field(default_factory=set)
    link: TransactionLink = field(init=False)
    _open: list[str] = field(default_factory=list)
    """Values of the transaction that is open, whose commit nobody has asked for."""
    _count: int = 0

    def __post_init__(self) -> None:
        self.link = TransactionLink(
            world=self.world, name=self.name, random=self.random, version=self.version
        )

    async def run(self) -> None:
        """Write until asked to stop; what is open then is aborted by its time-out."""
        while not self.world.is_over and not self.world.is_stopping:
            try:
                instance = await self.link.begin()
                self._has_aborted()
                while self._goes_on():
                    await self._one(instance)
                    await asyncio.sleep(self.random.uniform(*IDLE_SECONDS))
                await self._write(instance)
            except (Fenced, Refused) as error:
                self.link.last_error = str(error)

    def _goes_on(self) -> bool:
        return not self.world.is_stopping and self.random.random() >= LEFT_OPEN_SHARE

    def _has_aborted(self) -> None:
        self.aborted.update(self._open)
        self._open.clear()

    async def _one(self, instance: Instance) -> None:
        """Write one transaction and end it. Raises Fenced, Refused."""
        written = await self._write(instance)
        if self.random.random() < SLOW_SHARE:
            await asyncio.sleep(self.random.uniform(0.5, 1.5) * TIMEOUT_MS / 1_000)
        if self.random.random() < ABORTED_SHARE:
            await self.link.end(instance, commits=False, is_asked_once=True)
            self._has_aborted()
            return
        self._open.clear()
        await self.link.end(instance, commits=True, is_asked_once=True)
        self.committed |= written

    async def _write(self, instance: Instance) -> dict[Place, str]:
        """Return what was appended to some partitions. Raises Fenced, Refused."""
        written: dict[Place, str] = {}
        partitions = self.random.sample(range(PARTITIONS), self.random.randint(1, PARTITIONS))
        await self.link.add(instance, self.topic, partitions)
        for partition in partitions:
            values = [self._next() for _ in range(self.random.randint(1, TOGETHER_MAX))]
            self._open += values
            encoded = [value.encode() for value in values]
            offset = await self.link.produce(instance, self.topic, partition, encoded)
            if offset != NOWHERE:
                written |= {(partition, offset + at): value for at, value in enumerate(values)}
        return written

    def _next(self) -> str:
        self._count += 1
        return f"{self.name}-{self._count}"
