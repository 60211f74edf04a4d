"""RocketMQ's stock gRPC consumers of Java and Python, unchanged, also while masters end."""

import json
import os
import re
import subprocess
import sys
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
)

from harness.cluster import ClusterProcess
from harness.ports import free_port
from harness.waiting import wait_until
from penstock.controller.commands.command import CreateTopics
from penstock.controller.commands.command import NewTopic as Created
from tests.compat.rocketmq_client import (
    GRPC,
    GRPC_CONSUMERS,
    RunningClient,
    client,
    running_client,
)
from tests.live_node import LiveNode, running_node

pytestmark = [pytest.mark.compat, pytest.mark.timeout(600)]

COUNT = 20
PARTITIONS = 3
MORE = 100
"""Messages that go through before the next thing happens."""
UNTIL_SECONDS = 120.0
PYTHON = Path(__file__).with_name("grpc_python_consumer.py")

Consumes = Callable[..., list[dict[str, Any]]]


def by_java(home: Path, address: str, *words: object) -> list[dict[str, Any]]:
    return client(home, "simple", address, *words, source=GRPC_CONSUMERS)


def by_python(home: Path, address: str, *words: object) -> list[dict[str, Any]]:
    done = subprocess.run(
        [sys.executable, str(PYTHON), address, *map(str, words)],
        capture_output=True,
        timeout=UNTIL_SECONDS,
        check=False,
        encoding="utf-8",
        env=os.environ | {"HOME": str(home)},
    )
    assert done.returncode == 0, done.stdout[-1000:] + done.stderr[-3000:]
    return [json.loads(line[1:]) for line in done.stdout.splitlines() if line.startswith("@")]


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[LiveNode, str]]:
    grpc = free_port()
    with running_node(tmp_path_factory.mktemp("grpc"), f"grpc.port={grpc}") as node:
        yield node, f"127.0.0.1:{grpc}"


@pytest.fixture(scope="module")
def sent(served: tuple[LiveNode, str], tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """What Java's producer has sent to the topic `orders`: ids by body."""
    node, address = served
    node.submit(CreateTopics(topics=(Created(name="orders", partition_count=PARTITIONS),)))
    told = client(tmp_path_factory.mktemp("home"), address, "orders", COUNT, source=GRPC)
    return {one["sent"]: one["id"] for one in told if "sent" in one}


@pytest.mark.parametrize(("name", "consume"), [("java", by_java), ("python", by_python)])
def test_a_simple_consumer_receives_each_message_once_with_all_its_parts(
    served: tuple[LiveNode, str], sent: dict[str, str], tmp_path: Path, name: str, consume: Consumes
) -> None:
    told = consume(tmp_path, served[1], "orders", f"all-{name}", COUNT, "TAG", "*")
    assert told[0].keys() == {"changed"}
    assert told[-1] == {"more": 0}, "all of them are acknowledged"
    received = {one["received"]: one for one in told if "received" in one}
    assert {body: one["id"] for body, one in received.items()} == sent
    for number in range(COUNT):
        one = received[f"java-{number}"]
        assert one["tag"] == f"tag{number % 2}"
        assert one["keys"] == f"key-{number}"
        assert one["group"] == (f"group-{number % 4}" if number % 2 else "")
        assert (one["colour"], one["attempt"]) == ("grün", 1)


@pytest.mark.parametrize(
    ("name", "consume", "kind", "expression"),
    [
        ("java-tag", by_java, "TAG", "tag1 || none"),
        ("java-sql", by_java, "SQL92", "TAGS = 'tag1' AND colour IS NOT NULL"),
        ("python-sql", by_python, "SQL", "TAGS = 'tag1' AND colour IS NOT NULL"),
    ],
)
def test_a_simple_consumer_receives_what_it_wants_and_no_more(
    served: tuple[LiveNode, str],
    sent: dict[str, str],
    tmp_path: Path,
    name: str,
    consume: Consumes,
    kind: str,
    expression: str,
) -> None:
    wanted = {body for body in sent if int(body.split("-")[1]) % 2}
    told = consume(tmp_path, served[1], "orders", name, len(wanted), kind, expression)
    assert told[-1] == {"more": 0}
    assert {one["received"] for one in told if "received" in one} == wanted


def test_a_push_consumer_gets_all_and_again_what_it_fails_with(
    served: tuple[LiveNode, str], tmp_path: Path
) -> None:
    node, address = served
    node.submit(CreateTopics(topics=(Created(name="pushed", partition_count=PARTITIONS),)))
    bodies = [*(f"good-{n}" for n in range(COUNT)), "again-1", "again-2"]
    produce(f"127.0.0.1:{node.port}", "pushed", bodies)
    words = "push", address, "pushed", "pushers", len(bodies)
    with running_client(tmp_path, *words, source=GRPC_CONSUMERS) as running:
        assert wait_until(lambda: {"done": True} in running.told(), UNTIL_SECONDS)
        told = running.finish()
    attempts = Counter(one["consumed"] for one in told if "consumed" in one)
    assert attempts == Counter(bodies) + Counter(["again-1", "again-2"])
    last = {one["consumed"]: one["attempt"] for one in told if "consumed" in one}
    assert [last["again-1"], last["again-2"], last["good-0"]] == [2, 2, 1]


def test_a_push_consumer_that_is_frozen_keeps_nothing_from_others(
    served: tuple[LiveNode, str], tmp_path: Path
) -> None:
    node, address = served
    node.submit(CreateTopics(topics=(Created(name="frozen", partition_count=PARTITIONS),)))
    homes = [tmp_path / name for name in ("one", "two")]
    for home in homes:
        home.mkdir()
    produce(f"127.0.0.1:{node.port}", "frozen", ["a", "b"])
    hanging = "hanging", address, "frozen", "sleepers"
    with running_client(homes[0], *hanging, source=GRPC_CONSUMERS) as first:
        taken = {"a", "b"}
        assert wait_until(lambda: {one["taken"] for one in first.told()} == taken, UNTIL_SECONDS)
        first.freeze()
        pushing = "push", address, "frozen", "sleepers", 2
        with running_client(homes[1], *pushing, source=GRPC_CONSUMERS) as second:
            assert wait_until(lambda: {"done": True} in second.told(), UNTIL_SECONDS)
            told = second.finish()
    assert {one["consumed"] for one in told if "consumed" in one} == taken


def produce(bootstrap: str, topic: str, bodies: list[str]) -> None:
    producer = Producer({"bootstrap.servers": bootstrap})
    for body in bodies:
        producer.produce(topic, body.encode())
    producer.flush()


# --- through failovers -------------------------------------------------------------------------


def kill(cluster: ClusterProcess, broker_id: int) -> None:
    cluster.nodes[broker_id].kill()


def stop(cluster: ClusterProcess, broker_id: int) -> None:
    cluster.nodes[broker_id].stop()


def await_more(running: RunningClient) -> None:
    """Wait until further messages were both sent and received."""

    def counts() -> tuple[int, int]:
        told = running.told()
        sent = {one["sent"] for one in told if "sent" in one}
        return len(sent), len({one["received"] for one in told if "received" in one})

    begun = counts()

    def has_more() -> bool:
        return all(one >= then + MORE for one, then in zip(counts(), begun, strict=True))

    assert wait_until(has_more, UNTIL_SECONDS), running.told()[-3:]


def held(cluster: ClusterProcess) -> float:
    """Messages of the group that a client has, or that have come back from one."""
    counts: list[float] = []
    for node in cluster.processes.values():
        url = f"http://127.0.0.1:{node.metrics_port}/metrics"
        with urllib.request.urlopen(url, timeout=UNTIL_SECONDS) as answer:
            page = answer.read().decode()
        lines = re.findall(
            r'^penstock_remoting_pop_held\{group="shop",.*\} (\S+)$', page, re.MULTILINE
        )
        counts += map(float, lines)
    assert counts, "the nodes know the group"
    return sum(counts)


@pytest.mark.parametrize(
    ("how", "end"), [("through", kill), ("through", stop), ("through-push", kill)]
)
def test_nothing_acknowledged_comes_again_and_nothing_is_lost_while_masters_end(
    tmp_path: Path, how: str, end: Callable[[ClusterProcess, int], None]
) -> None:
    with ClusterProcess(tmp_path / "cluster", has_grpc=True) as cluster:
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
        admin.create_topics([NewTopic("orders", 6, 3)])["orders"].result(60)
        addresses = ";".join(f"127.0.0.1:{port}" for port in cluster.grpc_ports.values())
        words = how, addresses, "orders", "shop"
        with running_client(tmp_path, *words, source=GRPC_CONSUMERS) as running:
            await_more(running)
            for queue in (0, 1):
                leader = cluster.leader_of("orders", queue)
                end(cluster, leader)
                await_more(running)
                cluster.nodes[leader].start()
                await_more(running)
            told = running.finish()
        if any("refused" in one for one in told):  # the node had died behind what it was told
            assert wait_until(lambda: held(cluster) == 0, UNTIL_SECONDS), "it waits for nobody"
    assert told[-1] == {"left": 0}, "all that was sent is received and acknowledged"
    assert not [one for one in told if one.get("again")], "acknowledged, and received again"
    received = {one["received"] for one in told if "received" in one}
    assert received >= {one["sent"] for one in told if "sent" in one}


def test_message_groups_come_in_order_to_push_consumers_though_a_master_is_killed(
    tmp_path: Path,
) -> None:
    """One partition: a message group is where it was, whoever leads it."""
    with ClusterProcess(tmp_path / "cluster", has_grpc=True) as cluster:
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
        admin.create_topics([NewTopic("orders", 1, 3)])["orders"].result(60)
        entry = ConfigEntry("rmq.pop.ordered", "true", incremental_operation=AlterConfigOpType.SET)
        resource = ConfigResource(ConfigResource.Type.GROUP, "shop", incremental_configs=[entry])
        admin.incremental_alter_configs([resource])[resource].result(60)
        addresses = ";".join(f"127.0.0.1:{port}" for port in cluster.grpc_ports.values())
        words = "through-fifo", addresses, "orders", "shop"
        with running_client(tmp_path, *words, source=GRPC_CONSUMERS) as running:
            await_more(running)
            leader = cluster.leader_of("orders", 0)
            cluster.nodes[leader].kill()
            await_more(running)
            told = running.finish()
    assert told[-1] == {"left": 0}, "all that was sent is received and acknowledged"
    received = [int(one["received"].split("-")[1]) for one in told if "received" in one]
    for group in range(4):
        of_group = [number for number in received if number % 4 == group]
        assert of_group == sorted(of_group), "one comes again before the next one, and never later"
