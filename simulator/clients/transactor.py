"""A producer of transactions, of either version, that keeps track of how each of them ended.

Everything without an answer is sent again. At times it is replaced by itself: a new instance takes
the id, and the old one tries to go on, which nobody may let it.

Source: KIP-98, KIP-890.
"""

import asyncio
from dataclasses import dataclass, field
from enum import StrEnum
from random import Random

from simulator.clients.transaction_link import (
    TIMEOUT_MS,
    Fenced,
    Instance,
    Refused,
    TransactionLink,
)
from simulator.clients.world import ClientWorld

TOPIC = "in-transactions"
PARTITIONS = 3
IDLE_SECONDS = (0.01, 0.15)
REPLACED_SHARE, ABORTED_SHARE, SLOW_SHARE = 0.06, 0.25, 0.04


class Outcome(StrEnum):
    """How a transaction has ended, as far as its producer knows."""

    COMMITTED = "committed"
    ABORTED = "aborted"
    UNKNOWN = "unknown"


@dataclass(slots=True)
class Told:
    """One transaction."""

    partitions: tuple[int, ...]
    outcome: Outcome = Outcome.UNKNOWN
    may_commit: bool = False
    """Whether its commit was ever asked for."""


@dataclass(slots=True, kw_only=True)
class Transactor:
    """One transactional id."""

    world: ClientWorld
    name: str
    random: Random
    version: int
    told: dict[str, Told] = field(default_factory=dict)
    link: TransactionLink = field(init=False)
    is_idle: bool = True

    def __post_init__(self) -> None:
        self.link = TransactionLink(
            world=self.world, name=self.name, random=self.random, version=self.version
        )

    async def run(self) -> None:
        """Write transactions until asked to stop, and bring the last one to its end."""
        self.is_idle = False
        while not self.world.is_over and not self.world.is_stopping:
            try:
                instance = await self._begin()
                while not self.world.is_stopping:
                    await self._one(instance)
                    await asyncio.sleep(self.random.uniform(*IDLE_SECONDS))
                    if self.random.random() < REPLACED_SHARE:
                        await self._replace(instance)
                        break
            except Fenced as error:
                self.link.last_error = str(error)
        self.is_idle = True

    async def _begin(self) -> Instance:
        instance = await self.link.begin()
        for one in self.told.values():
            if one.outcome is Outcome.UNKNOWN and not one.may_commit:
                one.outcome = Outcome.ABORTED
        return instance

    async def _one(self, instance: Instance) -> None:
        """Write one transaction. Raises Fenced."""
        partitions = tuple(self.random.sample(range(PARTITIONS), self.random.randint(1, 3)))
        name = f"{self.name}-{len(self.told)}"
        one = self.told[name] = Told(partitions)
        try:
            await self.link.add(instance, TOPIC, partitions)
            for partition in partitions:
                await self._produce(instance, partition, name)
        except Refused:
            await self._end(instance, one, commits=False)
            return
        if self.random.random() < SLOW_SHARE:
            await asyncio.sleep(self.random.uniform(0.5, 1.5) * TIMEOUT_MS / 1_000)
        await self._end(instance, one, commits=self.random.random() >= ABORTED_SHARE)

    async def _replace(self, old: Instance) -> None:
        """Leave a transaction open, let another instance take the id, and try to go on."""
        partition = self.random.randrange(PARTITIONS)
        name = f"{self.name}-{len(self.told)}"
        one = self.told[name] = Told((partition,))
        try:
            await self.link.add(old, TOPIC, (partition,))
            await self._produce(old, partition, name)
        except Refused:
            return
        await self._begin()
        try:
            await self._end(old, one, commits=True)
        except Fenced:
            one.outcome = Outcome.ABORTED
        else:
            self.world.refuse(f"{self.name} could commit {name} after it was replaced")

    async def _end(self, instance: Instance, one: Told, *, commits: bool) -> None:
        one.may_commit = one.may_commit or commits
        await self.link.end(instance, commits=commits)
        one.outcome = Outcome.COMMITTED if commits else Outcome.ABORTED

    async def _produce(self, instance: Instance, partition: int, name: str) -> None:
        """Append one batch. Raises Fenced, Refused."""
        count = self.random.randint(1, 3)
        values = [f"{name}/{at}/{count}".encode() for at in range(count)]
        await self.link.produce(instance, TOPIC, partition, values)
