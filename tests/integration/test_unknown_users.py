"""What SCRAM answers an unknown user: the same at all nodes, also after a restart."""

import base64
from collections.abc import Iterator
from contextlib import closing

import pytest

from harness.cluster import ClusterProcess
from harness.waiting import wait_until
from penstock.access.scram import ScramClient
from penstock.protocol.api_keys import ApiKey
from tests.live_node import RawClient

pytestmark = pytest.mark.process

MECHANISM = "SCRAM-SHA-256"
KNOWN = "bob"
UNKNOWN = ("mallory", "trudy")
SECONDS = 30.0


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClusterProcess]:
    directory = tmp_path_factory.mktemp("unknown-users")
    users = directory / "users"
    users.touch(mode=0o600)
    users.write_text(f"{KNOWN}:builder-of-things\n", encoding="utf-8")
    security = {
        "listener_security_protocol_map": ["LOGIN:SASL_PLAINTEXT"],
        "sasl_enabled_mechanisms": [MECHANISM],
        "scram_first_users_file": str(users),
    }
    with ClusterProcess(
        directory / "cluster", listener="LOGIN", listener_security=security
    ) as cluster:
        yield cluster


def challenge(cluster: ClusterProcess, node: int, user: str) -> tuple[bytes, int]:
    """Return the salt and the iterations that a node answers to a user's first message."""
    with closing(RawClient(cluster.listener_ports[node])) as client:
        client.ask(ApiKey.SASL_HANDSHAKE, 1, {"mechanism": MECHANISM})
        first = ScramClient(MECHANISM, user, "", "nonce").first()
        answer = client.ask(ApiKey.SASL_AUTHENTICATE, 2, {"auth_bytes": first})
    parts = dict(part.split("=", 1) for part in bytes(answer.auth_bytes).decode().split(","))
    return base64.b64decode(parts["s"]), int(parts["i"])


def answers(cluster: ClusterProcess) -> dict[str, set[tuple[bytes, int]]]:
    """Return what each user is answered by all nodes."""
    return {
        user: {challenge(cluster, node, user) for node in cluster.nodes}
        for user in (KNOWN, *UNKNOWN)
    }


def test_unknown_users_are_answered_alike_by_all_nodes_and_after_restarts(
    cluster: ClusterProcess,
) -> None:
    def is_agreed() -> bool:  # each node follows the metadata log
        return all(len(found) == 1 for found in answers(cluster).values())

    assert wait_until(is_agreed, SECONDS)
    before = answers(cluster)
    every_salt = [salt for found in before.values() for salt, _ in found]
    assert len(set(every_salt)) == 1 + len(UNKNOWN)
    assert {len(salt) for salt in every_salt} == {24}
    assert len({iterations for found in before.values() for _, iterations in found}) == 1
    for node in cluster.nodes.values():
        node.kill()
    for node in cluster.nodes.values():
        node.launch()
    for node in cluster.nodes.values():
        node.wait_ready()
    assert wait_until(is_agreed, SECONDS)
    assert answers(cluster) == before
