"""An administrator that reads all there is to read, as dashboards and tools do, through any broker.

    topics, page by page    each partition of the history's topic once
    settings                of topics, brokers and groups; the topic's are those it was made with
    quorum, log directories no voter and no partition twice
    refused                 to unregister a broker that is not there, to change an unknown feature

Source: KIP-966 (DescribeTopicPartitions), KIP-595 (DescribeQuorum), KIP-113, KIP-1142.
"""

import asyncio
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from random import Random
from typing import Any
from uuid import UUID

from penstock.protocol.api_keys import ApiKey
from penstock.protocol.error_codes import ErrorCode
from simulator.clients.wire import LinkFailed
from simulator.clients.world import ClientWorld, open_any, pause
from simulator.run.topology import TOPIC

ASK_SECONDS = (0.15, 0.5)
VERSIONS = {
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: 0,
    ApiKey.DESCRIBE_CONFIGS: 4,
    ApiKey.LIST_CONFIG_RESOURCES: 1,
    ApiKey.DESCRIBE_QUORUM: 2,
    ApiKey.DESCRIBE_LOG_DIRS: 4,
    ApiKey.UPDATE_FEATURES: 2,
    ApiKey.UNREGISTER_BROKER: 0,
    ApiKey.METADATA: 12,
    ApiKey.INCREMENTAL_ALTER_CONFIGS: 1,
    ApiKey.ALTER_CONFIGS: 2,
    ApiKey.ELECT_LEADERS: 2,
    ApiKey.DELETE_TOPICS: 6,
}
TOPIC_TYPE, BROKER_TYPE, METRICS_TYPE, GROUP_TYPE = 2, 4, 16, 32
METADATA_TOPIC = "__cluster_metadata"
NOBODY = 99
ON_DEMAND = "made-on-demand"
SET, PREFERRED = 0, 0


@dataclass(slots=True, kw_only=True)
class Inspector:
    """See the module."""

    world: ClientWorld
    random: Random
    settings: Mapping[str, str]
    """That the history's topic was made with, and that nobody changes."""

    async def run(self) -> None:
        """Go on until the run is over."""
        steps = (
            self._pages,
            self._settings,
            self._many_settings,
            self._alter,
            self._quorum,
            self._directories,
            self._refused,
            self._metadata,
            self._elect,
            self._versions,
            self._delete_nothing,
        )
        while not self.world.is_over:
            await asyncio.sleep(self.random.uniform(*ASK_SECONDS))
            try:
                await self.random.choice(steps)()
            except LinkFailed:
                await pause(self.random)

    async def _ask(self, key: ApiKey, fields: Mapping[str, Any]) -> Any:
        link = await open_any(self.world, self.random)
        try:
            return await link.call(key, VERSIONS[key], fields)
        finally:
            link.close()

    def _once(self, what: str, found: Iterable[object]) -> None:
        """Complain of what is told twice."""
        if twice := [one for one, count in Counter(found).items() if count > 1]:
            self.world.refuse(f"{what} {twice} told twice")

    # --- topics and settings -------------------------------------------------------------------

    async def _pages(self) -> None:
        """Read the partitions of the topic, one or two with each answer."""
        cursor: Any = None
        found: list[int] = []
        while True:
            fields = {
                "topics": self.random.choice(([{"name": TOPIC}], [{"name": TOPIC}] * 2)),
                "response_partition_limit": self.random.randint(1, 2),
                "cursor": cursor,
            }
            answer = await self._ask(ApiKey.DESCRIBE_TOPIC_PARTITIONS, fields)
            for topic in answer.topics:
                if topic.error_code != ErrorCode.NONE:
                    return  # who has just started may know no topic yet
                found += [one.partition_index for one in topic.partitions]
            if answer.next_cursor is None:
                break
            next_cursor = answer.next_cursor
            cursor = {
                "topic_name": next_cursor.topic_name,
                "partition_index": next_cursor.partition_index,
            }
        if found != [*range(self.world.partitions)]:
            self.world.refuse(f"pages of {TOPIC} tell partitions {found}")
        everything = {"topics": [], "response_partition_limit": 2_000, "cursor": None}
        await self._ask(ApiKey.DESCRIBE_TOPIC_PARTITIONS, everything)

    async def _settings(self) -> None:
        answer = await self._ask(ApiKey.DESCRIBE_CONFIGS, _described([(TOPIC_TYPE, TOPIC)]))
        (told,) = answer.results
        values = {one.name: one.value for one in told.configs}
        if told.error_code != ErrorCode.NONE:
            return
        for key, value in self.settings.items():
            if values[key] != value:
                self.world.refuse(f"{TOPIC} was made with {key} {value}, and has {values[key]}")

    async def _many_settings(self) -> None:
        brokers = [(BROKER_TYPE, str(one)) for one in (*self.world.brokers, NOBODY, "")]
        others = [(GROUP_TYPE, "inspected"), (METRICS_TYPE, "inspected"), (TOPIC_TYPE, "no-topic")]
        answer = await self._ask(ApiKey.DESCRIBE_CONFIGS, _described([*brokers, *others]))
        self._once(
            "settings of", [(one.resource_type, one.resource_name) for one in answer.results]
        )
        types = self.random.choice(([], [GROUP_TYPE], [TOPIC_TYPE, BROKER_TYPE], [0]))
        answer = await self._ask(ApiKey.LIST_CONFIG_RESOURCES, {"resource_types": types})
        told = [(one.resource_type, one.resource_name) for one in answer.config_resources]
        self._once("resources", told)

    async def _alter(self) -> None:
        """Set what changes nothing that is looked at; ask for what can not be set."""
        key, value = self.random.choice(
            (
                (GROUP_TYPE, ("share.heartbeat.interval.ms", "6000")),
                (METRICS_TYPE, ("interval.ms", "1000")),
                (GROUP_TYPE, ("share.heartbeat.interval.ms", "1")),
            )
        )
        edit = {"name": value[0], "config_operation": SET, "value": value[1]}
        resource = {"resource_type": key, "resource_name": "inspected", "configs": [edit]}
        fields = {"resources": [resource], "validate_only": self.random.random() < 0.3}
        answer = await self._ask(ApiKey.INCREMENTAL_ALTER_CONFIGS, fields)
        whole = {"resource_type": METRICS_TYPE, "resource_name": "inspected", "configs": []}
        await self._ask(ApiKey.ALTER_CONFIGS, {"resources": [whole], "validate_only": False})
        if value[1] == "1" and answer.responses[0].error_code == ErrorCode.NONE:
            self.world.refuse(f"{value[0]} was set to {value[1]}, which is too short")

    async def _metadata(self) -> None:
        """Ask for a topic that is made when it is asked for, and for one by a wrong id."""
        asked: dict[str, Any] = {
            "topic_id": None,
            "name": self.random.choice((ON_DEMAND, "bad/name")),
        }
        if self.random.random() < 0.3:
            asked = {"topic_id": UUID(int=self.random.getrandbits(128)), "name": None}
        fields = {
            "topics": [asked],
            "allow_auto_topic_creation": True,
            "include_topic_authorized_operations": True,
        }
        answer = await self._ask(ApiKey.METADATA, fields)
        for topic in answer.topics:
            self._once("partitions", [one.partition_index for one in topic.partitions])

    # --- the cluster ---------------------------------------------------------------------------

    async def _quorum(self) -> None:
        topic = self.random.choice((METADATA_TOPIC, METADATA_TOPIC, TOPIC))
        asked = [{"topic_name": topic, "partitions": [{"partition_index": 0}]}]
        answer = await self._ask(ApiKey.DESCRIBE_QUORUM, {"topics": asked})
        for told in answer.topics:
            for one in told.partitions:
                members = (*one.current_voters, *one.observers)
                self._once("voters", [each.replica_id for each in members])

    async def _directories(self) -> None:
        named = [
            {"topic": TOPIC, "partitions": [0, 0, 99]},
            {"topic": "no-topic", "partitions": [0]},
        ]
        topics = self.random.choice((None, named))
        answer = await self._ask(ApiKey.DESCRIBE_LOG_DIRS, {"topics": topics})
        for directory in answer.results:
            told = [
                (topic.name, one.partition_index)
                for topic in directory.topics
                for one in topic.partitions
            ]
            self._once("partitions", told)

    async def _elect(self) -> None:
        """Ask for preferred leaders: of a partition, of one that there is not, of all."""
        named = [{"topic": TOPIC, "partitions": [0, 99]}, {"topic": "no-topic", "partitions": [0]}]
        fields = {
            "election_type": PREFERRED,
            "topic_partitions": self.random.choice((named, None)),
            "timeout": 1_000,
        }
        answer = await self._ask(ApiKey.ELECT_LEADERS, fields)
        told = [
            (topic.topic, one.partition_id)
            for topic in answer.replica_election_results
            for one in topic.partition_result
        ]
        self._once("elections", told)

    async def _versions(self) -> None:
        """Ask which versions there are, as clients do that know more of them, or fewer."""
        version = self.random.choice((0, 3, 3))
        who = {"client_software_name": "sim", "client_software_version": "1"}
        link = await open_any(self.world, self.random)
        try:
            answer = await link.call(ApiKey.API_VERSIONS, version, who)
        finally:
            link.close()
        self._once("versions of", [one.api_key for one in answer.api_keys])

    async def _delete_nothing(self) -> None:
        topics: list[dict[str, Any]] = [{"name": "no-topic", "topic_id": None}]
        topics.append({"name": None, "topic_id": UUID(int=self.random.getrandbits(128))})
        fields = {"topics": topics, "timeout": 1_000}
        answer = await self._ask(ApiKey.DELETE_TOPICS, fields)
        if any(one.error_code == ErrorCode.NONE for one in answer.responses):
            self.world.refuse("a topic was deleted that there is not")

    async def _refused(self) -> None:
        """Ask for what no cluster may do."""
        answer = await self._ask(ApiKey.UNREGISTER_BROKER, {"broker_id": NOBODY})
        if answer.error_code == ErrorCode.NONE:
            self.world.refuse(f"broker {NOBODY}, which there is not, was unregistered")
        update = {"feature": "no-feature", "max_version_level": 1, "upgrade_type": 1}
        fields = {"timeout": 1_000, "feature_updates": [update], "validate_only": False}
        answer = await self._ask(ApiKey.UPDATE_FEATURES, fields)
        if answer.error_code == ErrorCode.NONE:
            self.world.refuse("a feature was changed that there is not")


def _described(resources: Iterable[tuple[int, str]]) -> dict[str, Any]:
    return {
        "resources": [
            {"resource_type": kind, "resource_name": name, "configuration_keys": None}
            for kind, name in resources
        ],
        "include_synonyms": True,
        "include_documentation": True,
    }
