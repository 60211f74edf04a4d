"""Java servers as child processes: their heap, their log, their CPU time and their memory.

The heap is sized for the machine the way both projects advise: a part of the memory, fixed from
the start, with most of it left to the page cache, which is what their logs live in.
"""

import contextlib
import os
import re
import shutil
import signal
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from harness.node import private_bytes

STOP_SECONDS = 30.0
HEAP_MIB_MIN = 512
_TICKS = os.sysconf("SC_CLK_TCK")


def why_not() -> str | None:
    """Return why no Java server can be run here, or None when one can."""
    return None if shutil.which("java") else "java is not installed"


def heap_mib(nodes: int, *, most_mib: int) -> int:
    """Return a node's heap in MiB: a sixth of the memory for one, a twelfth each for several.

    `most_mib` is what the project's own documentation shows for a big machine.
    """
    memory_mib = (os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")) >> 20
    share = memory_mib // (6 if nodes == 1 else 12)
    return max(HEAP_MIB_MIN, min(most_mib, share // 256 * 256))


def version_of(jars: Iterable[Path], artefact: str) -> str:
    """Return the version in the name of an artefact's jar."""
    names = [jar.stem for jar in jars if jar.stem.startswith(f"{artefact}-")]
    return names[0].removeprefix(f"{artefact}-") if names else "unknown"


class JavaServer:
    """One Java process that may be started and killed any number of times."""

    def __init__(
        self, command: Sequence[str], log: Path, environment: Mapping[str, str] | None = None
    ) -> None:
        """`log` takes what it prints; `environment` is added to ours."""
        self.command = list(command)
        self.log = log
        self._environment = {**os.environ, **(environment or {})}
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        """The process id; one that was never started has none."""
        assert self._process is not None, "the server was not started"
        return self._process.pid

    @property
    def is_running(self) -> bool:
        """Say whether the process is there."""
        return self._process is not None and self._process.poll() is None

    def launch(self) -> None:
        """Start the process and wait for nothing."""
        assert not self.is_running, "the server is running already"
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                self.command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=self._environment,
            )

    def kill(self) -> None:
        """End the process with SIGKILL, as a crash would."""
        if self._process is not None and self._process.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                self._process.send_signal(signal.SIGKILL)
            self._process.wait(STOP_SECONDS)

    def cpu_seconds(self) -> float:
        """Return the CPU time so far, with threads that have ended: a JVM's come and go."""
        return process_cpu_seconds(self.pid)

    def memory_bytes(self) -> int:
        """Return the memory that is this process's own."""
        return private_bytes(self.pid)

    def log_tail(self, lines: int = 12) -> str:
        """Return the end of what it printed."""
        if not self.log.exists():
            return ""
        text = self.log.read_text(encoding="utf-8", errors="replace")
        return "\n".join(text.splitlines()[-lines:])


def process_cpu_seconds(pid: int) -> float:
    """Return the CPU time of a process with all threads it ever had; exact to a tick of 10 ms."""
    text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    fields = text.rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


def heap_used_bytes(pid: int) -> int:
    """Return what a JVM's heap holds after a collection, as its own jcmd tells it."""
    for command in ("GC.run", "GC.heap_info"):
        told = subprocess.run(
            ["jcmd", str(pid), command], capture_output=True, text=True, timeout=60, check=True
        ).stdout
    return used_in(told)


def used_in(heap_info: str) -> int:
    """Return the used bytes that `GC.heap_info` tells; raises ValueError where there are none."""
    found = re.search(r"^ *garbage-first heap .* used (\d+)K", heap_info, re.MULTILINE)
    if found is None:
        raise ValueError(f"no heap in {heap_info[:200]!r}")
    return int(found[1]) * 1024
