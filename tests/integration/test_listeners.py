"""Several listeners in real processes: who came in by one is told of that one alone."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer
from confluent_kafka.admin import AdminClient

from harness.cluster import ClusterProcess
from harness.waiting import wait_until
from harness.workload import create_topic
from tests.integration.clients import send_all
from tests.integration.layouts import FAST, WAIT_SECONDS

pytestmark = pytest.mark.process

TOPIC = "listened"
PARTITIONS = 6


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[ClusterProcess]:
    with ClusterProcess(tmp_path, settings=FAST, listener="outside") as cluster:
        create_topic(cluster.bootstrap, TOPIC, PARTITIONS)
        yield cluster


def outside(cluster: ClusterProcess, broker_id: int) -> str:
    return f"127.0.0.1:{cluster.listener_ports[broker_id]}"


def told_ports(bootstrap: str) -> set[int]:
    """Return the ports of all brokers, as a client that asks there is told."""
    brokers = (
        AdminClient({"bootstrap.servers": bootstrap}).list_topics(timeout=WAIT_SECONDS).brokers
    )
    return {broker.port for broker in brokers.values()}


def test_each_listener_names_all_brokers_by_its_own_ports(cluster: ClusterProcess) -> None:
    inside = {node.port for node in cluster.nodes.values()}
    everywhere = set(cluster.listener_ports.values())
    # A broker that is given up for a moment is not named.
    assert wait_until(lambda: told_ports(outside(cluster, 2)) == everywhere, WAIT_SECONDS)
    assert wait_until(lambda: told_ports(cluster.address_of(2)) == inside, WAIT_SECONDS)


def test_a_client_outside_writes_reads_and_commits_over_a_failover(cluster: ClusterProcess) -> None:
    """All it knows is one outside port; leaders and coordinators change under it."""
    leaders = {cluster.wait_for_leader(TOPIC, one) for one in range(PARTITIONS)}
    known = next(node for node in cluster.nodes if node in leaders)
    for partition in range(PARTITIONS):
        send_all(outside(cluster, known), TOPIC, [b"before"], partition=partition)
    consumer = Consumer(
        {
            "bootstrap.servers": ",".join(outside(cluster, node) for node in cluster.nodes),
            "group.id": "outside",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    )
    try:
        consumer.subscribe([TOPIC])
        values: list[bytes | None] = []

        def has_read(count: int) -> bool:
            message = consumer.poll(0.5)
            if message is not None and message.error() is None:
                values.append(message.value())
            return len(values) >= count

        assert wait_until(lambda: has_read(PARTITIONS), WAIT_SECONDS)
        victim = cluster.wait_for_leader(TOPIC)
        cluster.nodes[victim].kill()
        alive = ",".join(outside(cluster, node) for node in cluster.nodes if node != victim)
        for partition in range(PARTITIONS):
            send_all(alive, TOPIC, [b"after"], partition=partition)
        assert wait_until(lambda: has_read(2 * PARTITIONS), WAIT_SECONDS)
        assert sorted(map(str, values)) == sorted(
            ["b'before'"] * PARTITIONS + ["b'after'"] * PARTITIONS
        )
        consumer.commit(asynchronous=False)
    finally:
        consumer.close()
