"""Clients push their metrics by default: librdkafka and Java, to a node and to a cluster."""

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from harness.cluster import ClusterProcess
from harness.node import NodeProcess
from harness.waiting import UNTIL_SECONDS, wait_until
from tests.compat.java_tools import jars_or_skip, tool

pytestmark = [pytest.mark.compat, pytest.mark.timeout(300)]

INTERVAL_MS = 500
COUNT = 3000
PRODUCER = Path(__file__).with_name("MetricsProducer.java")
SETTINGS: dict[str, dict[str, object]] = {"broker": {"client_metrics": True}}


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NodeProcess]:
    with NodeProcess(tmp_path_factory.mktemp("metrics") / "node", settings=SETTINGS) as node:
        create(node.bootstrap, "t", 1)
        yield node


def create(bootstrap: str, topic: str, replicas: int) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(topic, 1, replicas)])[topic].result(UNTIL_SECONDS)


def penstock(bootstrap: str, *arguments: str) -> Any:
    command = [sys.executable, "-m", "penstock.cli.main", *arguments, "--bootstrap", bootstrap]
    done = subprocess.run(
        [*command, "-o", "json"],
        capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL,
    )  # fmt: skip
    return json.loads(done.stdout) if done.returncode == 0 else []


def subscribe(bootstrap: str, name: str, *, match: str, metrics: str = "*") -> None:
    """Say what is asked, with Kafka's own tool."""
    at = ("--bootstrap-server", bootstrap)
    told = ("--metrics", metrics, "--interval", str(INTERVAL_MS), "--match", match)
    tool("kafka-client-metrics", *at, "--alter", "--name", name, *told)


def told(bootstrap: str, client_id: str) -> list[Any]:
    return list(penstock(bootstrap, "audit", "metrics", "--client-id", client_id))


def until_told(
    bootstrap: str, client_id: str, metric: str, go_on: Callable[[], Any] = lambda: None
) -> list[Any]:
    """Wait until a client has pushed this metric; return all of its metrics."""
    rows: list[Any] = []

    def is_there() -> bool:
        go_on()
        rows[:] = told(bootstrap, client_id)
        return any(row["metric"] == metric for row in rows)

    assert wait_until(is_there, UNTIL_SECONDS, every_seconds=0.5), rows
    return rows


def test_librdkafka_pushes_what_it_is_asked_for(node: NodeProcess) -> None:
    subscribe(node.bootstrap, "lib", match="client_id=lib-.*,client_software_name=.*python")
    common = {"bootstrap.servers": node.bootstrap}
    producer = Producer(common | {"client.id": "lib-producer"})
    consumer = Consumer(
        common | {"client.id": "lib-consumer", "group.id": "g", "auto.offset.reset": "earliest"}
    )
    consumer.subscribe(["t"])
    prefix = "org.apache.kafka"
    try:

        def work() -> None:
            producer.produce("t", b"x")
            producer.flush(UNTIL_SECONDS)
            consumer.poll(0.1)

        wanted = f"{prefix}.producer.request.latency.avg"
        rows = until_told(node.bootstrap, "lib-producer", wanted, work)
        (latency,) = [row for row in rows if row["metric"] == wanted]
        assert (latency["kind"], latency["host"]) == ("gauge", "127.0.0.1")
        by_node = [row for row in rows if row["metric"].endswith("node.request.latency.avg")]
        assert {row["attributes"] for row in by_node} == {"node.id=1"}
        wanted = f"{prefix}.consumer.connection.creation.total"
        until_told(node.bootstrap, "lib-consumer", wanted, work)
    finally:
        consumer.close()


def test_librdkafka_goes_on_with_what_is_asked_anew(node: NodeProcess) -> None:
    subscribe(node.bootstrap, "again", match="client_id=again", metrics="org.apache.kafka.none.")
    producer = Producer({"bootstrap.servers": node.bootstrap, "client.id": "again"})

    def work() -> None:
        producer.produce("t", b"x")
        producer.flush(UNTIL_SECONDS)

    work()
    subscribe(node.bootstrap, "again", match="client_id=again")
    until_told(node.bootstrap, "again", "org.apache.kafka.producer.request.latency.avg", work)


@contextmanager
def java_producer(bootstrap: str, name: str, count: int) -> Iterator[None]:
    """A stock producer that has sent so many records, and stays; it closes in the end."""
    class_path = ":".join(str(jar) for jar in jars_or_skip("kafka-tools"))
    options = ("-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
    words = (bootstrap, name, "t", str(count))
    with subprocess.Popen(
        ["java", *options, "-cp", class_path, str(PRODUCER), *words],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    ) as process:  # fmt: skip
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "sent\n"
            yield
            process.communicate("\n", UNTIL_SECONDS)
            assert process.returncode == 0
        finally:
            process.kill()


def sent_of(bootstrap: str, client_id: str) -> list[Any]:
    """Return the rows of how many records a client has sent since the push before."""
    metric = "org.apache.kafka.producer.record.send.total"
    return [row for row in told(bootstrap, client_id) if row["metric"] == metric]


def test_java_clients_push_what_they_are_asked_for(node: NodeProcess) -> None:
    match = "client_software_name=apache-kafka-java,client_id=java-.*"
    subscribe(node.bootstrap, "java", match=match)
    described = tool(
        "kafka-client-metrics", "--bootstrap-server", node.bootstrap, "--describe", "--name", "java"
    )
    assert f"interval.ms={INTERVAL_MS}" in described
    rows: list[Any] = []

    def is_all_told() -> bool:
        rows[:] = sent_of(node.bootstrap, "java-producer")
        return bool(rows and rows[0]["points"] > 1 and rows[0]["value"] == COUNT)

    # It stays until all is pushed: as it closes it pushes once more only if it has still to send.
    with java_producer(node.bootstrap, "java-producer", COUNT):
        assert wait_until(is_all_told, UNTIL_SECONDS, every_seconds=0.5), rows
        assert {row["kind"] for row in rows} == {"sum"}
    (row,) = sent_of(node.bootstrap, "java-producer")
    assert row["value"] == COUNT, "deltas add up, and none counts twice"


def test_metrics_go_on_as_a_node_is_killed(tmp_path: Path) -> None:
    """What is asked of a client has one number everywhere, so that others take its next push."""
    with ClusterProcess(tmp_path, settings=SETTINGS) as cluster:
        create(cluster.bootstrap, "t", 3)
        subscribe(cluster.bootstrap, "all", match="client_id=kept")
        producer = Producer({"bootstrap.servers": cluster.bootstrap, "client.id": "kept"})

        def work() -> None:
            producer.produce("t", b"x")
            producer.flush(UNTIL_SECONDS)

        metric = "org.apache.kafka.producer.request.latency.avg"
        (before,) = [
            row
            for row in until_told(cluster.bootstrap, "kept", metric, work)
            if row["metric"] == metric
        ]
        for broker_id, process in cluster.nodes.items():
            process.kill()
            count = before["points"]

            def goes_on(count: int = count) -> bool:
                work()
                rows = [row for row in told(cluster.bootstrap, "kept") if row["metric"] == metric]
                before.update(rows[0] if rows else {})
                return bool(rows) and before["points"] >= count + 3

            assert wait_until(goes_on, UNTIL_SECONDS, every_seconds=0.5), (broker_id, before)
            process.start()
        assert len({row["instance"] for row in told(cluster.bootstrap, "kept")}) == 1
