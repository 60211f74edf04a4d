"""What the kernel tells of processes: their children, and what they read and wrote."""

import contextlib
from collections.abc import Iterable
from pathlib import Path


def children_of(pid: int) -> list[int]:
    """Return the processes that any thread of a process has started, if they are still there."""
    found: list[int] = []
    for children in Path(f"/proc/{pid}/task").glob("*/children"):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # the thread has ended
            found += [int(word) for word in children.read_text(encoding="ascii").split()]
    return found


def io_bytes(pids: Iterable[int], counter: str) -> int:
    """Return a counter of /proc/PID/io of all these processes together.

    `read_bytes` came from disks, `write_bytes` is what they made disks write: a page counts once
    for each time it becomes dirty. `rchar` and `wchar` are what they asked for, cached or not.
    """
    total = 0
    for pid in pids:
        for line in Path(f"/proc/{pid}/io").read_text(encoding="ascii").splitlines():
            name, _, value = line.partition(": ")
            total += int(value) if name == counter else 0
    return total
