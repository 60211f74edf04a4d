"""Processes of one cluster that are set up one by one, and the operator's commands to them."""

import contextlib
import io
import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Literal
from unittest.mock import patch

from harness.cluster_settings import ClusterSettings, log_tails
from harness.node import NodeProcess, SettingsOf
from harness.ports import free_port
from harness.waiting import UNTIL_SECONDS, wait_until
from penstock.cli.program import guarded

WAIT_SECONDS = UNTIL_SECONDS
SMALL: dict[str, dict[str, object]] = {"log": {"segment_bytes": 8 << 20}}
"""A set takes the space of a segment at once, and there are many sets. Nobody is given up soon: a
node of a busy machine is silent for a second now and then, and masterships would move."""
FAST: dict[str, dict[str, object]] = {
    **SMALL,
    "controller": {"heartbeat_interval_ms": 250, "session_timeout_ms": 1500},
    "replication": {"lease_ms": 1200},
}
"""A second for what takes five, where the tests wait for brokers to be given up."""


class Layout:
    """A directory for processes that share a cluster id and a secret."""

    def __init__(self, directory: Path, settings: SettingsOf = FAST) -> None:
        """`settings` are those of every process."""
        self._directory = directory
        self._settings = settings
        self._shared = ClusterSettings(directory)
        self.secret = self._shared.secret
        self._controller_ports: dict[int, int] = {}
        self.nodes: dict[int, NodeProcess] = {}

    def __enter__(self) -> "Layout":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for node in self.nodes.values():
            node.kill()

    def controller_address(self, peer_id: int) -> str:
        """Return host:port of a controller port, also of a process that is still to come."""
        port = self._controller_ports.setdefault(peer_id, free_port())
        return f"127.0.0.1:{port}"

    def add(
        self,
        peer_id: int,
        *,
        voters: tuple[int, ...] = (),
        replicas: int = 1,
        settings: SettingsOf | None = None,
        role: Literal["node", "controller"] = "node",
    ) -> NodeProcess:
        """Write the settings of a process that knows these controllers; start it yourself."""
        self.controller_address(peer_id)
        whole = self._shared.of(
            peer_id,
            voters=[f"{voter}@{self.controller_address(voter)}" for voter in voters],
            controller_port=self._controller_ports[peer_id],
            replicas=replicas,
            more=(self._settings, settings or {}),
        )
        node = NodeProcess(self._directory / f"node-{peer_id}", settings=whole, role=role)
        self.nodes[peer_id] = node
        return node

    @property
    def bootstrap(self) -> str:
        """All brokers."""
        return ",".join(node.bootstrap for node in self.nodes.values())

    def run(self, *command: str, via: int) -> tuple[int, str]:
        """Run a command with the settings of one process; return exit code and all it printed."""
        return run_penstock(*command, "--config", str(self.nodes[via].config))

    def do(self, *command: str, via: int) -> str:
        """Run a command that must succeed, trying again while it is refused."""
        last = ""

        def works() -> bool:
            nonlocal last
            code, last = self.run(*command, via=via)
            return code == 0

        assert wait_until(works, WAIT_SECONDS), f"{command}: {last}\n{self.tails()}"
        return last

    def status(self, via: int) -> dict[str, Any]:
        """Return `cluster status` as JSON."""
        found: dict[str, Any] = json.loads(self.do("cluster", "status", "-o", "json", via=via))
        return found

    def replica_set(self, set_id: int, via: int) -> dict[str, Any]:
        """Return one set of the status, empty while it is not there."""
        sets = self.status(via)["sets"]
        return next(
            (replica_set for replica_set in sets if replica_set["replica_set_id"] == set_id), {}
        )

    def wait(self, set_id: int, holds: Callable[[dict[str, Any]], bool], *, via: int) -> None:
        """Wait until a set is as it should be."""
        found: dict[str, Any] = {}

        def is_so() -> bool:
            nonlocal found
            with contextlib.suppress(AssertionError, KeyError):
                found = self.replica_set(set_id, via)
                return holds(found)
            return False

        assert wait_until(is_so, WAIT_SECONDS), f"{found}\n{self.tails()}"

    def wait_in_step(self, set_id: int, members: list[int], *, via: int) -> None:
        """Wait until the sync-state set is this."""
        self.wait(set_id, lambda one: one["sync_state_set"] == members, via=via)

    def wait_for_master(self, set_id: int, master: int, *, via: int) -> None:
        """Wait until the set has this master."""
        self.wait(set_id, lambda one: one["master"] == master, via=via)

    def tails(self) -> str:
        """Return the end of every log."""
        return log_tails(self.nodes, 25)


def run_penstock(*command: str) -> tuple[int, str]:
    """Run a command of the CLI in this process; return exit code and all it printed.

    What it sets in the environment, as `--client-config` does, is put back for those that follow.
    """
    printed = io.StringIO()
    with (
        patch.dict(os.environ),
        contextlib.redirect_stdout(printed),
        contextlib.redirect_stderr(printed),
    ):
        code = guarded(list(command))
    return code, printed.getvalue()


def bytes_of(file: Path) -> bytes:
    """What a file holds; nothing when it was replaced just now."""
    with contextlib.suppress(FileNotFoundError):
        return file.read_bytes()
    return b""


def member_of(replica_set: Mapping[str, Any], broker_id: int) -> dict[str, Any]:
    """Return a member of a set of the status."""
    found: dict[str, Any] = next(
        one for one in replica_set["members"] if one["broker_id"] == broker_id
    )
    return found
