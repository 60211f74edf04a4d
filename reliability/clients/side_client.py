"""Clients in a process of their own, so that they can stand on one side of a cut network.

`python -m reliability.clients.side_client BOOTSTRAP PREFIX TOPIC PARTITIONS FILE`: it writes and
reads until its standard input ends, then leaves what it sent and saw in FILE for the judge.
"""

import contextlib
import pickle
import subprocess
import sys
from pathlib import Path

from harness.workload import Load, Workload
from penstock.cli.exit_codes import end_with
from simulator.history import Poll, Send

STOP_SECONDS = 150.0
History = tuple[list[Send], list[Poll]]


class SideClient:
    """The other end: starts the process, and takes its history."""

    def __init__(self, bootstrap: str, prefix: str, load: Load, file: Path) -> None:
        """`prefix` begins the names of its producers."""
        self._file = file
        command = [sys.executable, "-m", "reliability.clients.side_client"]
        self._process = subprocess.Popen(
            [*command, bootstrap, prefix, load.topic, str(load.partitions), str(file)],
            stdin=subprocess.PIPE,
        )
        self.pid = self._process.pid

    def finish(self) -> History:
        """End it; returns what it sent and saw."""
        self._process.communicate(timeout=STOP_SECONDS)
        found: History = pickle.loads(self._file.read_bytes())
        return found

    def kill(self) -> None:
        """End it, whatever it does."""
        with contextlib.suppress(ProcessLookupError):
            self._process.kill()
        self._process.wait(30)


def main() -> None:
    """Write and read until standard input ends."""
    bootstrap, prefix, topic, partitions, file = sys.argv[1:]
    load = Load(
        topic=topic,
        partitions=int(partitions),
        producers=1,
        records_per_second=100,
        name_prefix=prefix,
        socket_timeout_ms=1500,
        direct_brokers=(bootstrap,),
    )
    workload = Workload(bootstrap, load)
    workload.start(has_topic=True)
    sys.stdin.read()
    workload.stop_writing()
    Path(file).write_bytes(pickle.dumps(workload.leave()))


if __name__ == "__main__":
    end_with(main)
