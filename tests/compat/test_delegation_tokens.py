"""Delegation tokens with Kafka's tool and with Java's clients, on a real node.

librdkafka can not log in by a token: it has no `tokenauth`. Java's admin client asks for tokens,
and its producer and consumer log in by them.
"""

import base64
import re
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.node import NodeProcess
from harness.ports import free_port
from tests.compat.java_tools import tool

pytestmark = [pytest.mark.process, pytest.mark.timeout(300)]
ALICE, BOB = "User:alice", "User:bob"
DESCRIBE = ("--describe", "--owner-principal")
"""Without an owner the tool asks for those of nobody, and Kafka answers with none."""
SECRET = "a secret of 32 characters, or more"
TIME = r"\d{4}-\d\d-\d\dT\d\d:\d\d"
ROW = re.compile(
    r"^(?P<id>\S+)\s+(?P<hmac>[A-Za-z0-9+/=]{80,})\s+(?P<owner>User:\S+)\s+(?P<requester>User:\S+)"
    rf"\s+\[(?P<renewers>.*?)\]\s+{TIME}\s+(?P<expires>{TIME})\s+(?P<ends>{TIME})\s*$",
    re.MULTILINE,
)


class Place:
    """A node where alice may do everything and bob nothing, and settings of clients."""

    def __init__(self, directory: Path) -> None:
        self.directory, self.port = directory, free_port()
        (directory / "users").write_text("alice:pa\nbob:pb\n")
        (directory / "secret").write_text(SECRET + "\n")
        for name in ("users", "secret"):
            (directory / name).chmod(0o600)
        self.node = NodeProcess(
            directory / "node",
            settings={
                "node": {"listeners": [f"SAFE://127.0.0.1:{self.port}"]},
                "security": {
                    "listener_security_protocol_map": ["SAFE:SASL_PLAINTEXT"],
                    "scram_first_users_file": str(directory / "users"),
                    "delegation_token_secret_file": str(directory / "secret"),
                },
                "access": {"authorizer": "acl", "super_users": [ALICE, "User:ANONYMOUS"]},
            },
        )

    @property
    def at(self) -> tuple[str, str]:
        return "--bootstrap-server", f"127.0.0.1:{self.port}"

    def java(
        self, user: str, password: str, mechanism: str = "SCRAM-SHA-256", *, is_token: bool = False
    ) -> str:
        """Write the settings of a Java client."""
        token = ' tokenauth="true"' if is_token else ""
        path = self.directory / f"{user}.properties"
        path.write_text(
            "security.protocol=SASL_PLAINTEXT\n"
            f"sasl.mechanism={mechanism}\n"
            "sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required"
            f' username="{user}" password="{password}"{token};\n'
        )
        return str(path)

    def tokens(self, config: str, *arguments: str, check: bool = True) -> str:
        return tool(
            "kafka-delegation-tokens", *self.at, "--command-config", config, *arguments, check=check
        )


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    place = Place(tmp_path_factory.mktemp("delegation"))
    with place.node:
        yield place


def row_of(printed: str) -> re.Match[str]:
    rows = list(ROW.finditer(printed))
    assert len(rows) == 1, printed
    return rows[0]


def ids_of(printed: str) -> set[str]:
    return {row["id"] for row in ROW.finditer(printed)}


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_kafkas_tool_makes_a_token_by_which_javas_clients_log_in(
    place: Place, mechanism: str
) -> None:
    alice = place.java("alice", "pa")
    made = row_of(
        place.tokens(
            alice, "--create", "--max-life-time-period", "3600000", "--renewer-principal", BOB
        )
    )
    assert (made["owner"], made["requester"], made["renewers"]) == (ALICE, ALICE, BOB)
    token = place.java(made["id"], made["hmac"], mechanism, is_token=True)
    topic = (*place.at, "--topic", f"by-{mechanism}")
    tool("kafka-topics", *topic, "--create", "--command-config", token)
    tool("kafka-console-producer", *topic, "--producer.config", token, stdin="a\nb\n")
    read = tool(
        "kafka-console-consumer", *topic, "--consumer.config", token,
        "--from-beginning", "--max-messages", "2", "--timeout-ms", "40000",
    )  # fmt: skip
    assert {"a", "b"} <= set(read.split())
    said = place.tokens(token, "--create", "--max-life-time-period", "-1", check=False)
    assert "Delegation Token requests are not allowed" in said
    assert "DelegationTokenDisabled" not in said

    bob = place.java("bob", "pb")
    assert made["id"] in ids_of(place.tokens(bob, *DESCRIBE, ALICE))
    said = place.tokens(bob, "--renew", "--renew-time-period", "60000", "--hmac", made["hmac"])
    assert "Completed renew operation" in said
    place.tokens(alice, "--expire", "--expiry-time-period", "-1", "--hmac", made["hmac"])
    assert made["id"] not in ids_of(place.tokens(alice, *DESCRIBE, ALICE))
    said = tool("kafka-topics", *place.at, "--list", "--command-config", token, check=False)
    assert "Authentication failed" in said


def test_kafkas_tool_is_told_why_not(place: Place) -> None:
    alice, bob = place.java("alice", "pa"), place.java("bob", "pb")
    make = ("--create", "--max-life-time-period", "-1")
    refused = place.tokens(bob, *make, "--owner-principal", ALICE, check=False)
    assert "DelegationTokenAuthorizationException" in refused
    made = row_of(place.tokens(alice, *make, "--owner-principal", BOB))
    assert (made["owner"], made["requester"]) == (BOB, ALICE)
    other = row_of(place.tokens(alice, *make))
    renew = ("--renew", "--renew-time-period", "-1", "--hmac")
    said = place.tokens(bob, *renew, other["hmac"], check=False)
    assert "DelegationTokenOwnerMismatchException" in said
    said = place.tokens(alice, *renew, "AAAA", check=False)
    assert "DelegationTokenNotFoundException" in said
    place.tokens(alice, "--expire", "--expiry-time-period", "0", "--hmac", other["hmac"])
    said = place.tokens(alice, *renew, other["hmac"], check=False)
    assert "DelegationTokenExpiredException" in said
    found = ids_of(place.tokens(bob, *DESCRIBE, BOB))
    assert made["id"] in found
    assert other["id"] not in found | ids_of(place.tokens(bob, *DESCRIBE, ALICE))


def test_no_secret_stands_in_the_nodes_files(place: Place) -> None:
    alice = place.java("alice", "pa")
    made = row_of(place.tokens(alice, "--create", "--max-life-time-period", "-1"))
    files = [one for one in (place.directory / "node").rglob("*") if one.is_file()]
    assert any(made["id"].encode() in one.read_bytes() for one in files)
    for one in files:
        assert made["hmac"].encode() not in one.read_bytes(), one
        assert base64.b64decode(made["hmac"]) not in one.read_bytes(), one
        assert SECRET.encode() not in one.read_bytes(), one
    with urllib.request.urlopen(f"http://127.0.0.1:{place.node.metrics_port}/metrics") as page:
        assert "penstock_delegation_tokens " in page.read().decode()
