"""RocketMQ's stock transactional producer: decisions, checks, and masters that end between."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from harness.cluster import ClusterProcess
from harness.waiting import wait_until
from penstock.controller.commands.command import CreateTopics
from penstock.controller.commands.command import NewTopic as Created
from tests.compat.rocketmq_client import client, running_client
from tests.live_node import LiveNode
from tests.remoting.served import running_remoting_node

pytestmark = [pytest.mark.compat, pytest.mark.timeout(600)]

COUNT = 9
COMMITTED = {f"half {n}" for n in range(0, COUNT, 3)}
OPEN = {f"half {n}" for n in range(2, COUNT, 3)}
SETTINGS = (
    "remoting.transaction_first_check_ms=2000",
    "remoting.transaction_check_interval_ms=1000",
    "remoting.transaction_checks_max=2",
)
UNTIL_SECONDS = 120.0


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[LiveNode, str]]:
    directory = tmp_path_factory.mktemp("transactions")
    with running_remoting_node(directory, *SETTINGS) as served:
        yield served


@pytest.fixture
def topic(served: tuple[LiveNode, str], name: str) -> str:
    served[0].submit(CreateTopics(topics=(Created(name=name, partition_count=3),)))
    return name


def pulled(home: Path, address: str, topic: str) -> Counter[str]:
    """All there is in a topic, by bodies."""
    told = client(home, "pull", address, topic, "readers")
    return Counter(one["body"] for one in told if "body" in one)


def checked(told: list[dict[str, Any]]) -> Counter[str]:
    return Counter(one["checked"] for one in told if "checked" in one)


def waiting(node: LiveNode) -> int:
    """How many half messages wait; -1 on a node without the front."""
    front = node.node._rocketmq.remoting
    return -1 if front is None else node.call(front.halves.waiting)


@pytest.mark.parametrize("answer", ["COMMIT", "ROLLBACK"])
def test_what_is_left_open_is_asked_for_and_decided_by_the_answer(
    served: tuple[LiveNode, str], topic: str, tmp_path: Path, answer: str
) -> None:
    node, address = served
    group = f"payers-{answer}"
    words = (address, topic, group, COUNT, answer)
    with running_client(tmp_path, "transactions", *words) as running:
        assert wait_until(
            lambda: checked(running.told()).keys() >= OPEN and waiting(node) == 0, UNTIL_SECONDS
        ), running.told()[-3:]
        told = running.finish()
    assert {one["status"] for one in told if "status" in one} == {"SEND_OK"}
    assert checked(told).keys() == OPEN
    asked = [one for one in told if "checked" in one]
    ids = {one["sent"]: one["id"] for one in told if "sent" in one}
    for one in asked:
        assert (one["topic"], one["colour"]) == (topic, "grün")
        assert one["transaction"] == ids[one["checked"]]
    expected = COMMITTED | OPEN if answer == "COMMIT" else COMMITTED
    assert pulled(tmp_path, address, topic) == Counter(expected), "each once"


def test_what_stays_open_is_discarded_and_can_be_looked_at(
    served: tuple[LiveNode, str], topic: str, tmp_path: Path
) -> None:
    node, address = served
    words = (address, topic, "undecided", COUNT, "UNKNOWN")
    with running_client(tmp_path, "transactions", *words) as running:
        assert wait_until(
            lambda: bool(checked(running.told())) and waiting(node) == 0, UNTIL_SECONDS
        ), running.told()[-3:]
        told = running.finish()
    assert checked(told) == Counter(dict.fromkeys(OPEN, 2))
    assert {one["times"] for one in told if "checked" in one} == {"1", "2"}
    assert pulled(tmp_path, address, topic) == Counter(COMMITTED)
    letters = client(tmp_path, "pull", address, "TRANS_CHECK_MAX_TIME_TOPIC", "undertaker")
    mine = [one for one in letters if one.get("properties", {}).get("REAL_TOPIC") == topic]
    assert {one["body"] for one in mine} == OPEN
    assert {one["properties"]["TRANSACTION_CHECK_TIMES"] for one in mine} == {"2"}


def test_another_producer_of_the_group_is_asked_when_the_first_is_gone(
    served: tuple[LiveNode, str], topic: str, tmp_path: Path
) -> None:
    node, address = served
    client(tmp_path, "abandoned", address, topic, "heirs", 3)
    assert waiting(node) == 3
    words = (address, topic, "heirs", 1, "COMMIT")
    with running_client(tmp_path, "transactions", *words) as running:
        assert wait_until(lambda: waiting(node) == 0, UNTIL_SECONDS), running.told()[-3:]
        running.finish()
    expected = Counter({"half 0": 2, "half 1": 1, "half 2": 1})
    assert pulled(tmp_path, address, topic) == expected


def test_a_master_that_is_killed_between_half_message_and_decision_decides_nothing_twice(
    tmp_path: Path,
) -> None:
    with ClusterProcess(tmp_path / "cluster", has_remoting=True) as cluster:
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
        admin.create_topics([NewTopic("orders", 1, 3)])["orders"].result(60)
        address = ";".join(f"127.0.0.1:{port}" for port in cluster.remoting_ports.values())
        words = (address, "orders", "payers", COUNT, "COMMIT")
        with running_client(tmp_path, "transactions", *words) as running:
            assert wait_until(
                lambda: len([one for one in running.told() if "sent" in one]) == COUNT,
                UNTIL_SECONDS,
            ), running.told()[-3:]
            leader = cluster.leader_of("orders", 0)
            cluster.nodes[leader].kill()
            assert wait_until(
                lambda: cluster.leader_of("orders", 0) not in {leader, -1}, UNTIL_SECONDS
            )
            assert wait_until(lambda: end_of(cluster, "orders") == 6, UNTIL_SECONDS), (
                running.told()[-3:]
            )
            cluster.nodes[leader].start()
            told = running.finish()
        assert checked(told).keys() >= OPEN
        assert pulled(tmp_path, address, "orders") == Counter(COMMITTED | OPEN)


def end_of(cluster: ClusterProcess, topic: str) -> int:
    """How many messages a topic has, as far as they are confirmed."""
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": "none"})
    try:
        return consumer.get_watermark_offsets(TopicPartition(topic, 0), 60)[1]
    finally:
        consumer.close()
