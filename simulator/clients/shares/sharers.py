"""The share group of a run: who writes, who takes and settles, and what must be true in the end.

    accepted, rejected    never handed out again
    handed out            as it was written
    everything            is settled within the time of a lock after the last fault

Source: KIP-932.
"""

from collections.abc import Callable, Coroutine, Iterator
from random import Random
from typing import Any

from penstock.protocol.api_keys import ApiKey
from penstock.protocol.error_codes import ErrorCode
from simulator.clients.feeder import PARTITIONS, Feeder
from simulator.clients.shares.sharer import Sharer
from simulator.clients.transactions import create_topic
from simulator.clients.wire import LinkFailed
from simulator.clients.world import ClientWorld, open_any, pause
from simulator.history.shares import Place, ShareNotes, judge_shares, left_over
from simulator.kernel.process import Process
from simulator.kernel.simulation import Simulation

TOPIC, GROUP = "shared", "sharers"
LOCK_MS = 15_000
DELIVERIES_MAX = 5
GROUP_RESOURCE, SET = 32, 0
ALTER_VERSION = 1
TOLD_MAX = 3
Start = Callable[[str, list[Coroutine[Any, Any, None]]], Process]


class Sharers:
    """`count` members of one group."""

    def __init__(self, simulation: Simulation, world: ClientWorld, count: int) -> None:
        self._world = world
        self._random = simulation.random("sharers")
        self.notes = ShareNotes()
        self.feeder = Feeder(world=world, random=simulation.random("shared-feeder"), topic=TOPIC)
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
        """Start them; returns the process of the one that writes."""
        feeder = start("shared-feeder", [self._feed()])
        for one in self.sharers:
            start(f"sharer{one.number}", [self._share(one)])
        return [feeder]

    async def _feed(self) -> None:
        await create_topic(self._world, self._random, TOPIC, PARTITIONS)
        await self.feeder.run()

    async def _share(self, one: Sharer) -> None:
        await create_topic(self._world, one.random, TOPIC, PARTITIONS)
        await configure(self._world, one.random)
        await one.run()

    @property
    def written(self) -> dict[Place, str]:
        """What was acknowledged, by partition and offset."""
        return {
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
        return judge_shares(self.notes, self.written)


async def configure(world: ClientWorld, draw: Random) -> None:
    """Let the group begin at the beginning, with short locks; returns when it is so."""
    keys = {"share.auto.offset.reset": "earliest", "share.record.lock.duration.ms": str(LOCK_MS)}
    resource = {
        "resource_type": GROUP_RESOURCE,
        "resource_name": GROUP,
        "configs": [
            {"name": key, "config_operation": SET, "value": value} for key, value in keys.items()
        ],
    }
    fields = {"resources": [resource], "validate_only": False}
    while not world.is_over:
        try:
            link = await open_any(world, draw)
            try:
                answer = await link.call(ApiKey.INCREMENTAL_ALTER_CONFIGS, ALTER_VERSION, fields)
            finally:
                link.close()
            if answer.responses[0].error_code == ErrorCode.NONE:
                return
        except LinkFailed:
            pass
        await pause(draw)
