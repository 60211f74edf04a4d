"""The nodes that a suite runs against."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from harness.cluster import ClusterProcess
from harness.node import NodeProcess
from harness.ports import free_port
from reliability.suites.containers import containers
from reliability.suites.model import Nodes, Suite
from reliability.suites.proxies import PROXIED_HOST, proxied, wait_for_proxies

LOGIN = "adminplain:admin-secret"
"""Whom kafka-go's tests come in as on a second port, with PLAIN and without TLS."""

TRACEBACK = "Traceback (most recent call last)"


@contextmanager
def nodes_of(suite: Suite, directory: Path) -> Iterator[Nodes]:
    """Run the nodes that a suite wants: one that is alone, or a cluster with ids from 1."""
    if len(suite.node_ids) == 1:
        with _alone(suite, directory) as nodes:
            yield nodes
        return
    if suite.is_proxied:
        with _behind_proxies(suite, directory) as nodes:
            yield nodes
        return
    with ClusterProcess(directory, brokers=len(suite.node_ids), settings=suite.settings) as cluster:
        yield Nodes(cluster.nodes)


@contextmanager
def _behind_proxies(suite: Suite, directory: Path) -> Iterator[Nodes]:
    """Give nodes a listener that clients are told to reach through the proxies."""
    cluster = ClusterProcess(
        directory,
        brokers=len(suite.node_ids),
        settings=suite.settings,
        listener="PROXIED",
        listener_security={"listener_security_protocol_map": ["PROXIED:PLAINTEXT"]},
        listener_advertised=PROXIED_HOST,
        has_racks=True,
    )
    ports = cluster.listener_ports
    work = directory.parent
    with (
        proxied(work, ports) as api,
        cluster,
        containers(work / "commands", cluster.nodes) as commands,
    ):
        wait_for_proxies(ports)
        there = [f"{PROXIED_HOST}:{port}" for port in ports.values()]
        yield Nodes(cluster.nodes, proxy_api=api, proxied=there, commands=commands)


@contextmanager
def _alone(suite: Suite, directory: Path) -> Iterator[Nodes]:
    (node_id,) = suite.node_ids
    port = free_port()
    directory.mkdir(parents=True)
    users = directory / "users"
    users.touch(mode=0o600)
    users.write_text(f"{LOGIN}\n", encoding="utf-8")
    own = {"broker_id": node_id, "listeners": [f"LOGIN://127.0.0.1:{port}"]}
    settings = {
        **suite.settings,
        "node": {**suite.settings.get("node", {}), **own},
        "security": {
            "listener_security_protocol_map": ["LOGIN:SASL_PLAINTEXT"],
            "sasl_enabled_mechanisms": ["PLAIN"],
            "sasl_plain_users_file": str(users),
            "sasl_plain_without_tls": True,
        },
    }
    with NodeProcess(directory, settings=settings) as node:
        yield Nodes({node_id: node}, login_port=port)


def tracebacks(logs: Iterable[Path]) -> int:
    """Count them in the logs of all nodes."""
    return sum(log.read_text(errors="replace").count(TRACEBACK) for log in logs)
