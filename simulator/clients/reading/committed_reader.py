"""A consumer of committed records: reads what is stable, and leaves out what was aborted.

It notes every record that it delivers, and complains of an answer with records that are not stable,
of an order that is none, and of a control record that it can not understand.

Source: Kafka's CompletedFetch (`nextFetchedRecord`, `containsAbortMarker`).
"""

import asyncio
from collections import defaultdict
from dataclasses import dataclass, field
from random import Random
from typing import Any

from penstock.protocol.api_keys import ApiKey
from penstock.protocol.error_codes import ErrorCode
from penstock.record.batch import TRANSACTIONAL
from penstock.record.marker import read_marker
from penstock.record.read import iter_batches, iter_records
from simulator.clients.transactor import PARTITIONS, TOPIC
from simulator.clients.wire import BrokerLink, LinkFailed
from simulator.clients.world import ClientWorld, find_leader, open_link, pause

FETCH_VERSION = 10
"""The last by which nobody is sent to a slave."""
READ_COMMITTED = 1
READ_SECONDS = 2.0


@dataclass(slots=True, kw_only=True)
class CommittedReader:
    """Reads all partitions of a topic, each from its leader."""

    world: ClientWorld
    name: str
    random: Random
    topic: str = TOPIC
    is_late: bool = False
    """It begins when nothing new is written."""
    is_of_one: bool = False
    """Whether one member has all of a partition: nobody else can know less than it has told."""
    read: dict[int, list[str]] = field(default_factory=lambda: defaultdict(list))
    """What was delivered, by partition."""
    offsets: dict[int, int] = field(default_factory=lambda: dict.fromkeys(range(PARTITIONS), 0))
    ends: dict[int, tuple[int, int]] = field(default_factory=dict)
    """(last stable offset, high watermark) of the last answer, by partition."""

    async def run(self) -> None:
        """Read until the run is over."""
        while self.is_late and not (self.world.is_stopping or self.world.is_over):
            await pause(self.random)
        await asyncio.gather(*(self._follow(partition) for partition in self.offsets))

    async def _follow(self, partition: int) -> None:
        while not self.world.is_over:
            try:
                leader = await find_leader(self.world, self.random, partition, topic=self.topic)
                link = await open_link(self.world, leader)
                try:
                    while not self.world.is_over:
                        await self._fetch(link, partition)
                finally:
                    link.close()
            except LinkFailed:
                await pause(self.random)

    async def _fetch(self, link: BrokerLink, partition: int) -> None:
        wanted = {
            "partition": partition,
            "current_leader_epoch": -1,
            "fetch_offset": self.offsets[partition],
            "log_start_offset": -1,
            "partition_max_bytes": self.random.choice((1, 300, 64 << 10)),
        }
        fields = {
            "replica_id": -1,
            "max_wait": 300,
            "max_wait_ms": 300,
            "min_bytes": 1,
            "max_bytes": 1 << 20,
            "isolation_level": READ_COMMITTED,
            "session_id": 0,
            "session_epoch": -1,
            "topics": [{"topic": self.topic, "partitions": [wanted]}],
            "forgotten_topics_data": [],
            "rack_id": "",
        }
        answer = await link.call(ApiKey.FETCH, FETCH_VERSION, fields, wait_s=READ_SECONDS)
        found = answer.responses[0].partitions[0]
        if found.error_code != ErrorCode.NONE:
            raise link.broken(ErrorCode(found.error_code).name)
        before, _ = self.ends.get(partition, (0, 0))
        if self.is_of_one and found.last_stable_offset < before:
            what = f"the last stable offset falls from {before} to {found.last_stable_offset}"
            self._complain(partition, what, link.host)
        self.ends[partition] = found.last_stable_offset, found.high_watermark
        self._take(partition, found, link.host)

    def _take(self, partition: int, found: Any, host: str) -> None:
        """Deliver what is committed, as clients do."""
        waiting = sorted(found.aborted_transactions or (), key=lambda one: one.first_offset)
        aborting: set[int] = set()
        for header, batch in iter_batches(memoryview(found.records or b"")):
            if header.last_offset >= found.last_stable_offset:
                self._complain(partition, f"offset {header.last_offset} is not stable", host)
            while waiting and waiting[0].first_offset <= header.last_offset:
                aborting.add(waiting.pop(0).producer_id)
            if header.is_control:
                marker = read_marker(batch)
                if marker is not None and not marker.is_commit:
                    aborting.discard(header.producer_id)
            elif not header.attributes & TRANSACTIONAL or header.producer_id not in aborting:
                self._deliver(partition, batch)
            self.offsets[partition] = max(self.offsets[partition], header.last_offset + 1)

    def _deliver(self, partition: int, batch: memoryview) -> None:
        self.read[partition] += [
            (record.value or b"").decode()
            for record in iter_records(batch)
            if record.offset >= self.offsets[partition]
        ]

    def _complain(self, partition: int, what: str, host: str) -> None:
        self.world.refuse(f"{self.name} in partition {partition}: {what}", host)

    def behind(self) -> list[str]:
        """Name the partitions in which something is open, or not read yet."""
        found: list[str] = []
        for partition, offset in self.offsets.items():
            stable, end = self.ends.get(partition, (-1, -1))
            if not offset == stable == end:
                found.append(f"partition {partition}: read to {offset}, stable {stable} of {end}")
        return found
