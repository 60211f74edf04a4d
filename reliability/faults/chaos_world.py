"""A world of its own for a chaos run: network, mounts and processes that end with it.

The command starts itself again as the first process of new network, mount and process namespaces.
So nothing that a run does to networks or mounts is seen outside, and when the run ends, however it
does, the kernel ends every process in it and takes networks and mounts away. What lies outside of
namespaces (cgroups, loop devices, the directory) has the run's name in it, and is removed by the
outer process, or later by `--clean`.
"""

import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from harness import loop_disk

NAME = "penstock-chaos"
CGROUPS = Path("/sys/fs/cgroup")
CONTROLLERS = ("cpu", "memory")
_TOOLS = ("setpriv", "unshare", "nsenter", "ip", "ss", "sysctl", "mount")
_NAMED = re.compile(rf"{NAME}-(\d+)(?=[-/.]|$)")
BEGIN = (
    *("setpriv", "--pdeathsig", "KILL", "--"),  # nothing goes on without the outer process
    *("unshare", "--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"),
    *("--propagation", "slave"),  # a disk that is unmounted outside is not kept inside
)
_END_SECONDS = 10.0
_CLEAR_UP_SECONDS = 20.0
INTERRUPTED = 130
"""Exit code."""


def why_not() -> str | None:
    """Return why there can be no such world here, or None when there can."""
    if os.geteuid() != 0:
        return "network namespaces need root"
    missing = [tool for tool in _TOOLS if not shutil.which(tool)]
    if missing:
        return f"{', '.join(missing)} not installed"
    if not Path("/dev/net/tun").exists():
        return "the kernel has no TAP devices"
    tried = subprocess.run([*BEGIN, "true"], capture_output=True, text=True, check=False)
    if tried.returncode:
        return f"no namespaces: {tried.stderr.strip()}"
    return loop_disk.why_not()


def name_of_run() -> str:
    """Return the name of the run whose outer process this is."""
    return f"{NAME}-{os.getpid()}"


def run_inside(command: Sequence[str], *, seconds: float) -> int:
    """Run a command in a new world, at most so long; returns its exit code, 130 when interrupted.

    Whatever happens, nothing of it is left, but for the files that it keeps on purpose.
    """
    child = subprocess.Popen([*BEGIN, "--", *command], start_new_session=True)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _interrupt)
    try:
        return child.wait(seconds)
    except subprocess.TimeoutExpired:
        print(f"the run did not end in {seconds:.0f} s", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("interrupted; what was finished is in the report", file=sys.stderr)
        _let_clear_up(child)
        return INTERRUPTED
    finally:
        child.kill()  # and with it, by --kill-child, everything inside
        child.wait()
        clean(lambda pid: pid == os.getpid(), has_files=False)


def _let_clear_up(child: subprocess.Popen[bytes]) -> None:
    """Give what is inside a moment to unmount its disks: the kernel may keep them otherwise."""
    first = Path(f"/proc/{child.pid}/task/{child.pid}/children").read_text(encoding="ascii")
    with contextlib.suppress(ProcessLookupError, subprocess.TimeoutExpired, KeyboardInterrupt):
        for pid in first.split():  # one: the first process of the world, whose parent is `unshare`
            os.kill(int(pid), signal.SIGINT)
        child.wait(_CLEAR_UP_SECONDS)


def _interrupt(_number: int, _frame: object) -> None:
    raise KeyboardInterrupt


def enter() -> None:
    """Make the inside of the world ready: a place for names of networks that nobody else sees."""
    assert os.getpid() == 1, "this is not the first process of a world of its own"
    subprocess.run(["mount", "-t", "tmpfs", "none", "/run"], check=True)
    Path("/run/netns").mkdir()


def clean(
    is_wanted: Callable[[int], bool] = lambda pid: not _is_alive(pid), *, has_files: bool = True
) -> list[str]:
    """Remove what runs left behind, by the pid in its name; returns what that was.

    Without an argument: of all runs whose outer process is gone.
    """
    removed = [*_clean_loops(is_wanted), *_clean_cgroups(is_wanted)]
    for path in Path(tempfile.gettempdir()).glob(f"{NAME}-*") if has_files else ():
        if _is_named(path.name, is_wanted):
            shutil.rmtree(path, ignore_errors=True)
            removed.append(str(path))
    return removed


def _clean_loops(is_wanted: Callable[[int], bool]) -> list[str]:
    if shutil.which("losetup") is None or os.geteuid() != 0:
        return []
    command = ["losetup", "-l", "-n", "-O", "AUTOCLEAR,NAME,BACK-FILE"]
    listed = subprocess.run(command, capture_output=True, text=True, check=False).stdout
    removed = []
    for line in listed.splitlines():
        is_detached, device, file = line.split(maxsplit=2)
        if is_detached == "0" and _is_named(file, is_wanted):  # else the kernel still holds it
            subprocess.run(["losetup", "-d", device], capture_output=True, check=False)
            removed.append(f"{device} of {file.strip()}")
    return removed


def _clean_cgroups(is_wanted: Callable[[int], bool]) -> list[str]:
    return [
        str(path)
        for controller in CONTROLLERS
        for path in CGROUPS.glob(f"{controller}/**/{NAME}-*")
        if _is_named(path.name, is_wanted) and remove_group(path)
    ]


def remove_group(path: Path) -> bool:
    """Remove a cgroup; processes that were just killed stay in theirs for a moment."""
    deadline = time.monotonic() + _END_SECONDS
    while path.exists():
        with contextlib.suppress(OSError):
            path.rmdir()
            break
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


def _is_named(text: str, is_wanted: Callable[[int], bool]) -> bool:
    return any(is_wanted(int(found[1])) for found in _NAMED.finditer(text))


def _is_alive(pid: int) -> bool:
    with contextlib.suppress(OSError):
        line = Path(f"/proc/{pid}/cmdline").read_bytes()
        return b"reliability.chaos" in line
    return False
