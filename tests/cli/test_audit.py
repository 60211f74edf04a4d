"""The audit of a real node: two users by stock clients, one denied, and what the commands tell.

Rows of a minute are written when it is over, so that the test waits for the end of one.
"""

import json
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import KafkaError, Producer
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

pytestmark = [pytest.mark.process, pytest.mark.timeout(240)]

SASL_PORT = free_port()
MINUTE_SECONDS = 90
"""Until a minute is over and its rows are written."""


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NodeProcess]:
    directory = tmp_path_factory.mktemp("audit")
    users = directory / "users"
    users.write_text("".join(f"{name}:{name}-password\n" for name in ("bob", "eve")))
    users.chmod(0o600)
    settings: dict[str, dict[str, object]] = {
        "broker": {"audit": True},
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


def produce(user: str) -> int | None:
    """Produce a record as a user by librdkafka; return the error code, None without one."""
    codes: list[int | None] = []
    producer = Producer(
        {
            "bootstrap.servers": f"127.0.0.1:{SASL_PORT}",
            "client.id": f"client-of-{user}",
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "PLAIN",
            "sasl.username": user,
            "sasl.password": f"{user}-password",
        }
    )
    producer.produce(
        "t", b"v", on_delivery=lambda error, _: codes.append(error.code() if error else None)
    )
    assert producer.flush(UNTIL_SECONDS) == 0
    (code,) = codes
    return code


def told(node: NodeProcess, *arguments: str) -> Any:
    done = subprocess.run(
        [
            sys.executable, "-m", "penstock.cli.main", "audit", *arguments, "-o", "json",
            "--bootstrap", node.bootstrap,
        ],
        capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL,
    )  # fmt: skip
    return json.loads(done.stdout) if done.returncode == 0 else []


def test_who_produced_and_who_was_denied_is_told(node: NodeProcess) -> None:
    admin = AdminClient({"bootstrap.servers": node.bootstrap})
    admin.create_topics([NewTopic("t", 1, 1)])["t"].result(UNTIL_SECONDS)
    bob = AclBinding(
        ResourceType.TOPIC, "t", ResourcePatternType.LITERAL, "User:bob", "*",
        AclOperation.WRITE, AclPermissionType.ALLOW,
    )  # fmt: skip
    (made,) = admin.create_acls([bob]).values()
    made.result(UNTIL_SECONDS)
    assert produce("bob") is None
    assert produce("eve") == KafkaError.TOPIC_AUTHORIZATION_FAILED

    assert wait_until(lambda: told(node, "who", "t"), UNTIL_SECONDS, every_seconds=1)
    denied = told(node, "who", "t")[0]
    assert (denied["principal"], denied["client_id"]) == ("User:eve", "client-of-eve")
    assert denied["operation"].startswith("denied")
    assert denied["errors"] >= 1

    def produced() -> list[Any]:
        return [row for row in told(node, "who", "t") if row["operation"] == "produce"]

    assert wait_until(produced, MINUTE_SECONDS, every_seconds=2)
    (row,) = produced()
    assert (row["principal"], row["client_id"]) == ("User:bob", "client-of-bob")
    assert (row["requests"], row["records"], row["host"]) == (1, 1, "127.0.0.1")
    assert row["software"]
