"""One simulation: a seed, a loop, a network, processes; `simulate` runs a coroutine in it.

    async def story(simulation):                        # runs as the process "world"
        server = simulation.start("h1", "server", serve)   # serve(process) -> coroutine
        client = simulation.start("h2", "client", ask)
        simulation.network.cut("h1", "h2")
        await asyncio.sleep(3)                             # virtual seconds
        server.kill()

    outcome = simulate(7, story)

Clusters, disks, faults from a plan and invariants are in other packages.
"""

import gc
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from random import Random
from typing import Any, Generic, TypeVar

from penstock.base.memory import trim_memory
from simulator.kernel.loop import SimLoop
from simulator.kernel.network import Network
from simulator.kernel.patches import patched
from simulator.kernel.process import End, Failure, Main, Process
from simulator.kernel.trace import Trace, Value

T = TypeVar("T")


class Simulation:
    """Handles for the story of one run."""

    def __init__(self, loop: SimLoop) -> None:
        self.loop = loop
        self.network: Network = loop.network
        self.trace: Trace = loop.trace

    @property
    def seed(self) -> int:
        """The seed that the run follows from."""
        return self.loop.seed

    @property
    def now_s(self) -> float:
        """Virtual seconds since the run began."""
        return self.loop.elapsed_s

    @property
    def processes(self) -> list[Process]:
        """All incarnations that were started, oldest first, ended ones too; the world first."""
        return self.loop.processes

    @property
    def failures(self) -> list[Failure]:
        """Unhandled errors of all processes, in order of time."""
        return self.loop.failures

    def random(self, name: str) -> Random:
        """Return a random source of its own: drawing from it moves nothing else."""
        return self.loop.random_for(name)

    def note(self, name: str, *values: Value) -> None:
        """Put a named event into the trace."""
        self.loop.note(name, *values)

    def start(self, host: str, name: str, main: Main) -> Process:
        """Start a process; its host is switched on if it was off, and made if it is new."""
        return self.loop.start_process(host, name, main)

    def power_off(self, host: str) -> list[Process]:
        """Cut the power of a host: its processes end, silently. Returns those that ended."""
        return self.loop.power_off(host)


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome(Generic[T]):
    """What a run came to. Equal seeds give equal digests, steps and times."""

    value: T
    digest: str
    steps: int
    seconds: float
    """Virtual."""
    failures: list[Failure]


STEPS_MAX = 50_000_000
SECONDS_MAX = 3_600.0
"""Virtual."""


def simulate(
    seed: int,
    story: Callable[[Simulation], Coroutine[Any, Any, T]],
    *,
    steps_max: int = STEPS_MAX,
    seconds_max: float = SECONDS_MAX,
) -> Outcome[T]:
    """Run `story` to its end and return what it returned; processes that still run are ended.

    Raises what the story raises; Deadlock when nothing is left that could ever run; BoundExceeded
    after `steps_max` callbacks or `seconds_max` virtual seconds.
    """
    was_enabled, was_frozen = gc.isenabled(), gc.get_freeze_count() > 0
    gc.disable()  # finalizers must not run at moments that the seed does not decide
    if was_frozen:
        gc.collect()  # what the run before has left: it would stay for ever
    gc.freeze()  # what was there before is not looked through by the collections of this run
    try:
        loop = SimLoop(seed, steps_max=steps_max, seconds_max=seconds_max)
        with patched(loop):
            try:
                value = loop.run_story(story(Simulation(loop)))
                digest, seconds = loop.trace.digest(), loop.elapsed_s
            finally:
                loop.dispose()
    finally:
        if not was_frozen:  # else it is for whoever has frozen: all that there is goes at once
            gc.unfreeze()
        if was_enabled:
            gc.enable()
        trim_memory()  # disks that were copied thousands of times must not stay for the next run
    return Outcome(
        value=value, digest=digest, steps=loop.steps, seconds=seconds, failures=loop.failures
    )


__all__ = ["End", "Outcome", "Simulation", "simulate"]
