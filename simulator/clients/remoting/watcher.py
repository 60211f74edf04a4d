"""A Kafka client that reads what remoting clients write, from the first record on, until the end.

Topics that the front makes as they are needed are looked for again and again.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

from penstock.protocol.api_keys import ApiKey
from penstock.protocol.error_codes import ErrorCode
from penstock.record.read import iter_batches, iter_records
from simulator.clients.wire import BrokerLink, LinkFailed
from simulator.clients.world import (
    METADATA_VERSION,
    NO_LEADER,
    ClientWorld,
    now_ns,
    open_any,
    open_link,
    pause,
)
from simulator.history.remoting.events import Place, Read

FETCH_VERSION = 10
WAIT_MS = 50
TURNS = 10
"""After so many topics are looked for again."""


@dataclass(slots=True, kw_only=True)
class Watcher:
    """See the module."""

    world: ClientWorld
    random: Random
    topics: Sequence[str]
    reads: dict[str, dict[Place, Read]] = field(init=False)
    """By topic."""
    clashes: list[str] = field(default_factory=list)
    """Places at which two values were read."""
    last_error: str = ""
    _leaders: dict[tuple[str, int], int] = field(default_factory=dict)
    _at: dict[tuple[str, int], int] = field(default_factory=dict)
    _links: dict[int, BrokerLink] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Nothing is read yet."""
        self.reads = {topic: {} for topic in self.topics}

    async def run(self) -> None:
        """Read until the run is over."""
        turns = 0
        while not self.world.is_over:
            try:
                if turns % TURNS == 0:
                    await self._find_leaders()
                turns += 1
                for leader, keys in self._by_leader().items():
                    await self._read(leader, keys)
            except LinkFailed as error:
                self.last_error, turns = str(error), 0
                self._hang_up()
            await pause(self.random)
        self._hang_up()

    def _hang_up(self) -> None:
        for link in self._links.values():
            link.close()
        self._links.clear()

    def _by_leader(self) -> dict[int, list[tuple[str, int]]]:
        found: dict[int, list[tuple[str, int]]] = defaultdict(list)
        for key, leader in sorted(self._leaders.items()):
            found[leader].append(key)
        return found

    async def _find_leaders(self) -> None:
        link = await open_any(self.world, self.random)
        fields = {
            "topics": [{"name": topic} for topic in self.topics],
            "allow_auto_topic_creation": False,
            "include_cluster_authorized_operations": False,
            "include_topic_authorized_operations": False,
        }
        try:
            answer = await link.call(ApiKey.METADATA, METADATA_VERSION, fields)
        finally:
            link.close()
        self._leaders = {
            (topic.name, one.partition_index): one.leader_id
            for topic in answer.topics
            for one in topic.partitions
            if one.leader_id != NO_LEADER
        }

    async def _read(self, leader: int, keys: Sequence[tuple[str, int]]) -> None:
        if leader not in self._links:
            self._links[leader] = await open_link(self.world, leader)
        wanted: dict[str, list[dict[str, int]]] = defaultdict(list)
        for topic, partition in keys:
            wanted[topic].append(
                {
                    "partition": partition,
                    "current_leader_epoch": -1,
                    "fetch_offset": self._at.get((topic, partition), 0),
                    "log_start_offset": -1,
                    "partition_max_bytes": 64 << 10,
                }
            )
        fields = {
            "replica_id": -1,
            "max_wait": WAIT_MS,
            "max_wait_ms": WAIT_MS,
            "min_bytes": 1,
            "max_bytes": 1 << 20,
            "isolation_level": 0,
            "session_id": 0,
            "session_epoch": -1,
            "topics": [{"topic": name, "partitions": some} for name, some in wanted.items()],
            "forgotten_topics_data": [],
            "rack_id": "",
        }
        answer = await self._links[leader].call(ApiKey.FETCH, FETCH_VERSION, fields)
        for topic in answer.responses:
            for one in topic.partitions:
                if one.error_code != ErrorCode.NONE:
                    raise LinkFailed(f"{topic.topic}: {ErrorCode(one.error_code).name}")
                self._note(topic.topic, one.partition_index, one.records)

    def _note(self, topic: str, partition: int, records: Any) -> None:
        key, reads = (topic, partition), self.reads[topic]
        for header, batch in iter_batches(memoryview(records or b"")):
            for record in () if header.is_control else iter_records(batch):
                headers = {name: (value or b"").decode() for name, value in record.headers}
                value, place = (record.value or b"").decode(), (partition, record.offset)
                read = Read(place, record.timestamp_ms, value, headers, now_ns())
                first = reads.setdefault(place, read)
                if first.value != value:
                    self.clashes.append(f"{first.value} was read at {place}, and then {value}")
                self._at[key] = max(self._at.get(key, 0), record.offset + 1)
