"""Looks at the processes under a flood: memory all the time, logs and counters at the end."""

import http.client
import re
import threading
from collections.abc import Sequence
from typing import Protocol

from harness.node import NodeProcess

SAMPLE_SECONDS = 0.5
_BAD_LINE = re.compile(
    r"Traceback|CRITICAL|unexpected: |unhandled$|InvariantViolation|AssertionError"
    r"|never retrieved|Exception in callback|Fatal error"
)
LINES_MAX = 10


class Process(Protocol):
    """One whose memory is watched."""

    @property
    def is_running(self) -> bool: ...

    def memory_bytes(self) -> int: ...


class MemoryWatch:
    """Samples what each process has for itself."""

    def __init__(self, processes: Sequence[Process], *, seconds: float = SAMPLE_SECONDS) -> None:
        self._seconds = seconds
        self._processes = processes
        self._base = [process.memory_bytes() for process in processes]
        self._peak = list(self._base)
        self._is_stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="memory-watch", daemon=True)

    def start(self) -> None:
        """Begin to sample."""
        self._thread.start()

    def rebase(self) -> int:
        """Count growth from now on; returns the growth until now, of the process that grew most."""
        now = [process.memory_bytes() for process in self._processes]
        grown = max(new - old for new, old in zip(now, self._base, strict=True))
        self._base, self._peak = now, list(now)
        return grown

    def above(self) -> int:
        """Return the growth until now, of the process that grew most, and go on as before."""
        now = [process.memory_bytes() for process in self._processes]
        return max(new - old for new, old in zip(now, self._base, strict=True))

    def stop(self) -> int:
        """End; returns the largest growth of any process at any time, in bytes."""
        self._is_stopping.set()
        self._thread.join()
        return max(peak - base for peak, base in zip(self._peak, self._base, strict=True))

    def _run(self) -> None:
        while not self._is_stopping.wait(self._seconds):
            for at, process in enumerate(self._processes):
                if process.is_running:
                    self._peak[at] = max(self._peak[at], process.memory_bytes())


def findings(processes: Sequence[NodeProcess]) -> list[str]:
    """Return what a process that survived everything in good order would not have said."""
    found = []
    for process in processes:
        name = process.directory.name
        if not process.is_running:
            found.append(f"{name} has ended")
        else:
            unhandled = unhandled_errors(process)
            if unhandled:
                found.append(f"{name} counts {unhandled} unhandled errors")
        with process.log_file.open(encoding="utf-8", errors="replace") as log:
            bad = [line.strip() for line in log if _BAD_LINE.search(line)]
        found += [f"{name}: {line[:200]}" for line in bad[:LINES_MAX]]
    return found


def unhandled_errors(process: NodeProcess) -> int:
    """Return how often a request met an error that nobody expected, by the node's own count."""
    connection = http.client.HTTPConnection("127.0.0.1", process.metrics_port, timeout=10)
    try:
        connection.request("GET", "/metrics")
        page = connection.getresponse().read().decode()
    finally:
        connection.close()
    lines = [line for line in page.splitlines() if 'reason="unhandled"' in line]
    return sum(int(float(line.rpartition(" ")[2])) for line in lines)
