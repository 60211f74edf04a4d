"""Our own reader and transactions: what is committed, and what was aborted or is open."""

from collections.abc import Iterator
from pathlib import Path

import confluent_kafka
import pytest

from harness.waiting import UNTIL_SECONDS
from penstock.cli import program
from penstock.client.admin import Admin
from penstock.client.cluster import Cluster
from penstock.client.settings import ClientSettings
from tests.live_node import LiveNode, running_node

TOPIC, WAITING = "mixed", "waiting"


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveNode]:
    """A topic with committed, aborted, plain and open records, in this order."""
    directory: Path = tmp_path_factory.mktemp("node")
    with running_node(directory) as started:
        bootstrap = f"127.0.0.1:{started.port}"
        with Cluster(ClientSettings(bootstrap=bootstrap)) as cluster:
            for name in (TOPIC, WAITING):
                Admin(cluster).create_topic(name, partitions=1)
        producers = [_transactional(bootstrap, name) for name in ("one", "two")]
        for value, ends in (("a", "commit"), ("b", "abort"), ("c", "abort"), ("d", "commit")):
            _transaction(producers[0], value, ends)
        plain = confluent_kafka.Producer({"bootstrap.servers": bootstrap})
        plain.produce(TOPIC, b"plain", partition=0)
        assert plain.flush(UNTIL_SECONDS) == 0
        _transaction(producers[1], "last", "abort")
        yield started


def _transactional(bootstrap: str, name: str) -> confluent_kafka.Producer:
    producer = confluent_kafka.Producer({"bootstrap.servers": bootstrap, "transactional.id": name})
    producer.init_transactions(UNTIL_SECONDS)
    return producer


def _transaction(
    producer: confluent_kafka.Producer, value: str, ends: str, topic: str = TOPIC
) -> None:
    producer.begin_transaction()
    for number in range(3):
        producer.produce(topic, f"{value}{number}".encode(), partition=0)
    assert producer.flush(UNTIL_SECONDS) == 0
    if ends == "commit":
        producer.commit_transaction(UNTIL_SECONDS)
    elif ends == "abort":
        producer.abort_transaction(UNTIL_SECONDS)


def shown(
    node: LiveNode,
    capfdbinary: pytest.CaptureFixture[bytes],
    *options: str,
    topic: str = TOPIC,
) -> tuple[list[str], str]:
    command = ("consume", topic, "--bootstrap", f"127.0.0.1:{node.port}", *options)
    assert program.guarded(command) == 0
    out, err = capfdbinary.readouterr()
    return out.decode().split(), err.decode()


COMMITTED = ["a0", "a1", "a2", "d0", "d1", "d2", "plain"]


def test_what_was_aborted_is_not_shown(
    node: LiveNode, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    assert shown(node, capfdbinary) == (COMMITTED, "")
    everything, told = shown(node, capfdbinary, "--isolation", "read_uncommitted")
    assert len(everything) == 16
    assert told == ""


def test_from_within_an_aborted_transaction_the_rest_of_it_is_not_shown(
    node: LiveNode, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    within_b = "5"  # a0 a1 a2 marker b0 b1
    assert shown(node, capfdbinary, "--from", within_b) == (COMMITTED[3:], "")


def test_reading_ends_before_what_is_open_and_says_so(
    node: LiveNode, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    producer = _transactional(f"127.0.0.1:{node.port}", "three")
    _transaction(producer, "done", "commit", WAITING)
    _transaction(producer, "open", "later", WAITING)
    found, told = shown(node, capfdbinary, topic=WAITING)
    assert found == ["done0", "done1", "done2"]
    assert "a transaction is open in partition 0" in told
    assert "--isolation read_uncommitted" in told
    producer.abort_transaction(UNTIL_SECONDS)
