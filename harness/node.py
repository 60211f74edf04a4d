"""A real Penstock node as a child process, for tests and measurements.

One object is one data directory with one port; the process in it may be started, killed with -9,
stopped and started again any number of times. `with NodeProcess(...)` always ends the process.
"""

import contextlib
import os
import signal
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType, TracebackType
from typing import Literal, NamedTuple

from harness.ports import free_port
from harness.waiting import UNTIL_SECONDS

SettingsOf = Mapping[str, Mapping[str, object]]

_API_VERSIONS_REQUEST = struct.pack(">ihhih", 10, 18, 0, 1, -1)
START_SECONDS = UNTIL_SECONDS
STOP_SECONDS = UNTIL_SECONDS


class NodeFailed(Exception):
    """The node did not do what it was asked to in time; the text holds the end of its log."""


LOOPBACK = "127.0.0.1"


class Place(NamedTuple):
    """Where a process runs: on this machine's loopback address, or on a host of its own."""

    address: str = LOOPBACK
    prefix: tuple[str, ...] = ()
    """Words before the command that bring it there."""
    environment: Mapping[str, str] = MappingProxyType({})


def answers(port: int, *, host: str = LOOPBACK, timeout_seconds: float = 1.0) -> bool:
    """Say whether something on `port` answers an ApiVersions request."""
    try:
        with socket.create_connection((host, port), timeout_seconds) as connection:
            connection.settimeout(timeout_seconds)
            connection.sendall(_API_VERSIONS_REQUEST)
            return len(connection.recv(8)) == 8
    except OSError:
        return False


def is_ready(metrics_port: int, *, host: str = LOOPBACK, timeout_seconds: float = 1.0) -> bool:
    """Say whether the process with this metrics port says that it is ready."""
    try:
        with socket.create_connection((host, metrics_port), timeout_seconds) as connection:
            connection.settimeout(timeout_seconds)
            connection.sendall(b"GET /ready HTTP/1.1\r\nHost: node\r\nConnection: close\r\n\r\n")
            return connection.recv(12) == b"HTTP/1.1 200"
    except OSError:
        return False


class NodeProcess:
    """One node on free ports of the loopback address."""

    def __init__(
        self,
        directory: Path,
        *,
        data: Path | None = None,
        settings: SettingsOf | None = None,
        place: Place = Place(),  # noqa: B008  it can not be changed
        role: Literal["node", "controller"] = "node",
    ) -> None:
        """Write the settings; `data` may lie elsewhere, for example on a disk that can break.

        A `controller` serves no Kafka clients: it is asked on its metrics port.
        """
        self.role = role
        self.directory = directory
        self.data = data or directory / "data"
        self.port = free_port()
        self.place = place
        self.bootstrap = f"{place.address}:{self.port}"
        self.metrics_port = free_port()
        self.log_file = directory / "node.log"
        self.restarts = 0
        self._process: subprocess.Popen[bytes] | None = None
        directory.mkdir(parents=True, exist_ok=True)
        self.data.mkdir(parents=True, exist_ok=True)
        self.config = directory / "node.toml"
        self.config.write_text(_toml(self._settings(settings or {})), encoding="utf-8")

    def _settings(self, extra: SettingsOf) -> dict[str, dict[str, object]]:
        node: dict[str, object] = {
            "broker_id": 1,
            "host": self.place.address,
            "metrics_host": self.place.address,
            "data_directories": [str(self.data.absolute())],
            "port": self.port,
            "metrics_port": self.metrics_port,
        }
        merged: dict[str, dict[str, object]] = {"node": node}
        if self.place.address != LOOPBACK:  # a host of its own, which nobody else reaches
            merged["security"] = {"open_listeners": ["kafka"]}
        for section, values in extra.items():
            merged.setdefault(section, {}).update(values)
        return merged

    @property
    def pid(self) -> int:
        """The process id; a node that was never started has none."""
        return self.process.pid

    @property
    def process(self) -> subprocess.Popen[bytes]:
        """The process; a node that was never started has none."""
        assert self._process is not None, "the node was not started"
        return self._process

    @property
    def is_running(self) -> bool:
        """Say whether the process is there."""
        return self._process is not None and self._process.poll() is None

    def start(self, *, wait_seconds: float = START_SECONDS) -> float:
        """Start the process and wait for its first answer. Returns the seconds that took."""
        begun = time.perf_counter()
        self.launch()
        self.wait_ready(wait_seconds)
        return time.perf_counter() - begun

    def launch(self) -> None:
        """Start the process and wait for nothing."""
        assert not self.is_running, "the node is running already"
        penstock = Path(sys.executable).with_name("penstock")
        with self.log_file.open("ab") as log:
            self._process = subprocess.Popen(
                [*self.place.prefix, str(penstock), self.role, "--config", str(self.config)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env={**os.environ, **self.place.environment},
            )

    def wait_ready(self, timeout_seconds: float = START_SECONDS) -> None:
        """Wait until the node answers. Raises NodeFailed when it ended or stays silent."""
        deadline = time.monotonic() + timeout_seconds
        while not self._answers():
            if not self.is_running:
                raise NodeFailed(f"the node ended while starting:\n{self.log_tail()}")
            if time.monotonic() > deadline:
                raise NodeFailed(f"no answer in {timeout_seconds} s:\n{self.log_tail()}")
            time.sleep(0.005)

    def _answers(self) -> bool:
        host = self.place.address
        if self.role == "controller":
            return is_ready(self.metrics_port, host=host)
        return answers(self.port, host=host)

    def pause(self) -> None:
        """Stop the process with SIGSTOP; `resume` lets it go on."""
        os.kill(self.pid, signal.SIGSTOP)

    def resume(self) -> None:
        """Let a stopped process go on."""
        os.kill(self.pid, signal.SIGCONT)

    def kill(self) -> None:
        """End the process with SIGKILL, as a crash would."""
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(signal.SIGKILL)
            self._process.wait(STOP_SECONDS)

    def freeze(self) -> None:
        """Stop every thread where it stands, as if the machine had lost its power now.

        A system call that is under way ends in the kernel, but its result reaches nobody.
        """
        freeze(self.pid)

    def stop(self) -> int:
        """End the process with SIGTERM. Returns its exit code; kills one that does not obey."""
        if self._process is None:
            return 0
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
        try:
            return self._process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.kill()
            raise NodeFailed(f"SIGTERM did not end the node:\n{self.log_tail()}") from None

    def wait_exit(self, timeout_seconds: float = STOP_SECONDS) -> int:
        """Wait until the process ends by itself. Returns its exit code."""
        assert self._process is not None, "the node was not started"
        try:
            return self._process.wait(timeout_seconds)
        except subprocess.TimeoutExpired:
            raise NodeFailed(f"still running after {timeout_seconds} s") from None

    def restart(self) -> float:
        """Kill and start again. Returns the seconds from the start to the first answer."""
        self.kill()
        self.restarts += 1
        return self.start()

    def cpu_seconds(self) -> float:
        """Return the CPU time of all its threads so far, from the scheduler's own count."""
        return cpu_seconds(self.pid)

    def memory_bytes(self) -> int:
        """Return the memory that is this process's own: private pages, not mapped files."""
        return private_bytes(self.pid)

    def log_tail(self, lines: int = 20) -> str:
        """Return the end of what the node wrote to its log."""
        text = self.log_file.read_text(encoding="utf-8", errors="replace")
        return "\n".join(text.splitlines()[-lines:])

    def __enter__(self) -> "NodeProcess":
        try:
            self.start()
        except BaseException:
            self.kill()  # nobody gets a node to end: `__exit__` is not called
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.kill()


def cpu_seconds(pid: int) -> float:
    """Return the CPU time of every thread of a process, in nanosecond resolution.

    Threads that have ended are not counted; a node's threads live as long as the node.
    """
    total_ns = 0
    for task in Path(f"/proc/{pid}/task").iterdir():
        with contextlib.suppress(OSError):
            total_ns += int((task / "schedstat").read_text(encoding="ascii").split()[0])
    return total_ns / 1e9


def freeze(pid: int) -> None:
    """Stop every thread of a process, and wait until they stand still. Raises NodeFailed."""
    os.kill(pid, signal.SIGSTOP)
    deadline = time.monotonic() + STOP_SECONDS
    while any(state not in "TtD" for state in _thread_states(pid)):
        if time.monotonic() > deadline:
            raise NodeFailed(f"process {pid} does not stop")
        time.sleep(0.0005)


def _thread_states(pid: int) -> list[str]:
    """Return the kernel's letter for each thread: T and t are stopped, D in a system call."""
    states = []
    for task in Path(f"/proc/{pid}/task").iterdir():
        text = (task / "stat").read_text(encoding="utf-8")
        states.append(text.rpartition(")")[2].split()[0])
    return states


def private_bytes(pid: int) -> int:
    """Return what a process has for itself: without pages shared with files or other processes."""
    rollup = Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii")
    lines = [line.split() for line in rollup.splitlines() if line.startswith("Private_")]
    return sum(int(parts[1]) * 1024 for parts in lines)


def _toml(settings: Mapping[str, Mapping[str, object]]) -> str:
    lines: list[str] = []
    for section, values in settings.items():
        lines.append(f"[{section}]")
        lines.extend(f"{key} = {_toml_value(value)}" for key, value in values.items())
    return "\n".join(lines) + "\n"


def _toml_value(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(_toml_value(item) for item in value) + "]"
    if isinstance(value, int | float):
        return str(value)
    return '"' + str(value).replace("\\", "\\\\").replace('"', '\\"') + '"'
