"""Three nodes under the local launcher, and the death of the one that leads the topic."""

import contextlib
import os
import select
import signal
import sys
import time
from collections import Counter
from pathlib import Path

from confluent_kafka.admin import AdminClient

from demo.errors import DemoError
from demo.processes import Job
from harness.ports import UP_PORTS, free_port

READY_SECONDS = 40.0


NODES = 3


class Cluster:
    """Nodes with controllers inside, kept alive by `penstock up`."""

    def __init__(self, directory: Path, *, partitions: int) -> None:
        """Start the launcher; `wait_ready` tells when the node answers."""
        self.directory = directory
        port = free_port(UP_PORTS)
        command = [
            str(Path(sys.executable).with_name("penstock")),
            "up",
            "--data",
            str(directory),
            "--nodes",
            str(NODES),
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

    def pid_of(self, broker_id: int) -> int:
        """Return the process id of a node; 0 while there is none."""
        file = self.directory / f"node-{broker_id}" / "pid"
        with contextlib.suppress(FileNotFoundError, ValueError):
            return int(file.read_text(encoding="utf-8"))
        return 0

    def leader_of(self, topic: str) -> int:
        """Return the node that leads most partitions of the topic, as clients are told."""
        admin = AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 0})
        found = admin.list_topics(topic, timeout=READY_SECONDS).topics[topic].partitions
        leaders = Counter(partition.leader for partition in found.values())
        return int(leaders.most_common(1)[0][0])

    def kill_leader_of(self, topic: str) -> tuple[int, int]:
        """Kill with -9 the node that leads the topic; the launcher starts it again.

        Returns its broker id and the process id it had.
        """
        broker_id = self.leader_of(topic)
        pid = self.pid_of(broker_id)
        if not pid:
            raise DemoError(f"no process id of node {broker_id}: it is not running")
        os.kill(pid, signal.SIGKILL)
        return broker_id, pid

    def wait_restarted(self, broker_id: int, old_pid: int) -> int:
        """Wait until the launcher has started the node anew. Returns its process id."""
        deadline = time.monotonic() + READY_SECONDS
        while (pid := self.pid_of(broker_id)) in {0, old_pid}:
            if time.monotonic() > deadline or not self._job.is_running:
                raise DemoError(f"the node was not restarted: {self._job.last_words()}")
            time.sleep(0.05)
        return pid

    def stop(self) -> None:
        """End launcher and nodes."""
        self._job.stop()
