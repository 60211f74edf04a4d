"""The audit of a real node: users by stock clients, some denied, and what the commands tell.

A fold is a second long, so that rows come while the test looks for them.
"""

import json
import shlex
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, Producer
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)
from confluent_kafka.cimpl import NewTopic

from harness.node import NodeProcess
from harness.ports import free_port
from harness.waiting import UNTIL_SECONDS, wait_until
from penstock.cli.output import moment

pytestmark = pytest.mark.process

SASL_PORT = free_port()
USERS = ("bob", "carol", "dave", "eve")
"""dave is of the test of slices alone: its rows are of what it does, whatever ran before."""
RECORDS = 5
FOLD_MS = 1000
TOPIC, GROUP = ResourceType.TOPIC, ResourceType.GROUP


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NodeProcess]:
    directory = tmp_path_factory.mktemp("audit")
    users = directory / "users"
    users.write_text("".join(f"{name}:{name}-password\n" for name in USERS))
    users.chmod(0o600)
    settings: dict[str, dict[str, object]] = {
        "broker": {"audit": True, "audit_fold_ms": FOLD_MS},
        "node": {"listeners": [f"SASL://127.0.0.1:{SASL_PORT}"]},
        "access": {"authorizer": "acl", "super_users": ["User:ANONYMOUS"]},
        "security": {
            "listener_security_protocol_map": ["SASL:SASL_PLAINTEXT"],
            "sasl_enabled_mechanisms": ["PLAIN"],
            "sasl_plain_users_file": str(users),
            "sasl_plain_without_tls": True,
        },
    }
    with NodeProcess(directory / "node", settings=settings) as running:
        yield running


def client_of(user: str) -> dict[str, Any]:
    return {
        "bootstrap.servers": f"127.0.0.1:{SASL_PORT}",
        "client.id": f"client-of-{user}",
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.username": user,
        "sasl.password": f"{user}-password",
    }


def allow(admin: AdminClient, user: str, kind: ResourceType, name: str, does: AclOperation) -> None:
    binding = AclBinding(
        kind, name, ResourcePatternType.LITERAL, f"User:{user}", "*", does, AclPermissionType.ALLOW
    )
    (made,) = admin.create_acls([binding]).values()
    made.result(UNTIL_SECONDS)


def produce(user: str, topic: str, count: int = 1) -> list[int | None]:
    """Produce as a user by librdkafka; return the error codes, None without one."""
    codes: list[int | None] = []
    producer = Producer(client_of(user))
    for _ in range(count):
        producer.produce(
            topic, b"v", on_delivery=lambda error, _: codes.append(error.code() if error else None)
        )
    assert producer.flush(UNTIL_SECONDS) == 0
    return codes


def consume(user: str, topic: str, group: str, count: int) -> None:
    """Consume as a member of a group, and commit where it is."""
    consumer = Consumer(
        client_of(user) | {"group.id": group, "auto.offset.reset": "earliest"}
        | {"enable.auto.commit": False}
    )  # fmt: skip
    try:
        consumer.subscribe([topic])
        found = 0
        while found < count:
            message = consumer.poll(UNTIL_SECONDS)
            assert message is not None
            assert message.error() is None, message.error()
            found += 1
        consumer.commit(asynchronous=False)
    finally:
        consumer.close()


def run(node: NodeProcess, *arguments: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-m", "penstock.cli.main", *arguments, "--bootstrap", node.bootstrap],
        capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL,
    )  # fmt: skip


def told(node: NodeProcess, *arguments: str) -> Any:
    done = run(node, *arguments, "-o", "json")
    return json.loads(done.stdout) if done.returncode == 0 else []


@pytest.fixture(scope="module")
def used(node: NodeProcess) -> list[Any]:
    """Return what `audit who` tells of a topic that bob writes and carol reads, and eve may not."""
    admin = AdminClient({"bootstrap.servers": node.bootstrap})
    admin.create_topics([NewTopic("t", 1, 1)])["t"].result(UNTIL_SECONDS)
    allow(admin, "bob", TOPIC, "t", AclOperation.ALL)
    allow(admin, "carol", TOPIC, "t", AclOperation.READ)
    allow(admin, "carol", GROUP, "readers", AclOperation.READ)
    assert produce("bob", "t", RECORDS) == [None] * RECORDS
    assert produce("eve", "t") == [KafkaError.TOPIC_AUTHORIZATION_FAILED]
    consume("carol", "t", "readers", RECORDS)
    rows: list[Any] = []

    def is_told() -> bool:
        rows[:] = told(node, "audit", "who", "t")
        operations = {row["operation"] for row in rows}
        return operations >= {"produce", "fetch", "denied describe topic"}

    assert wait_until(is_told, UNTIL_SECONDS, every_seconds=1)
    return rows


def test_who_used_a_topic_and_who_was_denied_is_told_and_the_rules_that_match(
    node: NodeProcess, used: list[Any]
) -> None:
    rows = {(row["principal"], row["operation"]): row for row in used}
    produced, consumed = rows["User:bob", "produce"], rows["User:carol", "fetch"]
    assert (produced["client_id"], produced["host"]) == ("client-of-bob", "127.0.0.1")
    assert produced["software"]
    assert produced["records"] == consumed["records"] == RECORDS
    assert produced["bytes_in"] > 0
    assert consumed["bytes_out"] > 0
    assert consumed["bytes_cold"] == 0
    denied = [row for (who, _), row in rows.items() if who == "User:eve"]
    assert denied
    assert all(row["operation"].startswith("denied") for row in denied)
    assert sum(row["errors"] for row in denied) >= 1

    def proposed() -> set[tuple[str, ...]]:
        return {
            (rule["principal"], rule["resource"], rule["name"], rule["operation"])
            for rule in told(node, "acl", "propose")
            if rule["name"] in {"t", "readers"} and rule["principal"] != "User:ANONYMOUS"
        }

    wanted = {
        ("User:bob", "topic", "t", "write"),
        ("User:carol", "topic", "t", "read"),
        ("User:carol", "group", "readers", "read"),
    }
    assert wait_until(lambda: proposed() >= wanted, UNTIL_SECONDS, every_seconds=1), proposed()
    assert proposed() == wanted
    assert {rule["pattern"] for rule in told(node, "acl", "propose")} == {"literal"}


@pytest.mark.usefixtures("used")
def test_the_proposed_lines_are_commands_that_let_the_same_clients_go_on(
    node: NodeProcess,
) -> None:
    """Take away all rules, add those of the lines, and use the topic again."""
    assert run(node, "acl", "remove", "--all", "--yes").returncode == 0
    assert produce("bob", "t") == [KafkaError.TOPIC_AUTHORIZATION_FAILED]
    text = "".join(
        run(node, "acl", "propose", "--principal", f"User:{user}").stdout for user in USERS
    )
    assert "User:eve" not in text
    for line in text.splitlines():
        program, *arguments = shlex.split(line)
        assert program == "penstock"
        done = run(node, *arguments)
        assert done.returncode == 0, done.stderr
    assert produce("bob", "t") == [None]
    consume("carol", "t", "readers", 1)


def test_the_slice_of_a_time_has_what_was_done_then_and_nothing_else(node: NodeProcess) -> None:
    admin = AdminClient({"bootstrap.servers": node.bootstrap})
    stamped = NewTopic("s", 1, 1, config={"message.timestamp.type": "LogAppendTime"})
    admin.create_topics([stamped])["s"].result(UNTIL_SECONDS)
    allow(admin, "dave", TOPIC, "s", AclOperation.ALL)
    times: list[tuple[int, int]] = []
    producer = Producer(client_of("dave"))
    producer.produce("s", b"v", on_delivery=lambda _, message: times.append(message.timestamp()))
    assert producer.flush(UNTIL_SECONDS) == 0
    heard_ms = int(time.time() * 1000)
    ((_, appended_ms),) = times

    def slice_at(at_ms: int) -> list[Any]:
        found: list[Any] = told(node, "audit", "slice", "--at", f"@{at_ms}")
        return found

    def of_batch(rows: list[Any]) -> list[Any]:
        return [row for row in rows if (row["operation"], row["topic"]) == ("produce", "s")]

    assert wait_until(lambda: of_batch(slice_at(appended_ms)), UNTIL_SECONDS, every_seconds=1)
    rows = slice_at(appended_ms)
    assert len({row["began"] for row in rows}) == 1
    (batch,) = of_batch(rows)
    assert batch["began"] <= moment(appended_ms) < batch["ended"]
    assert (batch["partition"], batch["node"]) == (0, 1)
    assert (batch["requests"], batch["records"], batch["errors"]) == (1, 1, 0)

    def of_requests(rows: list[Any]) -> list[Any]:
        whole = ("produce", "", "User:dave")
        return [row for row in rows if (row["operation"], row["topic"], row["principal"]) == whole]

    (whole,) = of_requests(rows)
    assert whole["partition"] is None
    assert whole["bytes_in"] > batch["bytes_in"]

    def answered() -> list[Any]:
        """Return the row of the answer: its latency is known in a fold that is this one or later.

        Folds are as long as the node is busy, and may have begun shortly before.
        """
        moments = [*range(appended_ms, heard_ms, FOLD_MS // 4), heard_ms, heard_ms + FOLD_MS]
        rows = [row for at_ms in moments for row in of_requests(slice_at(at_ms)) if row["timed"]]
        return [*{row["began"]: row for row in rows}.values()]

    assert wait_until(answered, UNTIL_SECONDS, every_seconds=1)
    (timed,) = answered()
    assert timed["timed"] == 1
    assert 0 < timed["latency_us_max"] <= timed["latency_us"]
    assert slice_at(0) == []
    began_ms = round(datetime.fromisoformat(batch["began"]).timestamp() * 1000)
    assert not of_batch(slice_at(began_ms - 1))


def test_rows_of_the_last_fold_are_written_by_a_node_that_is_stopped(
    tmp_path: Path,
) -> None:
    settings: dict[str, dict[str, object]] = {
        "broker": {"audit": True, "audit_fold_ms": 3_600_000, "auto_create_topics": True}
    }
    node = NodeProcess(tmp_path / "stopped", settings=settings)
    with node:
        producer = Producer({"bootstrap.servers": node.bootstrap, "client.id": "last"})
        producer.produce("last", b"v")
        assert producer.flush(UNTIL_SECONDS) == 0
        assert told(node, "audit", "who", "last") == []
        node.stop()
        node.start()
        rows = {row["operation"]: row for row in told(node, "audit", "who", "last")}
    assert (rows["produce"]["client_id"], rows["produce"]["records"]) == ("last", 1)


def test_what_makes_no_sense_is_refused(node: NodeProcess) -> None:
    assert "--at takes a time" in run(node, "audit", "slice", "--at", "beginning").stderr
    assert "--from takes" in run(node, "audit", "who", "t", "--from", "end").stderr
    assert "--from takes" in run(node, "acl", "propose", "--from", "7").stderr
