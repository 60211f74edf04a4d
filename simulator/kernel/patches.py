"""Replaces the standard library's clocks and randomness by those of the run, as a safety net.

Production code gets clock and randomness from the simulated machine. Third-party code in the
simulation, and oversights, must not use the real ones. Names bound early (`from time import
monotonic`) can not be replaced.

aiokafka iterates over sets of named tuples, whose hashes depend on the hash seed and on the address
of None; during a run they depend on the text only, if aiokafka is imported by then. Hashes of
strings can not be replaced: let a simulated aiokafka client use one topic, and give it
`timestamp_ms`, which it would otherwise take from C.

File descriptors of a killed process (a listener keeps a spare one) are closed when the run is over:
otherwise thousands of kills would use them up.
"""

import os
import random
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import TYPE_CHECKING, Any, NoReturn
from zlib import crc32

if TYPE_CHECKING:
    from simulator.kernel.loop import SimLoop

WALL_AT_ZERO_S = 1_800_000_000
"""Wall time when loop time is 0, in seconds since 1970; a simulated machine says the same."""


MEMORY_PAGES = 64
"""Of the simulated machine: consumers that read from far behind are far behind its page cache."""

Replacement = tuple[ModuleType | type, str, Callable[..., Any]]
_AIOKAFKA_TUPLES = ("BrokerMetadata", "TopicPartition")


@contextmanager
def patched(loop: "SimLoop") -> Iterator[None]:
    """Replace time.*, random.*, os.urandom, secrets.* and uuid.uuid4 until the block ends."""
    opened: set[int] = set()
    replacements = [*_replacements(loop), *_descriptors(opened), *_steady_hashes()]
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
        for descriptor in sorted(opened):
            os.close(descriptor)


def _replacements(loop: "SimLoop") -> list[Replacement]:
    draws = loop.random_for("urandom")

    def wall_s() -> float:
        return WALL_AT_ZERO_S + loop.time()

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
        (os, "sysconf", _sysconf_of(os.sysconf)),
    ]


def _sysconf_of(really: Callable[[Any], int]) -> Callable[[Any], int]:
    def sysconf(name: str | int) -> int:
        return MEMORY_PAGES if name == "SC_PHYS_PAGES" else really(name)

    return sysconf


def _descriptors(opened: set[int]) -> list[Replacement]:
    """Keep account of what is opened and not closed again."""
    really_open, really_close = os.open, os.close

    def open_counted(*arguments: Any, **options: Any) -> int:
        descriptor = really_open(*arguments, **options)
        opened.add(descriptor)
        return descriptor

    def close_counted(descriptor: int) -> None:
        really_close(descriptor)
        opened.discard(descriptor)

    return [(os, "open", open_counted), (os, "close", close_counted)]


def _steady_hashes() -> list[Replacement]:
    structs = sys.modules.get("aiokafka.structs")
    return [
        (getattr(structs, name), "__hash__", _hash_of_text)
        for name in _AIOKAFKA_TUPLES
        if structs is not None
    ]


def _hash_of_text(self: object) -> int:
    return crc32(repr(self).encode())


def _refuse_to_sleep(_seconds: float) -> NoReturn:
    raise RuntimeError("time.sleep in a simulation stops everything: await asyncio.sleep")
