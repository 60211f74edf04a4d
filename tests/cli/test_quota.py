"""`penstock quota`, against a running node."""

import json
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from harness.node import NodeProcess

pytestmark = pytest.mark.process


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NodeProcess]:
    with NodeProcess(tmp_path_factory.mktemp("quota") / "node") as running:
        yield running


def told(node: NodeProcess, *arguments: str, fails: bool = False) -> str:
    done = subprocess.run(
        [
            sys.executable, "-m", "penstock.cli.main", "quota", *arguments,
            "--bootstrap", node.bootstrap,
        ],
        capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL,
    )  # fmt: skip
    assert bool(done.returncode) is fails, done.stderr
    return done.stderr if fails else done.stdout


def listed(node: NodeProcess, *arguments: str) -> Any:
    return json.loads(told(node, "list", *arguments, "-o", "json"))


def row(quota: str, value: float, **parts: str) -> dict[str, object]:
    whose = {"user": parts.get("user", ""), "client-id": parts.get("client", "")}
    return {**whose, "ip": parts.get("ip", ""), "quota": quota, "value": value}


def test_quotas_are_set_listed_and_deleted(node: NodeProcess) -> None:
    told(node, "set", "--user", "alice", "producer_byte_rate=1048576", "request_percentage=0.5")
    told(node, "set", "--user", "alice", "--client-id", "<default>", "consumer_byte_rate=100")
    told(node, "set", "--ip", "<default>", "connection_creation_rate=100")
    mine = [
        row("producer_byte_rate", 1048576, user="alice"),
        row("request_percentage", 0.5, user="alice"),
        row("consumer_byte_rate", 100, user="alice", client="<default>"),
    ]
    everybody = row("connection_creation_rate", 100, ip="<default>")
    assert listed(node) == [everybody, *mine]
    assert listed(node, "--user", "alice") == mine
    assert listed(node, "--client-id", "<default>") == mine[2:]
    assert "alice" in told(node, "list")
    told(node, "delete", "--user", "alice", "producer_byte_rate")
    assert listed(node, "--user", "alice") == mine[1:]
    told(node, "delete", "--user", "alice")
    told(node, "delete", "--user", "alice", "--client-id", "<default>")
    assert listed(node) == [everybody]
    assert "no such quota" in told(node, "delete", "--user", "alice", fails=True)


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (("producer_byte_rate=1",), "say whose"),
        (("--user", "a", "producer_byte_rate"), "has no number"),
        (("--user", "a", "--ip", "::1", "producer_byte_rate=1"), "ip stands alone"),
        (("--ip", "host", "connection_creation_rate=1"), "not a valid IP"),
        (("--user", "a", "connection_creation_rate=1"), "Invalid configuration key"),
        (("--user", "a", "producer_byte_rate=0"), "is from 1"),
    ],
)
def test_what_can_not_be_is_refused(
    node: NodeProcess, arguments: tuple[str, ...], reason: str
) -> None:
    assert reason in told(node, "set", *arguments, fails=True)


def test_a_list_for_what_is_no_address_is_refused(node: NodeProcess) -> None:
    assert "host is not a valid IP" in told(node, "list", "--ip", "host", fails=True)
