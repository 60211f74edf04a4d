"""A real etcd of one member for tests: free loopback ports, a temporary directory, ended by pid."""

import contextlib
import os
import shutil
import signal
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType

from harness.node import freeze
from harness.ports import free_port

START_TIMEOUT_S = 15.0


def why_no_etcd() -> str | None:
    """Return why tests with etcd can not run, or None."""
    if shutil.which("etcd") is None:
        return "etcd is missing: sudo apt-get install etcd-server"
    return None


class EtcdServer:
    """One etcd process; `kill` and `start` again keep its data and its address."""

    def __init__(
        self, directory: Path, *flags: str, name: str = "one", is_tls: bool = False
    ) -> None:
        self._flags = flags
        self.name = name
        self._directory = directory
        self._directory.mkdir(parents=True, exist_ok=True)
        self._process: subprocess.Popen[bytes] | None = None
        scheme = "https" if is_tls else "http"
        self.url = f"{scheme}://127.0.0.1:{free_port()}"
        self._health_url = f"http://127.0.0.1:{free_port()}"
        self.peer_url = f"http://127.0.0.1:{free_port()}"
        self.cluster = f"{name}={self.peer_url}"
        """All members, where there are several."""

    def __enter__(self) -> "EtcdServer":
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.kill()

    def start(self) -> None:
        """Start it and wait until it answers."""
        self.launch()
        self.wait()

    def launch(self) -> None:
        command = ["etcd", "--name", self.name, "--data-dir", str(self._directory / "data")]
        command += ["--listen-client-urls", self.url, "--advertise-client-urls", self.url]
        command += ["--listen-metrics-urls", self._health_url]
        command += ["--listen-peer-urls", self.peer_url]
        command += ["--initial-advertise-peer-urls", self.peer_url]
        command += ["--initial-cluster", self.cluster, "--logger", "zap", *self._flags]
        with (self._directory / "log").open("ab") as output:
            self._process = subprocess.Popen(command, stdout=output, stderr=output)

    def wait(self) -> None:
        """Wait until it answers, which takes a majority of its cluster."""
        assert self._process is not None
        deadline = time.monotonic() + START_TIMEOUT_S
        while not self._is_healthy():
            if self._process.poll() is not None or time.monotonic() > deadline:
                text = (self._directory / "log").read_text(errors="replace")[-2000:]
                self.kill()
                raise AssertionError(f"etcd did not start: {text}")
            time.sleep(0.02)

    def kill(self) -> None:
        """End it without warning."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def pause(self) -> None:
        """Let it hang: connections stay open and nothing answers."""
        assert self._process is not None
        freeze(self._process.pid)

    def resume(self) -> None:
        assert self._process is not None
        os.kill(self._process.pid, signal.SIGCONT)

    def _is_healthy(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self._health_url}/health", timeout=1) as answer:
                return b"true" in answer.read()
        except (urllib.error.URLError, OSError):
            return False


@contextlib.contextmanager
def etcd_cluster(directory: Path) -> Iterator[list[EtcdServer]]:
    """Three members of one etcd."""
    servers = [EtcdServer(directory / name, name=name) for name in ("one", "two", "three")]
    for server in servers:
        server.cluster = ",".join(f"{one.name}={one.peer_url}" for one in servers)
    with contextlib.ExitStack() as stack:
        for server in servers:
            stack.callback(server.kill)
            server.launch()
        for server in servers:
            server.wait()
        yield servers
