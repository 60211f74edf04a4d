"""RocketMQ's stock gRPC producers of transactions: decisions, checks, a master that is killed."""

import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from harness.cluster import ClusterProcess
from harness.waiting import wait_until
from penstock.controller.commands.command import CreateTopics
from penstock.controller.commands.command import NewTopic as Created
from tests.compat.rocketmq_client import (
    GRPC_CONSUMERS,
    GRPC_TRANSACTIONS,
    RunningClient,
    client,
    running_client,
    told_in,
)
from tests.grpc.served import running_grpc_node
from tests.live_node import LiveNode

pytestmark = [pytest.mark.compat, pytest.mark.timeout(600)]

COUNT = 9
COMMITTED = {f"half {n}" for n in range(0, COUNT, 3)}
OPEN = {f"half {n}" for n in range(2, COUNT, 3)}
SETTINGS = {
    "transaction_first_check_ms": 2_000,
    "transaction_check_interval_ms": 1_000,
    "transaction_checks_max": 3,
}
UNTIL_SECONDS = 120.0
PYTHON = Path(__file__).with_name("grpc_python_transactions.py")


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[LiveNode, str]]:
    overrides = [f"remoting.{name}={value}" for name, value in SETTINGS.items()]
    with running_grpc_node(tmp_path_factory.mktemp("transactions"), *overrides) as served:
        yield served


def create(node: LiveNode, name: str) -> None:
    node.submit(CreateTopics(topics=(Created(name=name, partition_count=3),)))


def waiting(node: LiveNode) -> int:
    """How many half messages wait; -1 where none are kept."""
    keeping = node.node._rocketmq.keeping
    return -1 if keeping is None else node.call(keeping.halves.waiting)


def checked(told: list[dict[str, Any]]) -> Counter[str]:
    return Counter(one["checked"] for one in told if "checked" in one)


def received(home: Path, address: str, topic: str, count: int) -> Counter[str]:
    """All that a consumer gets of a topic, by bodies; each is acknowledged."""
    words = address, topic, "readers", count, "TAG", "*"
    told = client(home, "simple", *words, source=GRPC_CONSUMERS)
    assert told[-1] == {"more": 0}
    return Counter(one["received"] for one in told if "received" in one)


def await_decided(node: LiveNode, running: RunningClient) -> None:
    assert wait_until(
        lambda: checked(running.told()).keys() >= OPEN and waiting(node) == 0, UNTIL_SECONDS
    ), running.told()[-3:]


def check_asked(told: list[dict[str, Any]], topic: str) -> None:
    """What is open was asked for, with all its parts, and nothing else."""
    assert not [one for one in told if "failed" in one]
    assert checked(told).keys() == OPEN
    ids = {one["sent"]: one["id"] for one in told if "sent" in one}
    for one in [one for one in told if "checked" in one]:
        number = one["checked"].split()[1]
        assert (one["topic"], one["colour"], one["tag"]) == (topic, "grün", "tag")
        assert (one["id"], one["keys"]) == (ids[one["checked"]], f"key-{number}")


@pytest.mark.parametrize("answer", ["COMMIT", "ROLLBACK"])
def test_what_java_leaves_open_is_asked_for_and_decided_by_the_answer(
    served: tuple[LiveNode, str], tmp_path: Path, answer: str
) -> None:
    node, address = served
    topic = f"java-{answer.lower()}"
    create(node, topic)
    words = address, topic, COUNT, answer
    with running_client(tmp_path, *words, source=GRPC_TRANSACTIONS) as running:
        await_decided(node, running)
        told = running.finish()
    check_asked(told, topic)
    expected = COMMITTED | OPEN if answer == "COMMIT" else COMMITTED
    assert received(tmp_path, address, topic, len(expected)) == Counter(expected), "each once"


def test_what_nobody_decides_is_asked_for_as_often_as_the_node_is_set_and_discarded(
    served: tuple[LiveNode, str], tmp_path: Path
) -> None:
    node, address = served
    create(node, "undecided")
    words = address, "undecided", COUNT, "UNKNOWN"
    with running_client(tmp_path, *words, source=GRPC_TRANSACTIONS) as running:
        await_decided(node, running)
        told = running.finish()
    assert checked(told) == Counter(dict.fromkeys(OPEN, 3))
    assert received(tmp_path, address, "undecided", 3) == Counter(COMMITTED)
    discarded = received(tmp_path, address, "rmq.transactions.discarded", len(OPEN))
    assert discarded == Counter(OPEN)


@contextmanager
def running_python(home: Path, *words: object) -> Iterator[Any]:
    """Python's client for the length of a `with`; a call of what it gives ends it."""
    out = home / "python-told"
    with out.open("w") as told, (home / "python-errors").open("w") as errors:
        process = subprocess.Popen(
            [sys.executable, str(PYTHON), *map(str, words)],
            stdin=subprocess.PIPE,
            stdout=told,
            stderr=errors,
            env=os.environ | {"HOME": str(home)},
        )
    try:
        yield lambda: told_in(out)
        process.communicate(b"stop\n", UNTIL_SECONDS)
        assert process.returncode == 0, (home / "python-errors").read_text()[-3000:]
    finally:
        process.kill()
        process.wait()


def test_python_s_producer_commits_rolls_back_and_answers_when_it_is_asked(
    served: tuple[LiveNode, str], tmp_path: Path
) -> None:
    node, address = served
    create(node, "python")
    with running_python(tmp_path, address, "python", COUNT) as told_so_far:
        assert wait_until(
            lambda: checked(told_so_far()).keys() >= OPEN and waiting(node) == 0, UNTIL_SECONDS
        ), told_so_far()[-3:]
        told = told_so_far()
    check_asked(told, "python")
    expected = COMMITTED | OPEN
    assert received(tmp_path, address, "python", len(expected)) == Counter(expected)


def test_a_master_that_is_killed_between_half_message_and_decision_decides_nothing_twice(
    tmp_path: Path,
) -> None:
    settings = {"remoting": SETTINGS | {"transaction_checks_max": 100}}
    with ClusterProcess(tmp_path / "cluster", has_grpc=True, settings=settings) as cluster:
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
        admin.create_topics([NewTopic("orders", 1, 3)])["orders"].result(60)
        address = ";".join(f"127.0.0.1:{port}" for port in cluster.grpc_ports.values())
        with running_client(
            tmp_path, address, "orders", COUNT, "COMMIT", source=GRPC_TRANSACTIONS
        ) as running:
            assert wait_until(
                lambda: len([one for one in running.told() if "sent" in one]) == COUNT,
                UNTIL_SECONDS,
            ), running.told()[-3:]
            leader = cluster.leader_of("orders", 0)
            cluster.nodes[leader].kill()
            assert wait_until(lambda: checked(running.told()).keys() >= OPEN, UNTIL_SECONDS), (
                running.told()[-3:]
            )
            cluster.nodes[leader].start()
            running.finish()
        expected = COMMITTED | OPEN
        assert received(tmp_path, address, "orders", len(expected)) == Counter(expected)
