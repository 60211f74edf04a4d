"""Fills the topics that movers and sharers read, and reads one for the movers."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from random import Random

from penstock.protocol.api_keys import ApiKey
from penstock.protocol.error_codes import ErrorCode
from penstock.protocol.messages import encode_request
from penstock.record.build import Record, build_batch
from penstock.record.read import iter_batches, iter_records
from simulator.clients.wire import LinkFailed
from simulator.clients.world import ClientWorld, find_leader, open_link

INPUT = "to-be-moved"
PARTITIONS = 2
PRODUCE_VERSION, FETCH_VERSION = 9, 10
IDLE_SECONDS = (0.05, 0.25)
WIDE_SHARE, UNANSWERED_SHARE = 0.3, 0.05
"""Of requests: with a batch for each partition, some of which are led elsewhere; unanswered."""
TOGETHER_MAX = 3
"""Records in a batch of the feeder, and of a partition in a transaction of a mover."""


@dataclass(slots=True, kw_only=True)
class Feeder:
    """A producer without an id: what has no answer may be there once, or not at all."""

    world: ClientWorld
    random: Random
    topic: str = INPUT
    written: dict[int, dict[int, str]] = field(
        default_factory=lambda: {partition: {} for partition in range(PARTITIONS)}
    )
    """What was acknowledged, by partition and offset."""
    ends: dict[int, int] = field(default_factory=lambda: dict.fromkeys(range(PARTITIONS), 0))
    """The offset behind what was acknowledged."""
    is_idle: bool = False
    count: int = 0
    """Values so far, which are the numbers from 1 on."""

    async def run(self) -> None:
        """Write until asked to stop."""
        while not self.world.is_stopping and not self.world.is_over:
            partition = self.random.randrange(PARTITIONS)
            wanted = [*range(PARTITIONS)] if self.random.random() < WIDE_SHARE else [partition]
            batches = {one: self._values() for one in wanted}
            try:
                if self.random.random() < UNANSWERED_SHARE:
                    await self._throw(partition)
                offsets = await self._write(partition, batches)
            except LinkFailed:
                offsets = {}
            for one, offset in offsets.items():
                values = batches[one]
                self.written[one] |= {offset + at: value for at, value in enumerate(values)}
                self.ends[one] = max(self.ends[one], offset + len(values))
            await asyncio.sleep(self.random.uniform(*IDLE_SECONDS))
        self.is_idle = True

    def _next(self) -> str:
        self.count += 1
        return str(self.count)

    def _values(self) -> list[str]:
        return [self._next() for _ in range(self.random.randint(1, TOGETHER_MAX))]

    async def _throw(self, partition: int) -> None:
        """Write without waiting for an answer, of which there is none. Raises LinkFailed."""
        leader = await find_leader(self.world, self.random, partition, topic=self.topic)
        link = await open_link(self.world, leader)
        fields = self._fields({partition: self._values()}, acks=0)
        link.send(
            ApiKey.PRODUCE, PRODUCE_VERSION, encode_request(ApiKey.PRODUCE, PRODUCE_VERSION, fields)
        )
        await asyncio.sleep(self.random.uniform(*IDLE_SECONDS))
        link.close()

    def _fields(self, batches: Mapping[int, list[str]], *, acks: int = -1) -> dict[str, object]:
        return {
            "transactional_id": None,
            "acks": acks,
            "timeout": 1_000,
            "timeout_ms": 1_000,
            "topic_data": [
                {
                    "name": self.topic,
                    "partition_data": [
                        {
                            "index": partition,
                            "records": build_batch(
                                [Record(None, value.encode()) for value in values]
                            ),
                        }
                        for partition, values in batches.items()
                    ],
                }
            ],
        }

    async def _write(self, partition: int, batches: Mapping[int, list[str]]) -> dict[int, int]:
        """Write to the leader of a partition; return the offsets of the first records of batches
        that were not refused. Raises LinkFailed.
        """
        leader = await find_leader(self.world, self.random, partition, topic=self.topic)
        link = await open_link(self.world, leader)
        try:
            answer = await link.call(ApiKey.PRODUCE, PRODUCE_VERSION, self._fields(batches))
        finally:
            link.close()
        return {
            one.index: int(one.base_offset)
            for one in answer.responses[0].partition_responses
            if one.error_code == ErrorCode.NONE
        }


async def read_input(
    world: ClientWorld, draw: Random, positions: Mapping[int, int]
) -> dict[int, list[tuple[int, str]]]:
    """Return (offset, value) of some records from each of these positions on.

    Partitions that have none, or do not answer, are left out.
    """
    found: dict[int, list[tuple[int, str]]] = {}
    for partition, offset in positions.items():
        try:
            records = await _read(world, draw, partition, offset)
        except LinkFailed:
            continue
        if records:
            found[partition] = records[: draw.randint(1, TOGETHER_MAX * 2)]
    return found


async def _read(
    world: ClientWorld, draw: Random, partition: int, offset: int
) -> list[tuple[int, str]]:
    wanted = {
        "partition": partition,
        "current_leader_epoch": -1,
        "fetch_offset": offset,
        "log_start_offset": -1,
        "partition_max_bytes": 64 << 10,
    }
    fields = {
        "replica_id": -1,
        "max_wait": 20,
        "max_wait_ms": 20,
        "min_bytes": 1,
        "max_bytes": 1 << 20,
        "isolation_level": 0,
        "session_id": 0,
        "session_epoch": -1,
        "topics": [{"topic": INPUT, "partitions": [wanted]}],
        "forgotten_topics_data": [],
        "rack_id": "",
    }
    link = await open_link(world, await find_leader(world, draw, partition, topic=INPUT))
    try:
        answer = await link.call(ApiKey.FETCH, FETCH_VERSION, fields)
    finally:
        link.close()
    told = answer.responses[0].partitions[0]
    if told.error_code != ErrorCode.NONE:
        raise LinkFailed(ErrorCode(told.error_code).name)
    return [
        (record.offset, (record.value or b"").decode())
        for _, batch in iter_batches(memoryview(told.records or b""))
        for record in iter_records(batch)
        if record.offset >= offset
    ]
