"""A broker's tier over a bucket in memory: real reads, whose work is done when the test says so."""

import asyncio
from collections.abc import Coroutine
from types import SimpleNamespace
from typing import Any

from penstock.base.ids import BrokerId, TopicPartition
from penstock.broker.tier.view import TierPlace
from penstock.controller.topic_config.local import LocalLimits
from penstock.coordinator.calls.asking import BrokerNotReached, Caller
from penstock.runtime.tier.reads import RemoteReads
from penstock.runtime.tier.told import ToldRuns
from penstock.tier.config import TierConfig
from penstock.tier.metadata.manifest import Manifest, Run
from simulator.kernel.object_store import Bucket, ModelledStore
from tests.broker.cluster import Node
from tests.extents.files import CLUSTER
from tests.tier.objects import manifest_of

LEASE_MS = 60_000
CONFIG = TierConfig(read_ms=400)


class Nobody:
    """A caller that reaches no broker."""

    async def ask(self, broker_id: BrokerId, question: Any, *, timeout_ms: int) -> Any:
        """As in Caller."""
        raise BrokerNotReached(f"broker {broker_id} in {timeout_ms} ms for {question}")


class TierOfTest:
    """The tier of one node as its broker sees it; `events` may have records in it alone."""

    def __init__(self, node: Node, bucket: Bucket, asks: Caller | None = None) -> None:
        """`asks` asks masters for who is a slave."""
        self.told = ToldRuns(asks or Nobody(), node.cluster.world, CLUSTER)
        self.node = node
        self.manifests: dict[TopicPartition, Manifest] = {}
        self._works: list[Coroutine[Any, Any, None]] = []
        self.reads = RemoteReads(
            ModelledStore(bucket),
            self.manifest,
            CONFIG,
            raise_start=self._never,
            told=self.told,
            spawn=lambda _, work: self._works.append(work),
        )
        node.broker.tier = self  # type: ignore[assignment]
        self.hosted = node.broker.partitions.find("events", 0)
        assert self.hosted is not None
        self.hosted.topic.local = LocalLimits(-2, 1)

    @property
    def key(self) -> TopicPartition:
        assert self.hosted is not None
        return self.hosted.log.topic_partition

    def has(self, runs: list[Run]) -> Manifest:
        """Let these be what the tier has of `events`."""
        self.manifests[self.key] = made = manifest_of(runs)
        return made

    @property
    def place(self) -> TierPlace:
        """As in TierView."""
        return TierPlace("file:///x", "", "", CLUSTER, LEASE_MS)

    def manifest(self, _: object, key: TopicPartition) -> Manifest | None:
        """As in TierView."""
        return self.manifests.get(key)

    def standing(self, _: object) -> SimpleNamespace | None:
        """As in TierView."""
        return None

    async def _never(self, *_: object) -> bool:
        return False

    def read(self) -> int:
        """Do what was begun; return how many reads that were."""
        works, self._works = self._works, []

        async def all_of_them() -> None:
            await asyncio.gather(*works)

        asyncio.run(all_of_them())
        self.node.cluster.world.run()
        return len(works)
