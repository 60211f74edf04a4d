"""What a process stands on: time, randomness, disks with their threads, and ports to listen at.

    real_machine(loop)      the operating system's, in production
    a simulation's machine  the same ports over a simulated host, under the same process

A node and a controller process reach nothing else of their machine directly, but for links and
connections, which go through the event loop that they run on. Not here: the settings, the locks of
the data directories and the page for metrics, which belong to a real machine only.
"""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from penstock.base.ports import Clock, Disk, Offload, Randomness, Scheduler
from penstock.net.sockets import OpenSocket, open_socket
from penstock.runtime.io.clock import LoopScheduler, SystemClock
from penstock.runtime.io.cores import usable_cores
from penstock.runtime.io.disk import DiskStats, FileDisk, ThreadOffload
from penstock.runtime.io.randomness import SystemRandomness


class DataDisk(Disk, Protocol):
    """One data directory, counted."""

    @property
    def stats(self) -> DiskStats:
        """What the metrics page tells of it."""

    def relieve(self) -> None:
        """Let go of memory that is kept for reads to come."""


class Workers(Offload, Protocol):
    """The threads of one data directory."""

    def close(self) -> None:
        """Let the work that was handed in be done, and end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """See the module. Everything is for the loop of the process."""

    clock: Clock
    stopwatch: Callable[[], float]
    """Seconds that pass while code runs, from any moment on; the clock's calls cost more."""
    scheduler: Scheduler
    randomness: Randomness
    open_disk: Callable[[Path], DataDisk]
    """Of a data directory that exists."""
    open_workers: Callable[[Path, str], Workers]
    """Of a data directory; the text names the threads."""
    open_batch_workers: Callable[[], Workers]
    """For work on batches, which needs a processor and no disk."""
    open_socket: OpenSocket


def real_machine(loop: asyncio.AbstractEventLoop) -> Machine:
    """Return the machine that this process runs on."""
    return Machine(
        clock=SystemClock(),
        stopwatch=time.perf_counter,
        scheduler=LoopScheduler(loop),
        randomness=SystemRandomness(),
        open_disk=FileDisk,
        open_workers=lambda _path, name: ThreadOffload(loop, name=name),
        open_batch_workers=lambda: ThreadOffload(loop, name="batches", threads=_batch_threads()),
        open_socket=open_socket,
    )


def _batch_threads() -> int:
    """Half of the processors that this process may use: the loop needs one for itself."""
    return max(1, len(usable_cores()) // 2)
