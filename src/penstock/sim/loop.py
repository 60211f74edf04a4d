"""An event loop in which a seed decides: virtual time, and the order between processes."""

import asyncio
from collections.abc import Coroutine
from random import Random
from typing import Any, TypeVar

from penstock.sim.network import Network
from penstock.sim.process import End, Failure, Main, Process
from penstock.sim.trace import Trace, Value

T = TypeVar("T")


class Deadlock(Exception):
    """Nothing is left that could ever run, and the story has not ended."""


class BoundExceeded(Exception):
    """The run took more callbacks or virtual time than it may."""


class SimLoop(asyncio.BaseEventLoop):
    """`loop.time()` is virtual and starts at 1000 s; loop.open_socket(host, port) listens."""

    seed: int
    network: Network
    trace: Trace
    processes: list[Process]
    failures: list[Failure]
    steps: int

    def __init__(self, seed: int, *, steps_max: int, seconds_max: float) -> None:
        super().__init__()

    @property
    def elapsed_s(self) -> float:
        """Virtual seconds since the run began."""
        raise NotImplementedError

    def random_for(self, name: str) -> Random:
        """Return a random source of its own, which follows from the seed and the name."""
        raise NotImplementedError

    def note(self, name: str, *values: Value) -> None:
        """Put a named event into the trace."""
        raise NotImplementedError

    def open_socket(self, host: str, port: int) -> Any:
        """Return a listening socket of the current process: what Machine.open_socket gives.

        Port 0 takes a free one. Raises ConfigError where the port is in use on the host.
        """
        raise NotImplementedError

    def start_process(self, host: str, name: str, main: Main) -> Process:
        """See Simulation.start."""
        raise NotImplementedError

    def end_process(self, process: Process, end: End) -> None:
        """See Process.kill."""
        raise NotImplementedError

    def pause_process(self, process: Process) -> None:
        """See Process.pause."""
        raise NotImplementedError

    def resume_process(self, process: Process) -> None:
        """See Process.resume."""
        raise NotImplementedError

    def power_off(self, host: str) -> list[Process]:
        """See Simulation.power_off."""
        raise NotImplementedError

    def run_story(self, story: Coroutine[Any, Any, T]) -> T:
        """Run the coroutine as the world, until it ends."""
        raise NotImplementedError

    def dispose(self) -> None:
        """End all processes and forget their coroutines; whatever those still do has no effect."""
        raise NotImplementedError
