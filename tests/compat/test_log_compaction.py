"""Kafka's LogCompactionTester on three nodes that are killed meanwhile, and every replica after it.

The tester writes keys many times over, a part of them as deletes, reads what is left after a while
and compares the last value of each key with what it wrote.
"""

import subprocess
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, TopicPartition
from confluent_kafka.admin import AdminClient

from harness.node import NodeProcess
from harness.waiting import UNTIL_SECONDS, wait_until
from tests.compat.conftest import SHARES_PROJECT
from tests.compat.java_tools import jars_or_skip, tool
from tests.integration.layouts import Layout
from tests.integration.test_housekeeper import metric
from tests.integration.test_second_level_replicas import SETTINGS

pytestmark = [pytest.mark.compat, pytest.mark.timeout(600)]
NODES = (1, 2, 3)
TOPIC_PREFIX = "log-cleaner-test-"
MESSAGES = 150_000
QUIET_SECONDS = 15
"""Between the tester's writing and its reading."""
TESTER = "org.apache.kafka.tools.LogCompactionTester"


@pytest.fixture
def layout(tmp_path: Path) -> Iterator[Layout]:
    """Three nodes, whose cleaners begin as soon as anything can be cleaned."""
    with Layout(tmp_path) as layout:
        for node_id in NODES:
            layout.add(node_id, voters=NODES, replicas=len(NODES), settings=SETTINGS).launch()
        for node in layout.nodes.values():
            node.wait_ready()
        configs = "log.cleaner.min.cleanable.ratio=0.01,log.cleaner.delete.retention.ms=100"
        of_all = ("--entity-type", "brokers", "--entity-default", "--alter", "--add-config")
        tool("kafka-configs", "--bootstrap-server", layout.bootstrap, *of_all, configs)
        yield layout


def start_tester(bootstrap: str, printed: Path) -> subprocess.Popen[bytes]:
    """Start the tester; what it prints goes to a file, and its own files beside that one."""
    class_path = ":".join(str(jar) for jar in jars_or_skip(SHARES_PROJECT))
    numbers = {
        "--bootstrap-server": bootstrap,
        "--messages": str(MESSAGES),
        "--duplicates": "20",
        "--percent-deletes": "10",
        "--compression-type": "zstd",
        "--sleep": str(QUIET_SECONDS),
    }
    options = [part for option in numbers.items() for part in option]
    java = ["java", "-Xmx256m", "-XX:+UseSerialGC", f"-Djava.io.tmpdir={printed.parent}"]
    command = [*java, "-cp", class_path, TESTER, *options]
    with printed.open("wb") as file:
        return subprocess.Popen(command, stdout=file, stderr=subprocess.STDOUT)


def last_values(bootstrap: str, topic: str) -> tuple[dict[bytes, bytes], int]:
    """Return the last value of each key, deletes left out, and how many records were read."""
    consumer = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": "map", "enable.partition.eof": True}
    )
    consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
    found: dict[bytes, bytes] = {}
    count = 0
    try:
        while True:
            for message in consumer.consume(1_000, 1.0):
                error = message.error()
                if error is not None:
                    assert error.code() == KafkaError._PARTITION_EOF, error
                    return found, count
                count += 1
                key, value = bytes(message.key() or b""), message.value()
                if value is None:
                    found.pop(key, None)
                else:
                    found[key] = bytes(value)
    finally:
        consumer.close()


def grow(layout: Layout) -> int:
    """Give the set of the tester's topic all nodes, as it is made with one; return the set."""
    found: list[dict[str, Any]] = []

    def is_there() -> bool:
        sets = layout.status(via=1)["sets"]
        found[:] = [one for one in sets if one["partition_count"]]
        return bool(found)

    assert wait_until(is_there, UNTIL_SECONDS), layout.tails()
    set_id, members = int(found[0]["replica_set_id"]), found[0]["sync_state_set"]
    for node_id in NODES:
        if node_id not in members:
            layout.do("set", "add", str(set_id), str(node_id), via=1)
    layout.wait_in_step(set_id, list(NODES), via=1)
    return set_id


def lead(layout: Layout, set_id: int, node_id: int) -> None:
    """Have a member lead, which is in step then."""
    layout.wait_in_step(set_id, list(NODES), via=1)
    if layout.replica_set(set_id, via=1)["master"] != node_id:
        layout.do("set", "transfer", str(set_id), "--to", str(node_id), via=1)
        layout.wait_for_master(set_id, node_id, via=1)


def has_cleaned(node: NodeProcess) -> bool:
    return metric(node, "penstock_cleaner_dirty_bytes") == 0


def test_kafkas_tester_finds_the_last_value_of_each_key_while_nodes_are_killed(
    layout: Layout, tmp_path: Path
) -> None:
    tester = start_tester(layout.bootstrap, tmp_path / "printed")
    kills = 0
    try:
        set_id = grow(layout)
        while tester.poll() is None:
            layout.nodes[NODES[kills % len(NODES)]].restart()
            kills += 1
            layout.wait_in_step(set_id, list(NODES), via=1)
    finally:
        tester.kill()
    text = (tmp_path / "printed").read_text()
    assert tester.wait() == 0, f"{text}\n{layout.tails()}"
    assert "Data verification is completed" in text
    assert kills > len(NODES)
    admin = AdminClient({"bootstrap.servers": layout.bootstrap})
    topics = admin.list_topics(timeout=UNTIL_SECONDS).topics
    (topic,) = [one for one in topics if one.startswith(TOPIC_PREFIX)]
    maps: list[dict[bytes, bytes]] = []
    for node_id, node in layout.nodes.items():
        assert wait_until(partial(has_cleaned, node), UNTIL_SECONDS), node.log_tail(50)
        lead(layout, set_id, node_id)
        found, count = last_values(layout.bootstrap, topic)
        assert count < MESSAGES // 2, f"node {node_id} has cleaned little"
        maps.append(found)
    assert len(maps[0]) > 1_000
    assert maps == [maps[0]] * len(NODES)
