"""MirrorMaker 2 in both directions between three nodes and a Kafka, exactly once.

here (Penstock)  ─►  penstock.here (Kafka)
kafka.there      ◄─  there
"""

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourcePatternType,
    ResourceType,
)
from confluent_kafka.cimpl import NewPartitions, NewTopic

from benchmarks.parts import kafka
from benchmarks.parts.java_servers import JavaServer
from benchmarks.parts.kafka import KafkaCluster
from harness.cluster import ClusterProcess
from harness.waiting import UNTIL_SECONDS, wait_until
from tests.compat.conftest import SHARES_PROJECT
from tests.compat.java_mirror import mirror_maker
from tests.compat.taking import Taking

pytestmark = [pytest.mark.compat, pytest.mark.timeout(400)]

NODES = 3
PARTITIONS = 2
RECORDS_EACH = 300
READERS = "readers"
ANONYMOUS = "User:ANONYMOUS"
RETENTION_MS = 86_400_000
SETTINGS: dict[str, dict[str, object]] = {
    "log": {"segment_bytes": 8 << 20, "level0_bytes": 0},
    "controller": {"session_timeout_ms": 3_000},
    "access": {"authorizer": "acl", "super_users": [ANONYMOUS]},
}
KAFKA_SETTINGS = (
    "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    f"super.users={ANONYMOUS}",
)


class Side:
    """One of the two clusters, with a topic of its own that the other is to have too."""

    def __init__(self, alias: str, bootstrap: str, topic: str) -> None:
        self.alias, self.bootstrap, self.topic = alias, bootstrap, topic
        self.admin = AdminClient({"bootstrap.servers": bootstrap})
        self.producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True})
        self.written: list[list[bytes]] = [[] for _ in range(PARTITIONS)]
        new = NewTopic(topic, PARTITIONS, -1, config={"retention.ms": str(RETENTION_MS)})
        self.admin.create_topics([new])[topic].result(UNTIL_SECONDS)

    def write(self, count: int) -> None:
        """Write so many records to each partition."""
        for partition, records in enumerate(self.written):
            for _ in range(count):
                records.append(b"%d" % len(records))
                self.producer.produce(self.topic, records[-1], partition=partition)
        assert self.producer.flush(UNTIL_SECONDS) == 0

    def consumer(self, group: str, more: Mapping[str, str] = MappingProxyType({})) -> Consumer:
        own = {"bootstrap.servers": self.bootstrap, "group.id": group, **more}
        return Consumer({**own, "isolation.level": "read_committed", "enable.auto.commit": False})

    def configuration(self, topic: str) -> dict[str, str]:
        asked = ConfigResource(ResourceType.TOPIC, topic)
        found = self.admin.describe_configs([asked])[asked].result(UNTIL_SECONDS)
        return {name: entry.value for name, entry in found.items()}

    def partitions(self, topic: str) -> int:
        return len(self.admin.list_topics(topic, timeout=UNTIL_SECONDS).topics[topic].partitions)

    def acls(self, topic: str) -> list[AclBinding]:
        anybody: Any = None
        literal = (ResourceType.TOPIC, topic, ResourcePatternType.LITERAL)
        every = AclBindingFilter(
            *literal, anybody, anybody, AclOperation.ANY, AclPermissionType.ANY
        )
        return list(self.admin.describe_acls(every).result(UNTIL_SECONDS))

    def create_acl(self, one: AclBinding) -> None:
        self.admin.create_acls([one])[one].result(UNTIL_SECONDS)

    def retain(self, retention_ms: int) -> None:
        operation = AlterConfigOpType.SET
        edit = ConfigEntry("retention.ms", str(retention_ms), incremental_operation=operation)
        asked = ConfigResource(ResourceType.TOPIC, self.topic, incremental_configs=[edit])
        self.admin.incremental_alter_configs([asked])[asked].result(UNTIL_SECONDS)

    def add_partition(self) -> None:
        grown = NewPartitions(self.topic, PARTITIONS + 1)
        self.admin.create_partitions([grown])[self.topic].result(UNTIL_SECONDS)

    def position(self, group: str, topic: str) -> list[int]:
        consumer = self.consumer(group)
        asked = [TopicPartition(topic, partition) for partition in range(PARTITIONS)]
        found = consumer.committed(asked, UNTIL_SECONDS)
        consumer.close()
        return [one.offset for one in found]


class Flow:
    """One direction: what a side `at` has of the topic of a side `of`."""

    def __init__(self, of: Side, at: Side) -> None:
        self.of, self.at = of, at
        self.topic = f"{of.alias}.{of.topic}"
        self._consumer = at.consumer("check")
        self._taking = Taking(self._consumer)
        self.found: list[list[bytes]] = [[] for _ in range(PARTITIONS)]
        self.ends = [0] * PARTITIONS
        """The offset behind the last record that was read of each partition."""
        self.positions: list[int] = []
        """Of the readers' group here, as they were seen last."""

    def exists(self) -> bool:
        return self.topic in self.at.admin.list_topics(timeout=UNTIL_SECONDS).topics

    def begin(self) -> None:
        self._consumer.assign(
            [TopicPartition(self.topic, n, OFFSET_BEGINNING) for n in range(PARTITIONS)]
        )

    def is_whole(self) -> bool:
        """Read on; say whether as many records were read as were written."""
        for one in self._taking.take(500, 0.2):
            self.found[one.partition].append(one.value or b"")
            self.ends[one.partition] = one.offset + 1
        pairs = zip(self.found, self.of.written, strict=True)
        whole = [len(found) >= len(written) for found, written in pairs]
        return self._taking.is_over(lambda: all(whole))

    def check(self) -> None:
        """Check that each record is there once, in order and in its partition."""
        self._taking.check()
        assert self.found == self.of.written

    def has_positions(self) -> bool:
        """Say whether the readers' group has positions here; what lies ahead never comes right."""
        self.positions = self.at.position(READERS, self.topic)
        return self._are_ahead() or all(one > 0 for one in self.positions)

    def check_positions(self) -> None:
        """Check that the readers' positions lie back, and not ahead."""
        assert not self._are_ahead(), (self.positions, self.ends)

    def _are_ahead(self) -> bool:
        return any(one > end for one, end in zip(self.positions, self.ends, strict=True))

    def allows_readers(self) -> bool:
        return rule(self.topic) in self.at.acls(self.topic)

    def has_retention(self) -> bool:
        return self.at.configuration(self.topic)["retention.ms"] == str(RETENTION_MS + 1)

    def has_grown(self) -> bool:
        return self.at.partitions(self.topic) == PARTITIONS + 1

    def close(self) -> None:
        self._consumer.close()


def rule(topic: str) -> AclBinding:
    """Return the permission to read a topic."""
    who = (f"User:{READERS}", "*", AclOperation.READ, AclPermissionType.ALLOW)
    return AclBinding(ResourceType.TOPIC, topic, ResourcePatternType.LITERAL, *who)


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[ClusterProcess]:
    with ClusterProcess(tmp_path / "cluster", brokers=NODES, settings=SETTINGS) as cluster:
        yield cluster


@pytest.fixture
def ours(cluster: ClusterProcess) -> Side:
    return Side("penstock", cluster.bootstrap, "here")


@pytest.fixture
def theirs() -> Iterator[Side]:
    reason = kafka.why_not(SHARES_PROJECT)
    if reason is not None:
        pytest.skip(reason)
    with KafkaCluster(project=SHARES_PROJECT, more=KAFKA_SETTINGS) as peer:
        yield Side("kafka", peer.bootstrap, "there")


@pytest.fixture
def mirror(ours: Side, theirs: Side, tmp_path: Path) -> Iterator[JavaServer]:
    made = mirror_maker(tmp_path / "mirror", {one.alias: one.bootstrap for one in (ours, theirs)})
    yield made
    made.kill()


def read_to_the_end(side: Side) -> None:
    """Have a group read the side's topic, commit where it stands, and leave."""
    consumer = side.consumer(READERS, {"auto.offset.reset": "earliest"})
    consumer.subscribe([side.topic])
    taking = Taking(consumer)
    left = sum(len(records) for records in side.written)

    def is_read() -> bool:
        nonlocal left
        left -= len(taking.take(500, 0.2))
        return left == 0

    taking.wait(is_read, told=lambda: f"{left} are left")
    consumer.commit(asynchronous=False)
    consumer.close()


def test_all_is_mirrored_both_ways_while_nodes_and_the_mirror_are_killed(
    cluster: ClusterProcess, ours: Side, theirs: Side, mirror: JavaServer
) -> None:
    flows = [Flow(ours, theirs), Flow(theirs, ours)]

    def until(holds: Callable[[], object], flow: Flow) -> None:
        is_so = wait_until(holds, UNTIL_SECONDS / 2, every_seconds=0.1)
        counts = [len(records) for records in flow.found]
        assert is_so, f"{flow.topic} {holds}: {counts} read\n{mirror.log_tail(30)}"

    def write() -> None:
        for side in (ours, theirs):
            side.write(RECORDS_EACH)

    write()
    for side in (ours, theirs):
        side.create_acl(rule(side.topic))
        read_to_the_end(side)
    mirror.launch()
    for flow in flows:
        until(flow.exists, flow)
        flow.begin()
        until(flow.is_whole, flow)
        flow.check()
        until(flow.has_positions, flow)
        flow.check_positions()
        until(flow.allows_readers, flow)
        flow.of.retain(RETENTION_MS + 1)
        until(flow.has_retention, flow)

    for node in cluster.nodes.values():
        write()
        node.restart()
    write()
    mirror.kill()
    mirror.launch()
    for flow in flows:
        until(flow.is_whole, flow)
        flow.check()
        flow.close()
        flow.of.add_partition()
        until(flow.has_grown, flow)
        checkpoints = f"{flow.of.alias}.checkpoints.internal"
        assert flow.at.configuration(checkpoints)["cleanup.policy"] == "compact"
        assert f"{flow.of.alias}.heartbeats" in flow.at.admin.list_topics(timeout=30).topics
