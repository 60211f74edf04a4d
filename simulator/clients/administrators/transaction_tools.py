"""An administrator of transactions: lists and describes them, and ends its own by markers.

    begin ─► a batch in one partition ─► DescribeProducers: it is open ─► WriteTxnMarkers: abort
                                         DescribeProducers: it is not ◄──┘   ─► never committed

The marker comes from outside, as an operator sends it for a transaction that hangs; its coordinator
knows nothing of it until the producer aborts, too.

Source: KIP-664 (tools for hanging transactions).
"""

import asyncio
from dataclasses import dataclass, field
from random import Random
from typing import Any

from penstock.protocol.api_keys import ApiKey
from penstock.protocol.error_codes import ErrorCode
from simulator.clients.transaction_link import Fenced, Instance, Refused, TransactionLink
from simulator.clients.transactor import PARTITIONS, TOPIC, Outcome, Told
from simulator.clients.wire import LinkFailed
from simulator.clients.world import ClientWorld, find_leader, open_any, open_link, pause
from simulator.run.topology import LEASE_MS

NAME = "tool"
VERSIONS = {
    ApiKey.LIST_TRANSACTIONS: 1,
    ApiKey.DESCRIBE_TRANSACTIONS: 0,
    ApiKey.DESCRIBE_PRODUCERS: 0,
    ApiKey.WRITE_TXN_MARKERS: 1,
}
STATES = ("Empty", "Ongoing", "PrepareCommit", "CompleteAbort", "no such state")
PAUSE_SECONDS = (0.2, 0.8)
NOTHING_OPEN = -1


@dataclass(slots=True, kw_only=True)
class TransactionTools:
    """See the module."""

    world: ClientWorld
    random: Random
    names: list[str]
    """Transactional ids to look at."""
    told: dict[str, Told] = field(default_factory=dict)
    """Its own transactions, none of which may be read."""
    aborted: int = 0
    """Transactions that a marker of its own has ended."""
    link: TransactionLink = field(init=False)

    def __post_init__(self) -> None:
        version = self.random.choice((1, 2))
        self.link = TransactionLink(
            world=self.world, name=NAME, random=self.random, version=version
        )

    async def run(self) -> None:
        """Go on until told to stop."""
        steps = (self._list, self._describe, self._abort_one)
        while not self.world.is_stopping and not self.world.is_over:
            try:
                await self.random.choice(steps)()
            except (LinkFailed, Fenced, Refused):
                await pause(self.random)
            await asyncio.sleep(self.random.uniform(*PAUSE_SECONDS))

    async def _list(self) -> None:
        link = await open_any(self.world, self.random)
        fields = {
            "state_filters": self.random.sample(STATES, self.random.randrange(3)),
            "producer_id_filters": self.random.choice(([], [1])),
            "duration_filter": self.random.choice((-1, 500)),
        }
        try:
            await link.call(ApiKey.LIST_TRANSACTIONS, VERSIONS[ApiKey.LIST_TRANSACTIONS], fields)
        finally:
            link.close()

    async def _describe(self) -> None:
        link = await open_any(self.world, self.random)
        try:
            key = ApiKey.DESCRIBE_TRANSACTIONS
            fields = {"transactional_ids": [*self.names, NAME, "no-such-id"]}
            await link.call(key, VERSIONS[key], fields)
        finally:
            link.close()

    async def _abort_one(self) -> None:
        """Leave a transaction open, end it by a marker, and see that it is. Raises LinkFailed."""
        instance = await self.link.begin()
        partition = self.random.randrange(PARTITIONS)
        name = f"{NAME}-{len(self.told)}"
        self.told[name] = Told((partition,), Outcome.ABORTED)
        await self.link.add(instance, TOPIC, (partition,))
        await self.link.produce(instance, TOPIC, partition, [f"{name}/0/1".encode()])
        begun = await self._open_one(instance, partition)
        if begun is not None and await self._mark(instance, partition, begun.coordinator_epoch):
            self.aborted += 1
            await self._see_it_ended(instance, partition)
        await self.link.end(instance, commits=False)

    async def _see_it_ended(self, instance: Instance, partition: int) -> None:
        """Who stood still may tell what is old for a moment, so it is asked twice."""
        if await self._open_one(instance, partition) is not None:
            await asyncio.sleep(2 * LEASE_MS / 1_000)
            if await self._open_one(instance, partition) is not None:
                self.world.refuse(f"the transaction of {NAME} is open after its marker")

    async def _open_one(self, instance: Instance, partition: int) -> Any:
        """Return what the leader knows of the producer's open transaction, or None."""
        fields = {"topics": [{"name": TOPIC, "partition_indexes": [partition]}]}
        answer = await self._ask_leader(partition, ApiKey.DESCRIBE_PRODUCERS, fields)
        told = answer.topics[0].partitions[0]
        return next(
            (
                one
                for one in told.active_producers
                if one.producer_id == instance.producer_id
                and one.producer_epoch == instance.epoch
                and one.current_txn_start_offset != NOTHING_OPEN
            ),
            None,
        )

    async def _mark(self, instance: Instance, partition: int, coordinator_epoch: int) -> bool:
        """Write an abort marker; return whether it is there."""
        marker = {
            "producer_id": instance.producer_id,
            "producer_epoch": instance.epoch,
            "transaction_result": False,
            "topics": [{"name": TOPIC, "partition_indexes": [partition]}],
            "coordinator_epoch": max(0, coordinator_epoch),
        }
        answer = await self._ask_leader(partition, ApiKey.WRITE_TXN_MARKERS, {"markers": [marker]})
        told = answer.markers[0].topics[0].partitions[0]
        return bool(told.error_code == ErrorCode.NONE)

    async def _ask_leader(self, partition: int, key: ApiKey, fields: dict[str, Any]) -> Any:
        leader = await find_leader(self.world, self.random, partition, topic=TOPIC)
        link = await open_link(self.world, leader)
        try:
            return await link.call(key, VERSIONS[key], fields)
        finally:
            link.close()
