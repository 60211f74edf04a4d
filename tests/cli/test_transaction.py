"""`penstock transaction`, against a running node."""

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from harness.node import NodeProcess
from harness.waiting import UNTIL_SECONDS
from penstock.cli.output import moment

pytestmark = pytest.mark.process


@pytest.fixture
def node(tmp_path: Path) -> Iterator[NodeProcess]:
    with NodeProcess(tmp_path / "node") as running:
        yield running


def told(node: NodeProcess, *arguments: str, fails: bool = False) -> str:
    done = subprocess.run(
        [
            sys.executable, "-m", "penstock.cli.main", "transaction", *arguments,
            "--bootstrap", node.bootstrap,
        ],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert bool(done.returncode) is fails, done.stderr
    return done.stderr if fails else done.stdout


def as_json(node: NodeProcess, *arguments: str) -> Any:
    return json.loads(told(node, *arguments, "-o", "json"))


def test_an_open_transaction_is_shown_and_aborted(node: NodeProcess) -> None:
    admin = AdminClient({"bootstrap.servers": node.bootstrap})
    admin.create_topics([NewTopic("t", 2, 1)])["t"].result(UNTIL_SECONDS)
    producer = Producer({"bootstrap.servers": node.bootstrap, "transactional.id": "orders"})
    producer.init_transactions(UNTIL_SECONDS)
    producer.begin_transaction()
    producer.produce("t", b"a", partition=1)
    assert producer.flush(UNTIL_SECONDS) == 0
    (listed,) = as_json(node, "list", "--state", "Ongoing")
    assert (listed["id"], listed["coordinator"]) == ("orders", 1)
    assert as_json(node, "list", "--longer-than", "3600") == []
    shown = as_json(node, "describe", "orders")
    assert (shown["state"], shown["producer_id"]) == ("Ongoing", listed["producer_id"])
    assert shown["timeout_ms"] == 60_000
    assert abs(shown["start_ms"] / 1000 - time.time()) < UNTIL_SECONDS
    assert shown["partitions"] == [{"topic": "t", "partition": 1}]
    table = told(node, "describe", "orders")
    assert "START_MS" not in table
    assert moment(shown["start_ms"]) in table
    told(node, "abort", "orders")
    assert as_json(node, "describe", "orders")["state"] == "Empty"
    with pytest.raises(KafkaException):
        producer.commit_transaction(UNTIL_SECONDS)


@pytest.mark.parametrize("command", ["describe", "abort"])
def test_an_id_that_nobody_uses_is_not_there(node: NodeProcess, command: str) -> None:
    text = told(node, command, "nobody", fails=True)
    assert "transactional id nobody does not exist: see penstock transaction list" in text
