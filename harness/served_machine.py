"""A `penstock serve` in a temporary directory: several nodes of one machine, one settings file."""

import json
import os
import secrets
import select
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from harness.ports import free_port
from harness.waiting import UNTIL_SECONDS
from penstock.cli.launch.node_files import settings_toml
from penstock.cli.machine.plan import PORT_STEP
from penstock.node.identity import new_cluster_id

START_SECONDS = UNTIL_SECONDS
STOP_SECONDS = UNTIL_SECONDS
PENSTOCK = (sys.executable, "-m", "penstock.cli.main")


class Machine:
    """Nodes with ids from 1. `write` the file, `start`, break things, leave the `with` block."""

    def __init__(
        self,
        directory: Path,
        *,
        nodes: int = 2,
        voters: int = 1,
        more: Mapping[str, Mapping[str, object]] | None = None,
    ) -> None:
        """`more` settings stand over those that bring the machine up."""
        self.directory = directory
        self.count = nodes
        self.config = directory / "machine.toml"
        self.data = directory / "data"
        self.data.mkdir()
        self.port = free_port(PORT_STEP * (nodes - 1) + 5)
        secret = directory / "secret"
        secret.write_text(secrets.token_hex(32))
        secret.chmod(0o600)
        controller = self.port + 1
        own: dict[str, dict[str, object]] = {
            "node": {
                "broker_id": 1,
                "cluster_id": new_cluster_id(),
                "port": self.port,
                "metrics_port": self.port + 3,
                "data_directories": ["data"],
            },
            "cluster": {
                "voters": [
                    f"{one + 1}@127.0.0.1:{controller + PORT_STEP * one}" for one in range(voters)
                ],
                "controller_port": controller,
                "ha_port": self.port + 2,
                "secret_file": "secret",
            },
            "controller": {"default_replication_factor": nodes},
        }
        above = more or {}
        self.settings: dict[str, dict[str, object]] = {
            name: {**own.get(name, {}), **above.get(name, {})} for name in [*own, *above]
        }
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def bootstrap(self) -> str:
        """All brokers, as clients want to hear them."""
        return ",".join(f"127.0.0.1:{self.port + PORT_STEP * one}" for one in range(self.count))

    @property
    def errors(self) -> str:
        """What supervisor and nodes have said."""
        return (self.directory / "stderr").read_text()

    def write(self) -> None:
        """Write the settings file."""
        self.config.write_text(settings_toml(self.settings))

    def start(self, *options: str, is_ready: bool = True) -> Self:
        """Start it; waits for the ready line unless told not to."""
        self.write()
        self._close_output()
        command = [*PENSTOCK, "serve", "--config", str(self.config), "--nodes", str(self.count)]
        with (self.directory / "stderr").open("ab") as errors:
            self.process = subprocess.Popen(
                [*command, *options],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=errors,
            )
        if is_ready:
            self.wait_ready()
        return self

    def wait_ready(self) -> None:
        """Wait for the ready line."""
        assert self.process is not None
        assert self.process.stdout is not None
        readable, _, _ = select.select([self.process.stdout], [], [], START_SECONDS)
        line = self.process.stdout.readline().decode() if readable else ""
        assert line == f"ready bootstrap={self.bootstrap}\n", self.errors

    def refused(self, *options: str) -> str:
        """Start it, expect that it is refused, and return the one line that says why."""
        self.write()
        command = [*PENSTOCK, "serve", "--config", str(self.config), "--nodes", str(self.count)]
        done = subprocess.run(
            [*command, *options],
            capture_output=True,
            timeout=START_SECONDS,
            check=False,
        )
        assert done.returncode == 2, done.stderr
        assert done.stdout == b""
        (line,) = done.stderr.decode().splitlines()
        return line

    def page(self, path: str, *, broker_id: int = 0) -> tuple[int, str]:
        """Return (status, body) of the page about all nodes, or of one node's own."""
        port = self.port + 4 if not broker_id else self.port + 3 + PORT_STEP * (broker_id - 1)
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=10) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read().decode()

    def health(self) -> dict[str, Any]:
        """Return the document of /health."""
        found: dict[str, Any] = json.loads(self.page("/health")[1])
        return found

    def pid(self, broker_id: int) -> int:
        """Return the process id of a node that runs; 0 for none."""
        lock = self.data / f"node-{broker_id}" / "penstock.lock"
        pid = int(lock.read_text() or 0) if lock.exists() else 0
        return pid if Path(f"/proc/{pid}").exists() else 0

    def signal(self, number: int) -> None:
        """Send the supervisor a signal."""
        assert self.process is not None
        self.process.send_signal(number)

    def stop(self) -> int:
        """End it with SIGTERM; return its exit code."""
        assert self.process is not None
        self.signal(signal.SIGTERM)
        return self.process.wait(STOP_SECONDS)

    def _close_output(self) -> None:
        if self.process is not None and self.process.stdout is not None:
            self.process.stdout.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self.process is None:
            return
        pids = [self.pid(one + 1) for one in range(self.count)]
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        for pid in filter(None, pids):
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        self._close_output()
