"""Kafka's own kafka-reassign-partitions between real nodes, while clients write and nodes end."""

import datetime
import json
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from harness.cluster import ClusterProcess
from harness.waiting import UNTIL_SECONDS, wait_until
from penstock.protocol.api_keys import ApiKey
from penstock.protocol.error_codes import ErrorCode
from tests.compat.java_tools import tool
from tests.compat.taking import Taking
from tests.live_node import RawClient

pytestmark = [pytest.mark.compat, pytest.mark.timeout(600)]

TOPIC = "orders"
PARTITIONS = 3
NODES = 4
_AS_THEY_ARE = "--preserve-throttles"
"""Otherwise the tool asks every node of the plan to clear them, also one that is away."""
MORE = 200
"""Records that go through before the next thing happens."""


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[ClusterProcess]:
    """Four nodes; the partitions of the topic are all those of one set of two members."""
    with ClusterProcess(tmp_path / "cluster", brokers=NODES, replicas=1) as cluster:
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
        placed = [[1, 2]] * PARTITIONS
        made = admin.create_topics([NewTopic(TOPIC, PARTITIONS, replica_assignment=placed)])
        made[TOPIC].result(UNTIL_SECONDS)
        yield cluster


class Tool:
    """kafka-reassign-partitions, with a plan for the topic."""

    def __init__(self, cluster: ClusterProcess, directory: Path) -> None:
        self._at = ("--bootstrap-server", cluster.bootstrap)
        self._plan = directory / "plan.json"

    def __call__(self, *arguments: str, check: bool = True) -> str:
        return tool("kafka-reassign-partitions", *self._at, *arguments, check=check)

    def plan(self, replicas: Sequence[int], partitions: Sequence[int] = range(PARTITIONS)) -> None:
        moves = [{"topic": TOPIC, "partition": one, "replicas": replicas} for one in partitions]
        self._plan.write_text(json.dumps({"version": 1, "partitions": moves}))

    def with_plan(self, *arguments: str, check: bool = True) -> str:
        return self("--reassignment-json-file", str(self._plan), *arguments, check=check)

    def is_done(self) -> bool:
        told = self.with_plan("--verify")
        return told.count("is completed") == PARTITIONS


class Writes:
    """A producer that goes on until the block ends; `acknowledged` by partition, in order."""

    def __init__(self, bootstrap: str) -> None:
        self._producer = Producer(
            {"bootstrap.servers": bootstrap, "acks": "all", "enable.idempotence": True}
        )
        self.acknowledged: dict[int, list[bytes]] = {one: [] for one in range(PARTITIONS)}
        self.failures: list[str] = []
        self._is_over = threading.Event()

    def run(self) -> None:
        number = 0
        while not self._is_over.is_set():
            value = b"%d" % number
            self._producer.produce(
                TOPIC, value, partition=number % PARTITIONS, on_delivery=self._delivered
            )
            self._producer.poll(0.001)
            number += 1
            if len(self._producer) > MORE:
                self._producer.poll(1.0)
        self._producer.flush(UNTIL_SECONDS)

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self.failures.append(str(error))
            return
        partition, value = message.partition(), message.value()
        assert partition is not None
        assert value is not None
        self.acknowledged[partition].append(value)

    def count(self) -> int:
        return sum(map(len, self.acknowledged.values()))

    def await_more(self) -> None:
        """Wait until all partitions have taken further records."""
        then = {one: len(values) for one, values in self.acknowledged.items()}
        assert wait_until(
            lambda: all(len(self.acknowledged[one]) >= then[one] + MORE for one in then),
            UNTIL_SECONDS,
        ), self.failures

    def end(self) -> None:
        self._is_over.set()


@contextmanager
def writing(bootstrap: str) -> Iterator[Writes]:
    writes = Writes(bootstrap)
    thread = threading.Thread(target=writes.run)
    thread.start()
    try:
        yield writes
    finally:
        writes.end()
        thread.join()


def read(bootstrap: str, ends: dict[int, int]) -> dict[int, list[bytes]]:
    """All records of the topic, up to at least so many in each partition."""
    consumer = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": "reader", "enable.auto.commit": False}
    )
    found: dict[int, list[bytes]] = {one: [] for one in ends}
    try:
        consumer.assign([TopicPartition(TOPIC, one, 0) for one in ends])
        taking = Taking(consumer)

        def is_read() -> bool:
            for one in taking.take(1000, 0.5):
                found[one.partition].append(one.value or b"none")
            return all(len(found[one]) >= end for one, end in ends.items())

        taking.wait(is_read, told=lambda: {one: len(got) for one, got in found.items()})
    finally:
        consumer.close()
    return found


def members_of(cluster: ClusterProcess) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
    """Replicas and replicas in step of each partition."""
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    partitions = admin.list_topics(TOPIC, timeout=UNTIL_SECONDS).topics[TOPIC].partitions
    return [(tuple(one.replicas), tuple(sorted(one.isrs))) for _, one in sorted(partitions.items())]


def test_partitions_move_to_other_nodes_while_clients_write_and_a_controller_ends(
    cluster: ClusterProcess, tmp_path: Path
) -> None:
    reassign = Tool(cluster, tmp_path)
    with writing(cluster.bootstrap) as writes:
        writes.await_more()
        reassign.plan((4, 3))
        assert "Successfully started partition reassignments" in reassign.with_plan("--execute")
        active = cluster.status()["controller"]["active_id"]
        cluster.nodes[active].kill()
        cluster.nodes[active].start()
        writes.await_more()
        assert wait_until(reassign.is_done, UNTIL_SECONDS), reassign("--list")
        writes.await_more()
    assert writes.failures == []
    assert members_of(cluster) == [((4, 3), (3, 4))] * PARTITIONS
    assert "No partition reassignments found" in reassign("--list")
    ends = {one: len(values) for one, values in writes.acknowledged.items()}
    assert read(cluster.bootstrap, ends) == writes.acknowledged


def ask(cluster: ClusterProcess, replicas: Sequence[int]) -> None:
    """Ask as a client does that, unlike Kafka's tool, names a node that is away."""
    parts = [{"partition_index": one, "replicas": replicas} for one in range(PARTITIONS)]
    fields = {
        "timeout": datetime.timedelta(seconds=UNTIL_SECONDS),
        "allow_replication_factor_change": True,
        "topics": [{"name": TOPIC, "partitions": parts}],
    }
    client = RawClient(cluster.nodes[1].port)
    try:
        answer = client.ask(ApiKey.ALTER_PARTITION_REASSIGNMENTS, 1, fields)
    finally:
        client.close()
    codes = {one.error_code for one in answer.responses[0].partitions}
    assert codes == {ErrorCode.NONE}


def test_what_waits_for_a_node_that_is_away_is_listed_cancelled_and_refused_in_part(
    cluster: ClusterProcess, tmp_path: Path
) -> None:
    reassign = Tool(cluster, tmp_path)
    cluster.nodes[4].stop()
    ask(cluster, (1, 4))
    reassign.plan((1, 4))
    listed = reassign("--list")
    assert f"{TOPIC}-2: replicas: 1,2,4. adding: 4. removing: 2." in listed
    assert "still in progress" in reassign.with_plan("--verify", _AS_THEY_ARE)
    cancelled = reassign.with_plan("--cancel", _AS_THEY_ARE)
    assert "Successfully cancelled partition reassignments" in cancelled
    assert "No partition reassignments found" in reassign("--list")
    assert members_of(cluster) == [((1, 2), (1, 2))] * PARTITIONS
    reassign.plan((1, 3), partitions=(0,))
    refused = reassign.with_plan("--execute", check=False)
    assert "The 3 partitions of replica set" in refused
    assert "names 1 of them" in refused


def test_another_order_and_more_and_fewer_replicas_are_there_as_they_were_asked_for(
    cluster: ClusterProcess, tmp_path: Path
) -> None:
    reassign = Tool(cluster, tmp_path)
    for replicas in ((2, 1), (2, 1, 3), (3,)):
        reassign.plan(replicas)
        reassign.with_plan("--execute")
        assert wait_until(reassign.is_done, UNTIL_SECONDS), reassign("--list")
        assert {members for members, _ in members_of(cluster)} == {replicas}
