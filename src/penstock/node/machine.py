"""Ports of a process to its machine: time, randomness, disks, listen sockets, the object store.

    real_machine(loop)      the operating system's, in production
    a simulation's machine  the same ports over a simulated host, under the same process

A node and a controller process use nothing else of their machine directly, except links and
connections, which go through their event loop. Not included: settings, locks of data directories
and the metrics page, which exist on a real machine only.
"""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from penstock.base.ports import Clock, Disk, Lane, Offload, Randomness, Scheduler
from penstock.housekeeper.port import Housekeeper
from penstock.net.sockets import OpenSocket, open_socket
from penstock.node.housekeeper.process import command
from penstock.node.object_store import OpenStore, open_store
from penstock.runtime.housekeeper import HousekeeperProcess, Spawn
from penstock.runtime.io.clock import LoopScheduler, SystemClock
from penstock.runtime.io.cores import usable_cores
from penstock.runtime.io.disk import DiskStats, FileDisk, ThreadOffload
from penstock.runtime.io.randomness import SystemRandomness


class DataDisk(Disk, Protocol):
    """One data directory, with counters."""

    @property
    def stats(self) -> DiskStats:
        """Counters for the metrics page."""

    def relieve(self) -> None:
        """Free the buffers that are kept for later reads."""


class Workers(Offload, Protocol):
    """The threads of one data directory."""

    def close(self) -> None:
        """Finish the submitted work, then end the threads."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """The ports of one process. All of them are used on its event loop."""

    clock: Clock
    stopwatch: Callable[[], float]
    """Seconds since an arbitrary moment, for measuring run time; cheaper than `clock`."""
    scheduler: Scheduler
    randomness: Randomness
    open_disk: Callable[[Path], DataDisk]
    """Opens an existing data directory."""
    open_workers: Callable[[Path, str], Workers]
    """Starts the threads of a data directory, with this name."""
    open_batch_workers: Callable[[], Workers]
    """Starts threads for work on batches, which needs a processor and no disk."""
    open_housekeeper: Callable[[int, Spawn], Housekeeper]
    """Makes the housekeeper that reads and writes so many bytes in a second."""
    open_socket: OpenSocket
    open_store: OpenStore
    """Opens the object store of the tier."""


def real_machine(loop: asyncio.AbstractEventLoop) -> Machine:
    """Return the machine that this process runs on."""
    return Machine(
        clock=SystemClock(),
        stopwatch=time.perf_counter,
        scheduler=LoopScheduler(loop),
        randomness=SystemRandomness(),
        open_disk=FileDisk,
        open_workers=lambda _path, name: ThreadOffload(loop, name=name),
        open_batch_workers=lambda: ThreadOffload(
            loop, name="batches", threads=_batch_threads(), lanes=(Lane.WORK,)
        ),
        open_housekeeper=lambda rate, spawn: HousekeeperProcess(command(rate), spawn),
        open_socket=open_socket,
        open_store=open_store,
    )


def _batch_threads() -> int:
    """Return half of the usable processors: the event loop needs one for itself."""
    return max(1, len(usable_cores()) // 2)
