"""librdkafka's mock broker in a process of its own: the C reference every figure is put beside.

It keeps records in memory and checks nothing, so it is a bound and not a competitor. Run as
`python -m benchmarks.parts.stub`, it prints one line `ready HOST:PORT` and serves until it is
killed.
"""

import signal
import subprocess
import sys
from types import TracebackType

from confluent_kafka import Producer

from harness.node import cpu_seconds
from penstock.cli.exit_codes import end_with


class StubProcess:
    """The mock broker as a child process, with the same handles as NodeProcess."""

    def __init__(self) -> None:
        self.bootstrap = ""
        self._process: subprocess.Popen[str] | None = None

    def __enter__(self) -> "StubProcess":
        command = [sys.executable, "-m", "benchmarks.parts.stub"]
        self._process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        assert self._process.stdout is not None
        word, _, self.bootstrap = self._process.stdout.readline().strip().partition(" ")
        assert word == "ready", "the stub did not start"
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.communicate()

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def cpu_seconds(self) -> float:
        return cpu_seconds(self.pid)


def _serve() -> None:
    host = Producer({"test.mock.num.brokers": 1, "log_level": 0})
    broker = next(iter(host.list_topics(timeout=10).brokers.values()))
    print(f"ready {broker.host}:{broker.port}", flush=True)
    signal.pause()


if __name__ == "__main__":
    end_with(_serve)
