"""A safety net while a run is on: the standard library's clocks and randomness follow the run.

Production code gets its clock and its randomness from the simulated machine. Other people's code
that runs in the simulation, and what slips through, must not bring the real ones in. Names bound
early (`from time import monotonic`) are out of reach.

Deliberately not here: threads, files, real sockets.
"""

import os
import random
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import TYPE_CHECKING, Any, NoReturn

if TYPE_CHECKING:
    from penstock.sim.loop import SimLoop

WALL_START_S = 1_750_000_000
"""Wall time at the start of a run, in seconds since 1970."""


@contextmanager
def patched(loop: "SimLoop") -> Iterator[None]:
    """Replace time.*, random.*, os.urandom, secrets.* and uuid.uuid4 until the block ends."""
    replacements = _replacements(loop)
    saved = [(module, name, getattr(module, name)) for module, name, _ in replacements]
    state = random.getstate()
    for module, name, function in replacements:
        setattr(module, name, function)
    random.seed(f"{loop.seed} random")
    try:
        yield
    finally:
        random.setstate(state)
        for module, name, function in saved:
            setattr(module, name, function)


def _replacements(loop: "SimLoop") -> list[tuple[ModuleType, str, Callable[..., Any]]]:
    draws = loop.random_for("urandom")

    def wall_s() -> float:
        return WALL_START_S + loop.elapsed_s

    def monotonic_ns() -> int:
        return round(loop.time() * 1e9)

    def random_uuid() -> uuid.UUID:
        return uuid.UUID(int=draws.getrandbits(128), version=4)

    return [
        (time, "time", wall_s),
        (time, "time_ns", lambda: round(wall_s() * 1e9)),
        (time, "monotonic", loop.time),
        (time, "monotonic_ns", monotonic_ns),
        (time, "perf_counter", loop.time),
        (time, "perf_counter_ns", monotonic_ns),
        (time, "sleep", _refuse_to_sleep),
        (os, "urandom", draws.randbytes),
        (random, "_urandom", draws.randbytes),  # SystemRandom, and through it all of `secrets`
        (uuid, "uuid4", random_uuid),
        (uuid, "uuid1", random_uuid),
    ]


def _refuse_to_sleep(_seconds: float) -> NoReturn:
    raise RuntimeError("time.sleep in a simulation stops everything: await asyncio.sleep")
