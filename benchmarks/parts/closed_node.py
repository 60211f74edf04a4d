"""A node whose clients log in, with rules of access, quotas that never bind, and the audit.

It has two listeners without TLS: the plain one, where topics are made, and one with SASL. Whoever
is measured comes in there as `USER`, by SCRAM, or by PLAIN where the requests are prepared
beforehand.
"""

import contextlib
import struct
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from benchmarks.parts.nodes import PAGE_CACHE, merged
from harness.node import LOOPBACK, NodeProcess, SettingsOf
from harness.ports import free_port
from penstock.access.rules import (
    WILDCARD,
    AclOperation,
    AclPattern,
    AclPermission,
    AclResource,
    Rule,
)
from penstock.broker.access import ANONYMOUS
from penstock.client.access.acls import Acls
from penstock.client.cluster import Cluster
from penstock.client.quotas import Quotas
from penstock.client.security import ClientSecurity
from penstock.client.settings import ClientSettings
from penstock.protocol.api_keys import ApiKey
from penstock.quotas.entities import entity_of

LISTENER: Final = "SECURE"
PROTOCOL: Final = "SASL_PLAINTEXT"
SCRAM: Final = "SCRAM-SHA-512"
USER: Final = "alice"
ADMIN: Final = "admin"
PASSWORD: Final = "a password of the benchmarks"
TOPIC_PREFIX: Final = "bench-"
RULES: Final = 10_000
OWN_SHARE: Final = 0.5
"""Of the rules that are the measured principal's own, one topic each."""
PREFIX_EVERY: Final = 10
"""One in so many of the others' rules is about a prefix."""
RULES_AT_ONCE: Final = 500
UNBOUND: Final = {
    "producer_byte_rate": 1e12,
    "consumer_byte_rate": 1e12,
    "request_percentage": 1e6,
    "controller_mutation_rate": 1e6,
}
"""Quotas of the user that are counted and never reached."""

ACCESS: Final[SettingsOf] = {
    "access": {"authorizer": "acl", "super_users": [f"User:{ADMIN}"]},
}
AUDIT: Final[SettingsOf] = {"broker": {"audit": True, "housekeeping_interval_ms": 1000}}


class LoginNode(NodeProcess):
    """A node with the listener; `login_address` is where it is."""

    def __init__(self, directory: Path, *more: SettingsOf) -> None:
        self.login_port = free_port()
        users = directory / "users"
        directory.mkdir(parents=True, exist_ok=True)
        users.touch(mode=0o600)
        users.write_text(f"{ADMIN}:{PASSWORD}\n{USER}:{PASSWORD}\n", encoding="utf-8")
        settings = merged(PAGE_CACHE, *more, self._listener(users))
        super().__init__(directory, settings=settings)

    @property
    def login_address(self) -> str:
        """The listener where clients log in."""
        return f"{LOOPBACK}:{self.login_port}"

    def _listener(self, users: Path) -> SettingsOf:
        return {
            "node": {"listeners": [f"{LISTENER}://{self.login_address}"]},
            "security": {
                "listener_security_protocol_map": [f"{LISTENER}:{PROTOCOL}"],
                "sasl_enabled_mechanisms": [SCRAM, "PLAIN"],
                "sasl_plain_without_tls": True,
                "sasl_plain_users_file": str(users),
                "scram_first_users_file": str(users),
            },
        }

    @contextlib.contextmanager
    def operator(self) -> Iterator[Cluster]:
        """Yield a client that may do everything."""
        security = ClientSecurity(protocol=PROTOCOL, mechanism=SCRAM, user=ADMIN, password=PASSWORD)
        with Cluster(ClientSettings(bootstrap=self.login_address, security=security)) as cluster:
            yield cluster


@contextlib.contextmanager
def temporary_login_node(*more: SettingsOf) -> Iterator[LoginNode]:
    """Yield a running node with an empty data directory that is removed afterwards."""
    with tempfile.TemporaryDirectory(prefix="penstock-bench-") as directory:
        node = LoginNode(Path(directory), *more)
        with node:
            yield node


def add_rules(node: LoginNode, count: int = RULES) -> None:
    """Add so many rules; the measured user may use topics called TOPIC_PREFIX and a number."""
    made = rules(count)
    with node.operator() as cluster:
        for begin in range(0, count, RULES_AT_ONCE):
            Acls(cluster).add(made[begin : begin + RULES_AT_ONCE])


def rules(count: int) -> list[Rule]:
    """Return the rules: each of the user's names a topic, others' are of many principals.

    The first lets the plain listener make topics.
    """
    own = int(count * OWN_SHARE)
    made = [_rule(ANONYMOUS, WILDCARD, AclOperation.ALL)]
    for number in range(own // 2):
        name = f"{TOPIC_PREFIX}{number}"
        made.append(_rule(f"User:{USER}", name, AclOperation.WRITE))
        made.append(_rule(f"User:{USER}", name, AclOperation.READ))
    for number in range(count - len(made)):
        is_prefix = number % PREFIX_EVERY == 0
        name = f"team-{number}-" if is_prefix else f"orders-{number}"
        pattern = AclPattern.PREFIXED if is_prefix else AclPattern.LITERAL
        made.append(_rule(f"User:service-{number % 500}", name, AclOperation.READ, pattern))
    return made


def _rule(
    principal: str,
    topic: str,
    operation: AclOperation,
    pattern: AclPattern = AclPattern.LITERAL,
) -> Rule:
    return Rule(
        resource_type=AclResource.TOPIC,
        resource_name=topic,
        pattern=pattern,
        principal=principal,
        host=WILDCARD,
        operation=operation,
        permission=AclPermission.ALLOW,
    )


def add_quotas(node: LoginNode) -> None:
    """Give the user quotas that it never reaches."""
    with node.operator() as cluster:
        Quotas(cluster).alter(entity_of([("user", USER)]), UNBOUND)


def librdkafka_login() -> dict[str, object]:
    """Return how librdkafka comes in as the user."""
    return {
        "security.protocol": PROTOCOL,
        "sasl.mechanism": SCRAM,
        "sasl.username": USER,
        "sasl.password": PASSWORD,
    }


def login_requests() -> bytes:
    """Return the requests by which a connection becomes the user's: SaslHandshake and PLAIN."""
    token = f"\0{USER}\0{PASSWORD}".encode()
    mechanism = b"PLAIN"
    handshake = struct.pack(">h", len(mechanism)) + mechanism
    return _framed(ApiKey.SASL_HANDSHAKE, 1, handshake) + _framed(
        ApiKey.SASL_AUTHENTICATE, 0, struct.pack(">i", len(token)) + token
    )


def _framed(key: ApiKey, version: int, body: bytes) -> bytes:
    header = struct.pack(">hhih", key, version, 1, -1)  # correlation id, no client id
    return struct.pack(">i", len(header) + len(body)) + header + body
