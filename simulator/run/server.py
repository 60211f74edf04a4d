"""A simulated server: a disk that persists, and the consecutive processes that use it.

    start ─► node's composition with a machine made of simulated ports ─► serves
      ▲                                                                     │ ends by itself
      └──────────────── an init system restarts it after a moment ◄─────────┘

It runs the production composition (`Node`, `ControllerProcess`) and does what the process around it
does; nothing inside is replaced. A process that reports that it can not continue is a finding,
unless its disk was broken on purpose.
"""

import asyncio
import logging
from collections.abc import Callable
from contextvars import Context
from pathlib import Path
from random import Random

from penstock.base.errors import ConfigError, PlatformError
from penstock.base.ports import Cancellable
from penstock.node.controller_process import ControllerProcess
from penstock.node.machine import Machine
from penstock.node.main import Stopping
from penstock.node.node import Node
from penstock.node.settings.settings import NodeSettings
from penstock.runtime.io.clock import LoopScheduler
from penstock.storage.config import FlushPolicy, LogConfig
from simulator.kernel.disk import SimDisk
from simulator.kernel.distant_store import DistantStore, SharedStore
from simulator.kernel.housekeeper import SimHousekeeper
from simulator.kernel.loop import SimLoop
from simulator.kernel.offload import SimOffload
from simulator.kernel.process import End, Process, current_process
from simulator.kernel.simulation import Simulation
from simulator.run.topology import WALL_START_MS, Host, data_directory

RESTART_SECONDS = 0.2

log = logging.getLogger(__name__)


class HostTime:
    """What is wrong with the clocks of a host; it outlives processes."""

    def __init__(self, rate: float = 1.0) -> None:
        """`rate`: seconds that its clocks count in a second."""
        self.rate = rate
        self.wall_offset_ms = 0
        self.suspended_s = 0.0
        """So long its monotonic clock has stood still, as in a paused virtual machine: no code in
        it can know (docs/adr/0026). A suspend counts, and is the same as a SIGSTOP."""


class SimClock:
    """The loop's time as a process sees it."""

    def __init__(self, loop: asyncio.AbstractEventLoop, host: HostTime) -> None:
        self._loop = loop
        self._host = host

    def wall_ms(self) -> int:
        passed_ms = int(self._loop.time() * self._host.rate * 1_000)
        return WALL_START_MS + passed_ms + self._host.wall_offset_ms

    def monotonic_ms(self) -> int:
        return int(self._monotonic_s() * 1_000)

    def monotonic_us(self) -> int:
        return int(self._monotonic_s() * 1_000_000)

    def _monotonic_s(self) -> float:
        return (self._loop.time() - self._host.suspended_s) * self._host.rate


class SimScheduler(LoopScheduler):
    """Callbacks at times of a host's own clock, for the code of one process.

    A callback belongs to the process that asks for it. A check that asks a node for something as
    the world would have the node act on no host, while its own process is at something else.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, host: HostTime, process: Process) -> None:
        super().__init__(loop)
        self._host = host
        self._process = process

    def call_soon(self, callback: Callable[[], None]) -> Cancellable:
        self._assert_own()
        return super().call_soon(callback)

    def call_later(self, delay_ms: int, callback: Callable[[], None]) -> Cancellable:
        self._assert_own()
        return self._loop.call_later(delay_ms / 1_000 / self._host.rate, callback)

    def _assert_own(self) -> None:
        asking = current_process()
        assert asking is self._process, f"{asking} schedules for {self._process}"


class SeededRandomness:
    """Randomness that follows from the seed."""

    def __init__(self, draw: Random) -> None:
        self.token_bytes = draw.randbytes
        self.below = draw.randrange
        self.uniform = draw.uniform


class Server:
    """One host of the cluster. `node` is the running composition, None while it is down."""

    def __init__(
        self,
        simulation: Simulation,
        host: Host,
        settings: NodeSettings,
        store: SharedStore,
        clock_rate: float = 1.0,
    ) -> None:
        self.host = host
        self.name = host.name
        self.disk = SimDisk(simulation.random(f"disk of {host.name}"))
        self.time = HostTime(clock_rate)
        self.process: Process | None = None
        self.node: Node | ControllerProcess | None = None
        self.starts = 0
        self.is_wanted = False
        """Whether the init system starts it again when it ends."""
        self._disk_faults = 0
        self._is_disk_suspect = False
        """Whether the disk was made to fail while this process lived: it may give up for that."""
        self.is_disk_damaged = False
        """Whether the disk has lied or turned bits over: from then on it may hold anything, until
        what it holds is repaired from the others."""
        self.is_disk_lost = False
        """Whether a disk, or a part of it, was replaced by an empty one."""
        self.housekeeper_death_share = 0.0
        """Of the jobs of its housekeeper in which that one dies alone."""
        self._is_cut = False
        """The power fails in the middle of a disk operation; later operations have no effect."""
        self.woken_s: list[float] = []
        """When it went on after it had stood still with its clock."""
        self.complaints: list[str] = []
        """What its processes said when they could not go on."""
        self.on_started: Callable[[Server], None] = _ignore
        self._stopping: Stopping | None = None
        self._simulation = simulation
        self._settings = settings
        self._store = store

    @property
    def log_config(self) -> LogConfig:
        """Settings of its commit logs."""
        return self._settings.log

    @property
    def is_durable_at_once(self) -> bool:
        """Whether what its logs acknowledge outlives a loss of power."""
        return self._settings.log.flush_policy is FlushPolicy.SYNC

    def suspect_disk(self) -> None:
        """The disk is made to fail, perhaps in several ways at a time: a process may give up."""
        self._disk_faults += 1
        self._is_disk_suspect = True

    def trust_disk(self) -> None:
        """One of these ways is over. What a process has already been told it may yet hear of."""
        self._disk_faults = max(0, self._disk_faults - 1)

    @property
    def has_disk_faults(self) -> bool:
        """Whether the disk fails now."""
        return self._disk_faults > 0

    @property
    def is_up(self) -> bool:
        """Whether a process lives there, paused or not."""
        return self.process is not None and self.process.is_alive

    @property
    def is_paused(self) -> bool:
        """Whether its process is stopped by SIGSTOP."""
        return self.process is not None and self.process.is_alive and self.process.is_paused

    def start(self) -> None:
        """Start a process, unless one lives; one that is stopping is followed by the next."""
        self.is_wanted = True
        if self.is_up:
            return
        self.starts += 1
        self._is_disk_suspect = self.has_disk_faults
        self._simulation.note("start", self.name, self.starts)
        self.process = self._simulation.start(self.name, self.name, self._main)
        self.process.on_end.append(self._ended)

    def kill(self) -> bool:
        """End it as kill -9 does and leave it down; returns whether there was something to kill."""
        self.is_wanted = False
        process = self.process
        if process is None or not process.is_alive:
            return False
        process.kill()
        return True

    def stop(self) -> bool:
        """Ask it to end in good order, as SIGTERM does; returns whether there was one to ask."""
        self.is_wanted = False
        process, stopping = self.process, self._stopping
        if process is None or not process.is_alive or stopping is None:
            return False
        process.call_soon(stopping.stop, 0)
        return True

    def lose_disk(self, prefix: str) -> None:
        """End it, and let everything go whose path begins so."""
        self.kill()
        self.is_disk_lost = True
        self.disk.lose(prefix)

    def power_off(self) -> bool:
        """Cut the power; returns whether it was on."""
        self.is_wanted = False
        was_up = self.is_up
        self._simulation.power_off(self.name)
        self.disk.power_loss()
        return was_up

    def replace_disk(self) -> bool:
        """End it and put an empty disk in place; returns whether a process lived there."""
        was_up = self.kill()
        self.is_disk_lost = True
        self.disk.wipe()
        self._simulation.note("disk replaced", self.name)
        return was_up

    def lose_power_after(self, operations: int) -> None:
        """Cut the power between two operations of the disk, after so many more."""

        def on_cut() -> None:
            self._is_cut = True
            self._simulation.power_off(self.name)
            self._in_world(0.0, self._lose_power)

        self.is_wanted = False
        self.disk.cut_after(operations, on_cut)

    def _lose_power(self) -> None:
        self._is_cut = False
        self.disk.power_loss()

    def _in_world(self, delay_s: float, action: Callable[[], None]) -> None:
        self._simulation.loop.call_later(delay_s, action, context=self._world())

    def _world(self) -> Context:
        return self._simulation.processes[0].context

    def restart(self) -> None:
        """End what is there and start anew at once."""
        self.kill()
        self.start()

    def _ended(self, end: End) -> None:
        self.node = None
        self._stopping = None
        if not self._is_cut:
            self.disk.kill()
        if end is End.EXITED and self.is_wanted:
            self._in_world(RESTART_SECONDS, self._start_again)

    def _start_again(self) -> None:
        if self.is_wanted:
            self.start()

    # --- inside the process --------------------------------------------------------------------

    async def _main(self, process: Process) -> int:
        loop = self._simulation.loop
        stopping = self._stopping = Stopping(loop)
        process.exception_handler = stopping.on_loop_error
        fail = stopping.fail

        def give_up(reason: str) -> None:
            self._complain(reason)
            fail(reason)

        stopping.fail = give_up  # type: ignore[method-assign]  # noted before it takes effect
        make = Node if self.host.is_broker else ControllerProcess
        node = make(
            self._settings, [data_directory(self.host)], give_up, self._machine(loop, process)
        )
        self.node = node
        self.on_started(self)
        try:
            starting = loop.create_task(node.start(), name="start")
            await asyncio.wait((starting, stopping.exit_code), return_when=asyncio.FIRST_COMPLETED)
            if starting.done():
                await starting
                self._simulation.note("ready", self.name)
            else:
                starting.cancel()
            return await stopping.exit_code
        except (ConfigError, PlatformError, OSError) as error:
            self._complain(f"can not start: {error}")
            return 1
        finally:
            await node.stop()

    def _complain(self, reason: str) -> None:
        now_s = self._simulation.now_s
        log.critical("%.3f %s stops: %s", now_s, self.name, reason)
        if not self._is_disk_suspect:
            self.complaints.append(f"{now_s:.3f} {self.name}: {reason}")

    def _machine(self, loop: SimLoop, process: Process) -> Machine:
        draw = self._simulation.random(f"{self.name} {self.starts}")
        disk = self.disk

        def open_disk(_: Path) -> SimDisk:
            return disk

        def open_workers(_: Path, name: str) -> SimOffload:
            del name
            return SimOffload(loop, disk, draw)

        return Machine(
            clock=SimClock(loop, self.time),
            stopwatch=loop.time,
            scheduler=SimScheduler(loop, self.time, process),
            randomness=SeededRandomness(draw),
            open_disk=open_disk,
            open_workers=open_workers,
            open_batch_workers=lambda: SimOffload(loop, disk, draw),
            open_housekeeper=lambda _rate, _spawn: SimHousekeeper(
                disk,
                SimOffload(loop, disk, draw),
                draw,
                death_share=self.housekeeper_death_share,
            ),
            open_socket=loop.open_socket,
            open_store=lambda _: DistantStore(
                self._store,
                self.name,
                self._simulation.random(f"{self.name} {self.starts} store"),
                world=self._world,
            ),
        )


def _ignore(_: Server) -> None:
    """Stand in for an observer that is not set."""
