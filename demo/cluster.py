"""The node under the local launcher, and its death."""

import os
import select
import signal
import socket
import sys
import time
from pathlib import Path

from demo.errors import DemoError
from demo.processes import Job

READY_SECONDS = 40.0


class Cluster:
    """One node, kept alive by `penstock up`."""

    def __init__(self, directory: Path, *, partitions: int) -> None:
        """Start the launcher; `wait_ready` tells when the node answers."""
        self.directory = directory
        port = _free_port()
        command = [
            str(Path(sys.executable).with_name("penstock")),
            "up",
            "--data",
            str(directory),
            "--port",
            str(port),
            "--metrics-port",
            "0",
            "--set",
            "broker.auto_create_topics=true",
            "--set",
            f"controller.default_partitions={partitions}",
        ]
        self.bootstrap = ""
        self._job = Job(command, log=directory.with_name("up.log"))

    def wait_ready(self) -> None:
        """Wait for the launcher's one line. Raises DemoError if it does not come."""
        assert self._job.process.stdout is not None, "stdout is a pipe"
        readable, _, _ = select.select([self._job.process.stdout], [], [], READY_SECONDS)
        line = self._job.process.stdout.readline().strip() if readable else ""
        if not line.startswith("ready bootstrap="):
            raise DemoError(f"the node did not come up: {self._job.last_words()}")
        self.bootstrap = line.removeprefix("ready bootstrap=")

    @property
    def pid(self) -> int:
        """Return the process id of the node; 0 while there is none."""
        for file in sorted(self.directory.glob("node-*/pid")):
            text = file.read_text(encoding="utf-8").strip()
            if text.isdigit():
                return int(text)
        return 0

    def kill_node(self) -> int:
        """Kill the node with -9; the launcher starts another. Returns the process id it had."""
        pid = self.pid
        if not pid:
            raise DemoError(f"no process id under {self.directory}: the node is not running")
        os.kill(pid, signal.SIGKILL)
        return pid

    def wait_restarted(self, old_pid: int) -> int:
        """Wait until the launcher has started another node. Returns its process id."""
        deadline = time.monotonic() + READY_SECONDS
        while (pid := self.pid) in {0, old_pid}:
            if time.monotonic() > deadline or not self._job.is_running:
                raise DemoError(f"the node was not restarted: {self._job.last_words()}")
            time.sleep(0.05)
        return pid

    def stop(self) -> None:
        """End launcher and node."""
        self._job.stop()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
