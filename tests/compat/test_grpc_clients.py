"""RocketMQ's stock gRPC clients of Java and Python, unchanged: what they send, others read."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from harness.cluster import ClusterProcess
from harness.ports import free_port
from harness.waiting import wait_until
from penstock.controller.commands.command import CreateTopics
from penstock.controller.commands.command import NewTopic as Created
from tests.compat.rocketmq_client import GRPC, client, running_client
from tests.grpc.served import records
from tests.live_node import LiveNode, running_node

pytestmark = [pytest.mark.compat, pytest.mark.timeout(600)]

COUNT = 20
LATE = 4
"""Messages with a time of their own."""
PARTITIONS = 3
MORE = 200
UNTIL_SECONDS = 120.0
PYTHON = Path(__file__).with_name("grpc_python_producer.py")

Sends = Callable[[Path, str, str], list[dict[str, Any]]]


def by_java(home: Path, address: str, topic: str) -> list[dict[str, Any]]:
    told = client(home, address, topic, COUNT, source=GRPC)
    assert told[-1] == {"done": True}
    return told[:-1]


def by_python(home: Path, address: str, topic: str) -> list[dict[str, Any]]:
    told = python(home, address, topic, COUNT)
    assert told[-1]["sent"] == "python-async"
    return told


def late_by_java(home: Path, address: str, topic: str) -> list[dict[str, Any]]:
    told = client(home, address, topic, LATE, 2, source=GRPC)
    assert told[-1] == {"done": True}
    return told[:-1]


def late_by_python(home: Path, address: str, topic: str) -> list[dict[str, Any]]:
    return python(home, address, topic, LATE, 2)


def python(home: Path, *words: object) -> list[dict[str, Any]]:
    """Run Python's producer; return what it has told."""
    done = subprocess.run(
        [sys.executable, str(PYTHON), *map(str, words)],
        capture_output=True,
        timeout=UNTIL_SECONDS,
        check=False,
        encoding="utf-8",
        env=os.environ | {"HOME": str(home)},
    )
    assert done.returncode == 0, done.stdout[-1000:] + done.stderr[-3000:]
    return [json.loads(line[1:]) for line in done.stdout.splitlines() if line.startswith("@")]


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[LiveNode, str, str]]:
    grpc, remoting = free_port(), free_port()
    directory = tmp_path_factory.mktemp("grpc")
    with running_node(directory, f"grpc.port={grpc}", f"remoting.port={remoting}") as node:
        yield node, f"127.0.0.1:{grpc}", f"127.0.0.1:{remoting}"


@pytest.mark.parametrize(("name", "send"), [("java", by_java), ("python", by_python)])
def test_what_a_gRPC_client_sends_kafka_s_and_remoting_clients_read_with_all_its_parts(
    served: tuple[LiveNode, str, str], tmp_path: Path, name: str, send: Sends
) -> None:
    node, grpc, remoting = served
    node.submit(CreateTopics(topics=(Created(name=name, partition_count=PARTITIONS),)))
    told = send(tmp_path, grpc, name)
    ids = {one["sent"]: one["id"] for one in told}
    assert len(ids) == len(told) >= COUNT
    kafka = {one.value().decode(): one for one in records(node, name, PARTITIONS, len(told))}
    assert kafka.keys() == ids.keys()
    *read, done = client(tmp_path, "push", remoting, name, f"of-{name}", "*", len(told))
    assert done == {"done": True}
    pushed = {one["body"]: one for one in read}
    assert len(read) == len(pushed)
    assert pushed.keys() == ids.keys()
    for number in range(COUNT):
        body = f"{name}-{number}"
        headers = dict(kafka[body].headers())
        assert headers["rmq.id"].decode() == ids[body] == pushed[body]["id"]
        assert headers["rmq.tag"].decode() == pushed[body]["tags"] == f"tag{number % 2}"
        assert headers["rmq.keys"].decode() == pushed[body]["keys"] == f"key-{number}"
        assert headers["colour"].decode() == pushed[body]["properties"]["colour"] == "grün"
        group = f"group-{number % 4}".encode() if number % 2 else None
        assert kafka[body].key() == group
    assert len({kafka[f"{name}-{one}"].partition() for one in range(1, COUNT, 4)}) == 1


def test_java_s_client_as_it_is_made_begins_with_tls_and_is_served(tmp_path: Path) -> None:
    """Its default, which RocketMQ's proxy takes beside plain text at one port."""
    port = free_port()
    with running_node(tmp_path, f"grpc.port={port}", "grpc.takes_tls=true") as node:
        node.submit(CreateTopics(topics=(Created(name="either", partition_count=PARTITIONS),)))
        for begins in ("default:", ""):
            told = client(tmp_path, f"{begins}127.0.0.1:{port}", "either", COUNT, source=GRPC)
            assert told[-1] == {"done": True}
        read = records(node, "either", PARTITIONS, 2 * COUNT)
        assert sorted(one.value().decode() for one in read) == sorted(
            2 * [f"java-{number}" for number in range(COUNT)]
        )


@pytest.mark.parametrize(("name", "send"), [("java", late_by_java), ("python", late_by_python)])
def test_a_delayed_message_is_there_at_its_time_and_not_before(
    served: tuple[LiveNode, str, str], tmp_path: Path, name: str, send: Sends
) -> None:
    """The time of a record is that of its delivery."""
    node, grpc, _ = served
    topic = f"late-{name}"
    node.submit(CreateTopics(topics=(Created(name=topic, partition_count=PARTITIONS),)))
    told = send(tmp_path, grpc, topic)
    check_late({one["sent"]: one["at"] for one in told}, records(node, topic, PARTITIONS, LATE))


@pytest.mark.parametrize("name", ["java", "python"])
def test_a_delayed_message_that_is_recalled_is_never_there(
    served: tuple[LiveNode, str, str], tmp_path: Path, name: str
) -> None:
    node, grpc, _ = served
    topic = f"recalled-{name}"
    node.submit(CreateTopics(topics=(Created(name=topic, partition_count=PARTITIONS),)))
    words = (grpc, topic, LATE, 3, "recall")
    told = client(tmp_path, *words, source=GRPC) if name == "java" else python(tmp_path, *words)
    sent = [one for one in told if "sent" in one]
    assert [one.get("recalled") for one in sent] == [None, True] * (LATE // 2)
    left = {one["sent"]: one["at"] for one in sent if "recalled" not in one}
    kept = node.node._rocketmq.keeping
    assert kept is not None
    assert wait_until(lambda: node.call(kept.delivery.waiting) == 0, UNTIL_SECONDS)
    read = records(node, topic, PARTITIONS, len(left))
    assert {one.value().decode() for one in read} == left.keys()


def test_a_recall_is_passed_on_to_the_master_of_the_set(tmp_path: Path) -> None:
    """Python's client asks the first node that it knows, which leads nothing here."""
    with ClusterProcess(tmp_path / "cluster", has_grpc=True) as cluster:
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
        admin.create_topics([NewTopic("orders", 1, 3)])["orders"].result(60)
        leader = cluster.leader_of("orders", 0)
        other = next(port for one, port in cluster.grpc_ports.items() if one != leader)
        told = python(tmp_path, f"127.0.0.1:{other}", "orders", LATE, 4, "recall")
        assert [one.get("recalled") for one in told] == [None, True] * (LATE // 2)
        left = {one["sent"] for one in told if "recalled" not in one}
        consumer = Consumer(
            {"bootstrap.servers": cluster.bootstrap, "group.id": "g", "enable.auto.commit": 0}
        )
        consumer.assign([TopicPartition("orders", 0, 0)])
        read: set[str] = set()
        while not left <= read:
            record = consumer.poll(UNTIL_SECONDS)
            assert record is not None, f"{len(read)} of {len(left)} are there"
            if record.error() is None:
                read.add((record.value() or b"").decode())
        consumer.close()
        assert read == left


def check_late(times: dict[str, int], read: list[Any]) -> None:
    """Each message is there once, and not before its time."""
    assert len(times) == LATE
    assert sorted(one.value().decode() for one in read) == sorted(times)
    for one in read:
        assert one.timestamp()[1] >= times[one.value().decode()]


def test_what_waits_for_its_time_comes_though_its_master_is_killed(tmp_path: Path) -> None:
    with ClusterProcess(tmp_path / "cluster", has_grpc=True) as cluster:
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
        admin.create_topics([NewTopic("orders", 1, 3)])["orders"].result(60)
        addresses = ";".join(f"127.0.0.1:{port}" for port in cluster.grpc_ports.values())
        told = client(tmp_path, addresses, "orders", LATE, 20, source=GRPC)
        leader = cluster.leader_of("orders", 0)
        cluster.nodes[leader].kill()
        consumer = Consumer(
            {"bootstrap.servers": cluster.bootstrap, "group.id": "g", "enable.auto.commit": 0}
        )
        consumer.assign([TopicPartition("orders", 0, 0)])
        read: list[Any] = []
        while len(read) < LATE:
            record = consumer.poll(UNTIL_SECONDS)
            assert record is not None, f"{len(read)} of {LATE} are there"
            read += [record] if record.error() is None else []
        consumer.close()
        check_late({one["sent"]: one["at"] for one in told if "sent" in one}, read)


def test_nothing_acknowledged_is_lost_while_a_master_is_killed(tmp_path: Path) -> None:
    with ClusterProcess(tmp_path / "cluster", has_grpc=True) as cluster:
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
        admin.create_topics([NewTopic("orders", 6, 3)])["orders"].result(60)
        addresses = ";".join(f"127.0.0.1:{port}" for port in cluster.grpc_ports.values())
        with running_client(tmp_path, addresses, "orders", 0, "through", source=GRPC) as running:
            await_more(running)
            killed = cluster.leader_of("orders", 0)
            cluster.nodes[killed].kill()
            await_more(running)
            cluster.nodes[killed].start()
            await_more(running)
            told = running.finish()
        sent = [one["sent"] for one in told if "sent" in one]
        assert len(sent) >= 3 * MORE
        assert read_bodies(cluster.bootstrap) >= set(sent)


def await_more(running: Any) -> None:
    """Wait until further messages are acknowledged."""

    def count() -> int:
        return sum("sent" in one for one in running.told())

    begun = count()
    assert wait_until(lambda: count() >= begun + MORE, UNTIL_SECONDS), running.told()[-3:]


def read_bodies(bootstrap: str) -> set[str]:
    """All that the topic has, up to the ends that it has now."""
    consumer = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": "all", "enable.partition.eof": True}
    )
    consumer.assign([TopicPartition("orders", one, 0) for one in range(6)])
    found: set[str] = set()
    ended: set[int] = set()
    while len(ended) < 6:
        record = consumer.poll(UNTIL_SECONDS)
        assert record is not None, f"{len(ended)} of 6 partitions are read"
        if record.error() is None:
            found.add((record.value() or b"").decode())
        else:
            ended.add(record.partition() or 0)
    consumer.close()
    return found
