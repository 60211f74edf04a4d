"""An administrator that creates topics, writes to them, changes them and deletes them again.

    create ─► write ─► describe ─► delete records ─► more partitions, settings ─► delete

Its topics share replica sets, and so segments, with the topic of the history. The answers about
topics are checked for linearizability; records that it deletes from the history's topic must stay
deleted.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from random import Random
from typing import Any

from penstock.client.produce_request import encode_produce
from penstock.controller.topic_config.local import REMOTE
from penstock.protocol.api_keys import ApiKey
from penstock.protocol.error_codes import ErrorCode
from penstock.record.build import Record, build_batch
from simulator.clients.producer import BROKER_TIMEOUT_MS, PRODUCE_VERSION
from simulator.clients.readers import EARLIEST, LATEST, list_offsets
from simulator.clients.wire import BrokerLink
from simulator.clients.world import (
    ClientWorld,
    attempt,
    find_leader,
    now_ns,
    open_any,
    open_link,
)
from simulator.history import Deletion
from simulator.history.administration import AdminHistory
from simulator.history.controllers import AlterConfig, CreateTopic, DeleteTopic
from simulator.run.topology import TOPIC, WALL_START_MS

TIMEOUT_MS = 1_000
TOPIC_RESOURCE, BROKER_RESOURCE = 2, 4
RECORD_BYTES = 1_500
BATCHES = 6
RECORDS = (1, 2, 3, 4, 14)
CODECS = ("producer", "producer", "gzip")
"""Of a topic; a large batch is compressed anew beside the loop."""
KEPT_RECORDS = 200
"""So many of the newest records of the history stay when some are deleted."""
VERSIONS = {
    ApiKey.CREATE_TOPICS: 4,
    ApiKey.DELETE_TOPICS: 3,
    ApiKey.CREATE_PARTITIONS: 1,
    ApiKey.DELETE_RECORDS: 1,
    ApiKey.INCREMENTAL_ALTER_CONFIGS: 0,
    ApiKey.ALTER_CONFIGS: 1,
    ApiKey.DESCRIBE_CONFIGS: 1,
    ApiKey.DESCRIBE_CLUSTER: 0,
    ApiKey.OFFSET_FOR_LEADER_EPOCH: 3,
    ApiKey.ELECT_LEADERS: 1,
}


@dataclass(slots=True, kw_only=True)
class Churn:
    """See the module."""

    world: ClientWorld
    history: AdminHistory
    random: Random
    is_cutting: bool
    """Whether records of the history's topic are deleted too."""
    is_tiered: bool = False
    """Whether its topics are copied into the object store."""
    deletions: list[Deletion] = field(default_factory=list)
    rounds: int = 0

    @property
    def topic(self) -> str:
        """The one that is there now, or about to be."""
        return f"churn-{max(0, self.rounds - 1)}"

    async def run(self) -> None:
        """Go on until told to stop."""
        while not self.world.is_stopping and not self.world.is_over:
            self.rounds += 1
            topic = self.topic
            for step in self._steps(topic):
                if self.world.is_stopping:
                    return
                await attempt(step, self.random)

    def _steps(self, topic: str) -> list[Callable[[], Awaitable[None]]]:
        steps: list[Callable[[], Awaitable[None]]] = [
            lambda: self._create(topic),
            lambda: self._write(topic),
            lambda: self._look(topic),
            lambda: self._alter(topic),
            lambda: self._cut(topic, kept=2),
            lambda: self._grow(topic),
        ]
        if self.is_cutting:
            steps.append(lambda: self._cut(TOPIC, kept=KEPT_RECORDS))
        self.random.shuffle(steps)  # a second creation finds it there
        return [lambda: self._create(topic), *steps, lambda: self._delete(topic)]

    async def _call(self, key: ApiKey, fields: dict[str, Any]) -> Any:
        link = await open_any(self.world, self.random)
        try:
            return await link.call(key, VERSIONS[key], fields)
        finally:
            link.close()

    async def _leader(self, topic: str, partition: int) -> BrokerLink:
        leader = await find_leader(self.world, self.random, partition, topic=topic)
        return await open_link(self.world, leader)

    # --- topics --------------------------------------------------------------------------------

    async def _create(self, topic: str) -> None:
        wanted = {
            "name": topic,
            "num_partitions": 1,
            "replication_factor": -1,
            "assignments": [],
            "configs": [
                {"name": "retention.bytes", "value": "20000"},
                {"name": "compression.type", "value": self.random.choice(CODECS)},
                *({"name": name, "value": value} for name, value in self._tiered().items()),
            ],
        }
        number = self.history.began(topic, CreateTopic(1))
        answer = await self._call(
            ApiKey.CREATE_TOPICS,
            {"topics": [wanted], **_timeout(), "validate_only": False},
        )
        self.history.changed(number, answer.topics[0].error_code)

    def _tiered(self) -> Mapping[str, str]:
        return self.world.apart or ({REMOTE: "true"} if self.is_tiered else {})

    async def _delete(self, topic: str) -> None:
        number = self.history.began(topic, DeleteTopic())
        answer = await self._call(ApiKey.DELETE_TOPICS, {"topic_names": [topic], **_timeout()})
        self.history.changed(number, answer.responses[0].error_code)

    async def _alter(self, topic: str) -> None:
        value = str(self.random.choice((1_000, 100_000)))
        edit = {"name": "retention.ms", "config_operation": 0, "value": value}
        resource = {"resource_type": TOPIC_RESOURCE, "resource_name": topic, "configs": [edit]}
        number = self.history.began(topic, AlterConfig("retention.ms", value))
        answer = await self._call(
            ApiKey.INCREMENTAL_ALTER_CONFIGS, {"resources": [resource], "validate_only": False}
        )
        self.history.changed(number, answer.responses[0].error_code)

    async def _grow(self, topic: str) -> None:
        """Ask for more partitions only to see that it can be: one more would be another model."""
        more = {"name": topic, "count": 2, "assignments": None}
        await self._call(
            ApiKey.CREATE_PARTITIONS, {"topics": [more], **_timeout(), "validate_only": True}
        )

    # --- records -------------------------------------------------------------------------------

    async def _write(self, topic: str) -> None:
        link = await self._leader(topic, 0)
        try:
            made_ms = WALL_START_MS + now_ns() // 1_000_000
            record = Record(None, b"c" * RECORD_BYTES, timestamp_ms=made_ms)
            for _ in range(BATCHES):
                data = bytes(build_batch([record] * self.random.choice(RECORDS)))
                body = encode_produce({(topic, 0): data}, BROKER_TIMEOUT_MS)
                link.send(ApiKey.PRODUCE, PRODUCE_VERSION, *body)
            while link.in_flight:
                await link.receive()
        finally:
            link.close()

    async def _cut(self, topic: str, *, kept: int) -> None:
        link = await self._leader(topic, 0)
        try:
            end = (await list_offsets(link, [0], LATEST, topic=topic)).get(0, 0)
            if end <= kept:
                return
            partition = {"partition_index": 0, "offset": end - kept}
            fields = {"topics": [{"name": topic, "partitions": [partition]}], **_timeout()}
            answer = await link.call(ApiKey.DELETE_RECORDS, VERSIONS[ApiKey.DELETE_RECORDS], fields)
        finally:
            link.close()
        one = answer.topics[0].partitions[0]
        if topic == TOPIC and one.error_code == ErrorCode.NONE:
            self.deletions.append(Deletion(0, end - kept, now_ns()))

    async def _look(self, topic: str) -> None:
        """Ask what people ask: by time, by epoch, for settings, for the cluster."""
        link = await self._leader(topic, 0)
        try:
            for when in (EARLIEST, WALL_START_MS, WALL_START_MS + now_ns() // 1_000_000):
                await list_offsets(link, [0], when, topic=topic)
            epochs = [{"partition": 0, "current_leader_epoch": -1, "leader_epoch": 0}]
            topics = [{"topic": topic, "partitions": epochs}]
            key = ApiKey.OFFSET_FOR_LEADER_EPOCH
            await link.call(key, VERSIONS[key], {"replica_id": -2, "topics": topics})
        finally:
            link.close()
        resource = {
            "resource_type": TOPIC_RESOURCE,
            "resource_name": topic,
            "configuration_keys": None,
        }
        fields = {"resources": [resource], "include_synonyms": True}
        await self._call(ApiKey.DESCRIBE_CONFIGS, fields)
        await self._call(ApiKey.DESCRIBE_CLUSTER, {"include_cluster_authorized_operations": False})


def _timeout() -> dict[str, int]:
    return {"timeout": TIMEOUT_MS, "timeout_ms": TIMEOUT_MS}
