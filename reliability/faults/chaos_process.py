"""Faults of processes: killed, stopped, starved of CPU, memory or descriptors, with a wrong clock.

Starving needs control groups (version 1) of the running system; the clock is the wall clock alone,
by a preloaded library (`jumping_clock.c`), and monotonic time stays as it is, as on a real machine.
"""

import contextlib
import mmap
import os
import resource
import socket
import struct
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

from reliability.faults.chaos_stage import Stage
from reliability.faults.chaos_world import CGROUPS, remove_group

CPU_PERIOD_US = 100_000
CPU_SHARE = 0.1
MEMORY_MORE_BYTES = 512 << 10
DESCRIPTORS_MORE = 6
CALLERS = 80
JUMPS_SECONDS = (-86_400, -3600, -30, 30, 3600, 86_400)


@dataclass(slots=True)
class Killed:
    """Processes that end by kill -9, and are started again."""

    stage: Stage
    hit: tuple[int, ...]

    @property
    def victims(self) -> str:
        return f"kill -9 of {_listed(self.hit)}"

    def begin(self) -> None:
        for peer_id in self.hit:
            self.stage.process(peer_id).kill()

    def has_struck(self) -> bool:
        return not any(self.stage.process(peer_id).is_running for peer_id in self.hit)

    def heal(self) -> None:
        for peer_id in self.hit:
            self.stage.process(peer_id).launch()


@dataclass(slots=True)
class Stopped:
    """Processes that are stopped with SIGSTOP, and go on."""

    stage: Stage
    hit: tuple[int, ...]

    @property
    def victims(self) -> str:
        return f"SIGSTOP of {_listed(self.hit)}"

    def begin(self) -> None:
        for peer_id in self.hit:
            self.stage.process(peer_id).pause()

    def has_struck(self) -> bool:
        pids = [self.stage.process(peer_id).pid for peer_id in self.hit]
        return all(_state(pid) == "T" for pid in pids)

    def heal(self) -> None:
        for peer_id in self.hit:
            self.stage.process(peer_id).resume()


@dataclass(slots=True)
class Group:
    """A control group for one process; while it lasts its limits hold."""

    controller: str
    name: str
    path: Path = field(init=False)
    _home: Path = field(init=False)

    def __post_init__(self) -> None:
        self._home = _own_group(self.controller)
        self.path = self._home / self.name

    def take(self, pid: int, limits: dict[str, int]) -> None:
        """Make the group, and put a process into it."""
        self.path.mkdir()
        for name, value in limits.items():
            (self.path / name).write_text(str(value), encoding="ascii")
        (self.path / "cgroup.procs").write_text(str(pid), encoding="ascii")

    def count(self, file: str, name: str = "") -> int:
        """Return a counter of the group."""
        with contextlib.suppress(OSError):
            for line in (self.path / file).read_text(encoding="ascii").splitlines():
                words = line.split()
                if not name or words[0] == name:
                    return int(words[-1])
        return 0

    def remove(self, pid: int) -> None:
        """Put the process back, and take the group away."""
        if not self.path.exists():
            return
        with contextlib.suppress(OSError):  # it may be dead
            (self._home / "cgroup.procs").write_text(str(pid), encoding="ascii")
        remove_group(self.path)


def _own_group(controller: str) -> Path:
    """Return the group that this process is in."""
    for line in Path("/proc/self/cgroup").read_text(encoding="ascii").splitlines():
        _, names, path = line.split(":", 2)
        if controller in names.split(","):
            return CGROUPS / controller / path.lstrip("/")
    return CGROUPS / controller


def why_no_groups() -> str | None:
    """Return why control groups can not be used here, or None when they can."""
    for controller, file in (("cpu", "cpu.cfs_quota_us"), ("memory", "memory.limit_in_bytes")):
        group = Group(controller, "probe")
        if not os.access(group.path.parent, os.W_OK):
            return f"no {controller} control groups of version 1 in {group.path.parent}"
        with contextlib.suppress(OSError):
            group.path.mkdir()
            is_there = (group.path / file).exists()
            group.path.rmdir()
            if is_there:
                continue
        return f"no {controller} control group can be made in {group.path.parent}"
    return None


@dataclass(slots=True)
class Starved:
    """A process that gets a tenth of a CPU."""

    stage: Stage
    hit: int
    _group: Group = field(init=False)

    def __post_init__(self) -> None:
        self._group = Group("cpu", f"{self.stage.run_name}-cpu{self.stage.number}")

    @property
    def victims(self) -> str:
        return f"{CPU_SHARE:.0%} CPU for {self.hit}"

    def begin(self) -> None:
        quota = int(CPU_PERIOD_US * CPU_SHARE)
        limits = {"cpu.cfs_period_us": CPU_PERIOD_US, "cpu.cfs_quota_us": quota}
        self._group.take(self.stage.process(self.hit).pid, limits)

    def has_struck(self) -> bool:
        return self._group.count("cpu.stat", "nr_throttled") > 2

    def heal(self) -> None:
        self._group.remove(self.stage.process(self.hit).pid)


@dataclass(slots=True)
class Cramped:
    """A process that may take little more memory, page cache of its files included.

    The kernel takes pages from it, makes it wait, or ends it.
    """

    stage: Stage
    hit: int
    _group: Group = field(init=False)

    def __post_init__(self) -> None:
        self._group = Group("memory", f"{self.stage.run_name}-memory{self.stage.number}")

    @property
    def victims(self) -> str:
        return f"{MEMORY_MORE_BYTES >> 10} KiB more memory and nothing beyond for {self.hit}"

    def begin(self) -> None:
        pid = self.stage.process(self.hit).pid
        self._group.take(pid, {"memory.limit_in_bytes": MEMORY_MORE_BYTES})

    def has_struck(self) -> bool:
        return self._group.count("memory.failcnt") > 0

    def heal(self) -> None:
        self._group.remove(self.stage.process(self.hit).pid)


@dataclass(slots=True)
class Unhandled:
    """A broker whose descriptors run out: few are left, and many callers want one each."""

    stage: Stage
    hit: int
    _callers: list[socket.socket] = field(default_factory=list)
    _before: tuple[int, int] = (0, 0)
    _limit: int = 0

    @property
    def victims(self) -> str:
        return f"{DESCRIPTORS_MORE} descriptors left for {self.hit}, {CALLERS} callers"

    def begin(self) -> None:
        process = self.stage.process(self.hit)
        self._limit = _descriptors(process.pid) + DESCRIPTORS_MORE
        hard = resource.prlimit(process.pid, resource.RLIMIT_NOFILE)[1]
        limits = (self._limit, hard)
        self._before = resource.prlimit(process.pid, resource.RLIMIT_NOFILE, limits)
        for _ in range(CALLERS):
            caller = socket.socket()
            caller.setblocking(False)
            caller.connect_ex((process.place.address, process.port))
            self._callers.append(caller)

    def has_struck(self) -> bool:
        process = self.stage.process(self.hit)
        return process.is_running and _descriptors(process.pid) >= self._limit

    def heal(self) -> None:
        for caller in self._callers:
            caller.close()
        with contextlib.suppress(ProcessLookupError):
            pid = self.stage.process(self.hit).pid
            resource.prlimit(pid, resource.RLIMIT_NOFILE, self._before)


@dataclass(slots=True)
class Jumped:
    """A process whose wall clock jumps, there and back."""

    stage: Stage
    hit: int
    seconds: int = field(init=False)

    def __post_init__(self) -> None:
        self.seconds = self.stage.chooser.choice(JUMPS_SECONDS)

    @property
    def victims(self) -> str:
        return f"clock of {self.hit} by {self.seconds:+} s"

    def begin(self) -> None:
        set_clock(self.stage.clocks[self.hit], self.seconds)

    def has_struck(self) -> bool:
        return times_told(self.stage.clocks[self.hit]) > 0

    def heal(self) -> None:
        set_clock(self.stage.clocks[self.hit], 0)


def build_clock(directory: Path) -> Path | str:
    """Compile the library with the clock; returns it, or why there is none."""
    source = Path(__file__).with_name("jumping_clock.c")
    target = directory / "jumping_clock.so"
    command = ["cc", "-O2", "-shared", "-fPIC", "-o", str(target), str(source), "-ldl"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError as error:
        return f"no C compiler: {error}"
    return f"the clock can not be compiled: {done.stderr[:200]}" if done.returncode else target


def set_clock(plan: Path, seconds: int) -> None:
    """Let the clock that follows this plan be wrong by so much; makes the plan if need be."""
    if not plan.exists():
        plan.write_bytes(bytes(16))
    with plan.open("r+b") as file, mmap.mmap(file.fileno(), 16) as memory:
        memory[:] = struct.pack("qq", seconds * 1_000_000_000, 0)


def times_told(plan: Path) -> int:
    """Return how often a wrong time was told since the clock was set."""
    return int(struct.unpack("qq", plan.read_bytes())[1])


def _descriptors(pid: int) -> int:
    with contextlib.suppress(OSError):
        return len(list(Path(f"/proc/{pid}/fd").iterdir()))
    return 0


def _state(pid: int) -> str:
    text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8")
    return text.rpartition(")")[2].split()[0]


def _listed(ids: tuple[int, ...]) -> str:
    return ", ".join(map(str, ids))
