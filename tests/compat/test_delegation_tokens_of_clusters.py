"""A delegation token of one broker at the others, and while another controller becomes active.

Java's clients make the token and log in by it; librdkafka has no `tokenauth`. Every process makes
the same password from the id of a token and the secret that all have (ADR 0118).
"""

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from harness.cluster import ClusterProcess
from harness.waiting import UNTIL_SECONDS, wait_until
from reliability.faults.trials import QUICK_SESSIONS
from tests.compat.java_tools import tool
from tests.compat.test_delegation_tokens import ALICE, DESCRIBE, SECRET, ids_of, row_of

pytestmark = [pytest.mark.process, pytest.mark.timeout(600)]
LISTENER = "SAFE"


class Brokers:
    """Three nodes where alice may do everything, and settings of her clients."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        (directory / "users").write_text("alice:pa\n")
        (directory / "secret").write_text(SECRET + "\n")
        for name in ("users", "secret"):
            (directory / name).chmod(0o600)
        settings: dict[str, Mapping[str, object]] = {
            **QUICK_SESSIONS,
            "security": {
                "listener_security_protocol_map": [f"{LISTENER}:SASL_PLAINTEXT"],
                "scram_first_users_file": str(directory / "users"),
                "delegation_token_secret_file": str(directory / "secret"),
            },
            "access": {"authorizer": "acl", "super_users": [ALICE, "User:ANONYMOUS"]},
        }
        self.cluster = ClusterProcess(directory / "nodes", settings=settings, listener=LISTENER)

    def at(self, broker_id: int) -> tuple[str, str]:
        return "--bootstrap-server", f"127.0.0.1:{self.cluster.listener_ports[broker_id]}"

    def java(self, user: str, password: str, *, is_token: bool = False) -> str:
        """Write the settings of a Java client."""
        token = ' tokenauth="true"' if is_token else ""
        path = self.directory / f"{'token' if is_token else user}.properties"
        path.write_text(
            "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=SCRAM-SHA-256\n"
            "sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required"
            f' username="{user}" password="{password}"{token};\n'
        )
        return str(path)

    def tokens(self, broker_id: int, config: str, *arguments: str) -> str:
        name = "kafka-delegation-tokens"
        return tool(name, *self.at(broker_id), "--command-config", config, *arguments)

    def ids(self, broker_id: int, config: str) -> set[str]:
        """Return the ids of alice's tokens that a broker knows."""
        return ids_of(self.tokens(broker_id, config, *DESCRIBE, ALICE))

    def topics(self, broker_id: int, config: str, *arguments: str, check: bool = True) -> str:
        where = (*self.at(broker_id), "--command-config", config)
        return tool("kafka-topics", *where, *arguments, check=check)

    def comes_to(self, condition: Callable[[], bool]) -> None:
        """Wait: a broker has what another one answered for when its own copy of the log has it."""
        assert wait_until(condition, UNTIL_SECONDS), self.cluster.log_tails()

    @property
    def active(self) -> int:
        return int(self.cluster.status()["controller"]["active_id"])


@pytest.fixture
def brokers(tmp_path: Path) -> Iterator[Brokers]:
    (tmp_path / "nodes").mkdir()
    made = Brokers(tmp_path)
    with made.cluster:
        yield made


def test_a_token_logs_in_at_every_broker_and_through_the_death_of_the_active_controller(
    brokers: Brokers,
) -> None:
    alice, dead = brokers.java("alice", "pa"), brokers.active
    first, other = (one for one in brokers.cluster.nodes if one != dead)
    made = row_of(brokers.tokens(dead, alice, "--create", "--max-life-time-period", "3600000"))
    token = brokers.java(made["id"], made["hmac"], is_token=True)
    for broker_id in brokers.cluster.nodes:
        brokers.comes_to(lambda: made["id"] in brokers.ids(broker_id, alice))  # noqa: B023
        brokers.topics(broker_id, token, "--create", "--topic", f"at-{broker_id}")

    brokers.cluster.nodes[dead].kill()
    assert "at-1" in brokers.topics(first, token, "--list"), "no controller is asked for a log-in"
    brokers.comes_to(lambda: brokers.active not in {dead, -1})
    # What the dead controller has recorded can be renewed by the next one, and ended for good.
    brokers.tokens(other, alice, "--renew", "--renew-time-period", "60000", "--hmac", made["hmac"])
    brokers.topics(other, token, "--create", "--topic", "after")
    brokers.cluster.nodes[dead].start()
    brokers.comes_to(lambda: "after" in brokers.topics(dead, token, "--list", check=False))

    brokers.tokens(first, alice, "--expire", "--expiry-time-period", "-1", "--hmac", made["hmac"])
    for broker_id in brokers.cluster.nodes:
        brokers.comes_to(lambda: made["id"] not in brokers.ids(broker_id, alice))  # noqa: B023
        said = brokers.topics(broker_id, token, "--list", check=False)
        assert "Authentication failed" in said
