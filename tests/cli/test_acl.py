"""`penstock acl`, against a running node."""

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
    settings = {"access": {"authorizer": "acl", "super_users": ["User:ANONYMOUS"]}}
    with NodeProcess(tmp_path_factory.mktemp("acl") / "node", settings=settings) as running:
        yield running


def told(node: NodeProcess, *arguments: str, fails: bool = False) -> str:
    done = subprocess.run(
        [
            sys.executable, "-m", "penstock.cli.main", "acl", *arguments,
            "--bootstrap", node.bootstrap,
        ],
        capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL,
    )  # fmt: skip
    assert bool(done.returncode) is fails, done.stderr
    return done.stderr if fails else done.stdout


def as_json(node: NodeProcess, *arguments: str) -> Any:
    return json.loads(told(node, *arguments, "-o", "json"))


def test_rules_are_added_listed_and_removed(node: NodeProcess) -> None:
    operations = ("--operation", "read", "--operation", "describe-configs")
    added = as_json(node, "add", "--allow", "User:alice", *operations, "topic:orders-*", "group:g")
    assert len(added) == 4
    told(node, "add", "--deny", "User:*", "--host", "10.0.0.7", "--operation", "all", "topic:*")
    told(node, "add", "--allow", "User:bob", "--operation", "alter", "cluster")
    assert len(as_json(node, "list")) == 6
    applying = as_json(node, "list", "topic:orders-eu", "--applying")
    assert [(one["name"], one["pattern"], one["permission"]) for one in applying] == [
        ("*", "literal", "deny"),
        ("orders-", "prefixed", "allow"),
        ("orders-", "prefixed", "allow"),
    ]
    assert "orders-" in told(node, "list", "topic:orders-*")
    assert "--yes" in told(node, "remove", "--principal", "User:alice", fails=True)
    gone = as_json(node, "remove", "--principal", "User:alice", "--yes")
    assert len(gone) == 4
    assert as_json(node, "remove", "cluster", "--operation", "alter", "--yes") == [
        {
            "resource": "cluster",
            "name": "kafka-cluster",
            "pattern": "literal",
            "principal": "User:bob",
            "host": "*",
            "operation": "alter",
            "permission": "allow",
        }
    ]
    assert len(as_json(node, "remove", "--all", "--yes")) == 1
    assert as_json(node, "list") == []


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("add", "--operation", "read", "topic:t"), "give --allow or --deny"),
        (("add", "--allow", "User:a", "--operation", "read", "orders"), "write TYPE:NAME"),
        (("add", "--allow", "User:a", "--operation", "read", "topic:"), "topic:* for all"),
        (("add", "--allow", "User:a", "--operation", "read", "cluster:x"), "cluster has no name"),
        (("add", "--allow", "alice", "--operation", "read", "topic:t"), "write User:NAME"),
        (("list", "--applying"), "name the RESOURCE"),
        (("remove",), "or else --all"),
        (("remove", "--all", "topic:t"), "or else --all"),
    ],
)
def test_what_makes_no_sense_is_refused_with_what_to_do(
    node: NodeProcess, arguments: tuple[str, ...], text: str
) -> None:
    assert text in told(node, *arguments, fails=True)
