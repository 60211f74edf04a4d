"""How a process beside the node stays behind it: priority, disk, memory, and its end.

    processor   niced: it gets what others leave
    disk        idle class, where the I/O scheduler knows it (bfq); others ignore it
    memory      a limit of its own; what goes beyond is an error of the process
    end         SIGKILL with its parent, also after kill -9 of the parent

Linux only, but for the priority; elsewhere the process ends when its pipe does.
"""

import contextlib
import ctypes
import os
import platform
import resource
import signal
import sys

NICENESS = 15
MEMORY_BYTES_MAX = 1 << 30

_IOPRIO_SET = {"x86_64": 251, "aarch64": 30}
"""Numbers of the system call, for which libc has no function."""
_WHO_PROCESS = 1
_IDLE_CLASS = 3 << 13
_PR_SET_PDEATHSIG = 1


def stay_behind() -> None:
    """Give way to other processes, for the processor, the disk and memory."""
    os.nice(NICENESS)
    with contextlib.suppress(OSError, ValueError):  # a lower limit is set already
        resource.setrlimit(resource.RLIMIT_DATA, (MEMORY_BYTES_MAX, MEMORY_BYTES_MAX))
    number = _IOPRIO_SET.get(platform.machine())
    if sys.platform == "linux" and number is not None:
        ctypes.CDLL(None).syscall(number, _WHO_PROCESS, 0, _IDLE_CLASS)


def end_with_parent(parent: int, number: signal.Signals = signal.SIGKILL) -> bool:
    """Have the kernel send a signal when the parent dies; return whether it lives still.

    `parent` is its process id, as it told it: 0 if it did not.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, int(number), 0, 0, 0)
    return parent in {0, os.getppid()}
