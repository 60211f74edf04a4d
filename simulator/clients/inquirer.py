"""A client with the requests that consumers send when leaders change, with right and wrong epochs.

    leader and epoch from Metadata ─► ListOffsets, Fetch, OffsetForLeaderEpoch for the previous,
                                      the present and the next epoch ─► FENCED, an answer, UNKNOWN

The answers are checked where they are made (kafka_port.py), where the present epoch is known. Here
they are only counted.

Source: KIP-320 (leader epochs of consumers), KIP-595 (diverging epochs).
"""

import asyncio
from collections import Counter
from dataclasses import dataclass, field
from random import Random
from typing import Any

from penstock.protocol.api_keys import ApiKey
from penstock.protocol.error_codes import ErrorCode
from simulator.clients.readers import EARLIEST, LATEST, LIST_OFFSETS_VERSION
from simulator.clients.wire import BrokerLink, LinkFailed
from simulator.clients.world import METADATA_VERSION, ClientWorld, open_any, open_link, pause
from simulator.run.topology import TOPIC

FETCH_VERSION = 12
EPOCH_VERSION = 4
ROUND_SECONDS = (0.4, 0.9)
BYTES_MAX = 8 << 10


@dataclass(slots=True, kw_only=True)
class Inquirer:
    """Asks about one partition after the other."""

    world: ClientWorld
    random: Random
    told: Counter[str] = field(default_factory=Counter)
    """How often it was answered in which way."""

    async def run(self) -> None:
        """Go on until the run is over."""
        while not self.world.is_over:
            await asyncio.sleep(self.random.uniform(*ROUND_SECONDS))
            try:
                await self._round(self.random.randrange(self.world.partitions))
            except LinkFailed:
                await pause(self.random)

    async def _round(self, partition: int) -> None:
        leader, epoch = await self._leader(partition)
        link = await open_link(self.world, leader)
        try:
            end = await self._list(link, partition, epoch, LATEST)
            start = await self._list(link, partition, epoch, EARLIEST)
            await self._list(link, partition, epoch + self.random.choice((-1, 1)), LATEST)
            asked = epoch - self.random.randrange(-1, 4)
            await self._epoch_end(link, partition, epoch, asked)
            shift = self.random.choice((-1, 0, 1))
            await self._epoch_end(link, partition, epoch + shift, epoch - 1)
            if start <= end:
                offset = self.random.randint(start, end)
                current = epoch + self.random.choice((0, 0, shift))
                await self._fetch(link, partition, (current, asked), offset)
        finally:
            link.close()

    async def _leader(self, partition: int) -> tuple[int, int]:
        link = await open_any(self.world, self.random)
        try:
            fields = {
                "topics": [{"name": TOPIC}],
                "allow_auto_topic_creation": False,
                "include_cluster_authorized_operations": False,
                "include_topic_authorized_operations": False,
            }
            answer = await link.call(ApiKey.METADATA, METADATA_VERSION, fields)
        finally:
            link.close()
        for topic in answer.topics:
            for one in topic.partitions:
                if one.partition_index == partition and one.leader_id >= 0:
                    return int(one.leader_id), int(one.leader_epoch)
        raise LinkFailed(f"nobody leads partition {partition}")

    def _note(self, error_code: int) -> None:
        self.told[ErrorCode(error_code).name] += 1

    async def _list(self, link: BrokerLink, partition: int, epoch: int, timestamp: int) -> int:
        asked = {
            "partition_index": partition,
            "current_leader_epoch": epoch,
            "timestamp": timestamp,
        }
        fields = {
            "replica_id": -1,
            "isolation_level": 0,
            "topics": [{"name": TOPIC, "partitions": [asked]}],
        }
        answer = await link.call(ApiKey.LIST_OFFSETS, LIST_OFFSETS_VERSION, fields)
        one = answer.topics[0].partitions[0]
        self._note(one.error_code)
        return int(one.offset) if one.error_code == ErrorCode.NONE else -1

    async def _epoch_end(self, link: BrokerLink, partition: int, epoch: int, asked: int) -> None:
        wanted = {"partition": partition, "current_leader_epoch": epoch, "leader_epoch": asked}
        fields = {"replica_id": -1, "topics": [{"topic": TOPIC, "partitions": [wanted]}]}
        answer = await link.call(ApiKey.OFFSET_FOR_LEADER_EPOCH, EPOCH_VERSION, fields)
        self._note(answer.topics[0].partitions[0].error_code)

    async def _fetch(
        self, link: BrokerLink, partition: int, epochs: tuple[int, int], offset: int
    ) -> None:
        """Read as who goes by the first of the epochs, and has read up to there in the second."""
        fields = _fetch_fields(partition, *epochs, offset)
        answer: Any = await link.call(ApiKey.FETCH, FETCH_VERSION, fields)
        for topic in answer.responses:
            for one in topic.partitions:
                self._note(one.error_code)


def _fetch_fields(partition: int, epoch: int, last_epoch: int, offset: int) -> dict[str, object]:
    wanted = {
        "partition": partition,
        "current_leader_epoch": epoch,
        "fetch_offset": offset,
        "last_fetched_epoch": last_epoch,
        "log_start_offset": -1,
        "partition_max_bytes": BYTES_MAX,
    }
    return {
        "cluster_id": None,
        "replica_id": -1,
        "max_wait_ms": 0,
        "max_wait": 0,
        "min_bytes": 0,
        "max_bytes": BYTES_MAX,
        "isolation_level": 0,
        "session_id": 0,
        "session_epoch": -1,
        "topics": [{"topic": TOPIC, "partitions": [wanted]}],
        "forgotten_topics_data": [],
        "rack_id": "",
    }
