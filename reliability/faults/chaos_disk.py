"""Faults of disks: full, failing, slow, lying, and without power.

Every host has an ext4 disk of its own on a loop device. System calls of a running process are made
to fail, wait or lie by strace. Power is cut by the file system itself (see `loop_disk`), with the
process stopped before: a machine without power does not go on either.
"""

import contextlib
import os
import re
import shutil
import signal
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from harness.cluster import get_page
from harness.node import NodeFailed
from harness.waiting import wait_until
from reliability.faults.chaos_stage import Stage

_SYNCS = "fsync,fdatasync"
_ATTACH_SECONDS = 10.0
_FULL = re.compile(rb"^penstock_log_full(?:\{[^}]*\})? 1(?:\.0)?$", re.MULTILINE)
BLOCK_BYTES = 4096


@dataclass(slots=True)
class Tampered:
    """Processes whose fsync and fdatasync do not do what they should; counts how often."""

    pid: int
    how: str
    """As strace wants it: error=EIO, retval=0, delay_enter=100000."""
    output: Path
    _tracer: subprocess.Popen[str] | None = None

    def begin(self) -> None:
        """Attach. Raises NodeFailed when that can not be done."""
        command = ["strace", "-f", "-p", str(self.pid), "-o", str(self.output)]
        rules = ["-e", f"trace={_SYNCS}", "-e", f"inject={_SYNCS}:{self.how}"]
        self._tracer = subprocess.Popen([*command, *rules], stderr=subprocess.PIPE, text=True)
        deadline = time.monotonic() + _ATTACH_SECONDS
        while not self._is_on_every_thread():
            if self._tracer.poll() is not None or time.monotonic() > deadline:
                raise NodeFailed(f"strace does not attach to {self.pid}")
            time.sleep(0.01)

    def _is_on_every_thread(self) -> bool:
        with contextlib.suppress(OSError):
            return all(
                "TracerPid:\t0" not in (task / "status").read_text(encoding="ascii")
                for task in Path(f"/proc/{self.pid}/task").iterdir()
            )
        return False

    def count(self) -> int:
        """Return how many calls were tampered with."""
        with contextlib.suppress(OSError):
            text = self.output.read_bytes()
            return text.count(b"(INJECTED)") + text.count(b"(DELAYED)")
        return 0

    def end(self) -> None:
        """Let go."""
        if self._tracer is not None:
            self._tracer.send_signal(signal.SIGTERM)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._tracer.communicate(timeout=5)
            self._tracer.kill()
            self._tracer.wait()


def why_no_tampering() -> str | None:
    """Return why system calls can not be tampered with here, or None."""
    return None if shutil.which("strace") else "strace is not installed"


def _tampered(stage: Stage, peer_id: int, how: str) -> Tampered:
    output = stage.directory / f"strace-{stage.number}-{peer_id}"
    return Tampered(stage.process(peer_id).pid, how, output)


@dataclass(slots=True)
class Failing:
    """Every sync of a process fails with EIO; it is started again in the end."""

    stage: Stage
    hit: int
    _calls: Tampered = field(init=False)

    def __post_init__(self) -> None:
        self._calls = _tampered(self.stage, self.hit, "error=EIO")

    @property
    def victims(self) -> str:
        return f"EIO from every sync of {self.hit}"

    def begin(self) -> None:
        self._calls.begin()

    def has_struck(self) -> bool:
        return self._calls.count() > 0

    def heal(self) -> None:
        process = self.stage.process(self.hit)
        process.kill()
        self._calls.end()
        process.launch()


@dataclass(slots=True)
class Slow:
    """Every sync of a process takes long."""

    stage: Stage
    hit: int
    _ms: int = field(init=False)
    _calls: Tampered = field(init=False)

    def __post_init__(self) -> None:
        self._ms = self.stage.chooser.randrange(50, 400)
        how = f"delay_enter={self._ms * 1000}"
        self._calls = _tampered(self.stage, self.hit, how)

    @property
    def victims(self) -> str:
        return f"{self._ms} ms more for every sync of {self.hit}"

    def begin(self) -> None:
        self._calls.begin()

    def has_struck(self) -> bool:
        return self._calls.count() > 0

    def heal(self) -> None:
        self._calls.end()


@dataclass(slots=True)
class Lying:
    """Syncs of a process do nothing and say that all is well; then its host loses its power."""

    stage: Stage
    hit: int
    _calls: Tampered = field(init=False)
    _lies: int = 0

    def __post_init__(self) -> None:
        self._calls = _tampered(self.stage, self.hit, "retval=0")

    @property
    def victims(self) -> str:
        return f"{self._lies} lies of syncs of {self.hit}, then its power cut"

    def begin(self) -> None:
        self._calls.begin()
        wait_until(lambda: self._calls.count() >= 20, _ATTACH_SECONDS)
        self._lies = self._calls.count()
        _freeze(self.stage, self.hit)
        self.stage.disks[self.hit].cut_power()
        self.stage.process(self.hit).kill()
        self._calls.end()

    def has_struck(self) -> bool:
        return self._lies > 0

    def heal(self) -> None:
        _power_up(self.stage, self.hit)


@dataclass(slots=True)
class Unpowered:
    """Hosts that lose their power at the same moment, and get it back."""

    stage: Stage
    hit: tuple[int, ...]

    @property
    def victims(self) -> str:
        return f"power cut of {', '.join(map(str, self.hit))}"

    def begin(self) -> None:
        for peer_id in self.hit:
            _freeze(self.stage, peer_id)
        for peer_id in self.hit:
            self.stage.disks[peer_id].cut_power()
        for peer_id in self.hit:
            self.stage.process(peer_id).kill()

    def has_struck(self) -> bool:
        return not any(self.stage.process(peer_id).is_running for peer_id in self.hit)

    def heal(self) -> None:
        with ThreadPoolExecutor(len(self.hit)) as pool:
            list(pool.map(lambda peer_id: _power_up(self.stage, peer_id), self.hit))


@dataclass(slots=True)
class Full:
    """A broker whose disk has no room left."""

    stage: Stage
    hit: int

    @property
    def victims(self) -> str:
        return f"disk of {self.hit} full"

    def begin(self) -> None:
        with self._ballast.open("wb", buffering=0) as file, contextlib.suppress(OSError):
            status = os.statvfs(self._ballast.parent)
            room = status.f_bavail * status.f_frsize
            os.posix_fallocate(file.fileno(), 0, max(BLOCK_BYTES, room - (1 << 20)))
            file.seek(0, os.SEEK_END)
            while file.write(bytes(BLOCK_BYTES)):
                pass

    def has_struck(self) -> bool:
        process = self.stage.process(self.hit)
        if not process.is_running:
            return True
        page = get_page(process, "/metrics")
        return page is not None and _FULL.search(page) is not None

    def heal(self) -> None:
        self._ballast.unlink(missing_ok=True)

    @property
    def _ballast(self) -> Path:
        return self.stage.disks[self.hit].mount_point / "ballast"


def _freeze(stage: Stage, peer_id: int) -> None:
    process = stage.process(peer_id)
    if process.is_running:
        process.freeze()


def _power_up(stage: Stage, peer_id: int) -> None:
    disk = stage.disks[peer_id]
    disk.unmount()
    disk.mount()
    stage.process(peer_id).launch()
