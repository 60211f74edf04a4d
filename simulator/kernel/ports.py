"""Narrow interfaces between the parts of the kernel.

The loop, the network and the disk are large objects; a part that is called back by one of them
declares only the methods that it uses.
"""

import asyncio
from collections.abc import Callable, MutableMapping
from contextvars import Context
from random import Random
from typing import Any, Protocol

from simulator.kernel.disk_names import Names
from simulator.kernel.process import Process


class RandomSource(Protocol):
    """What the network needs of a random source."""

    def random(self) -> float: ...
    def randrange(self, start: int, stop: int) -> int: ...


class KernelLoop(Protocol):
    """What the network and sockets need of the loop."""

    kernel: Process
    is_over: bool

    def time(self) -> float: ...
    def next_serial(self) -> int: ...
    def random_for(self, name: str) -> RandomSource: ...
    def note(self, name: str, *values: str | bytes | float | bool | None) -> None: ...
    def call_soon(
        self, callback: Callable[..., object], *args: object, context: Context | None = None
    ) -> asyncio.Handle: ...
    def call_at(
        self,
        when: float,
        callback: Callable[..., object],
        *args: object,
        context: Context | None = None,
    ) -> asyncio.TimerHandle: ...


class TimerLoop(Protocol):
    """What a scheduled callback needs of the loop."""

    kernel: Process

    def timer_cancelled(self) -> None: ...


class TransportLoop(Protocol):
    """What a transport needs of the loop."""

    is_over: bool

    def call_soon(
        self, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.Handle: ...
    def call_exception_handler(self, context: dict[str, Any]) -> None: ...


class Wire(Protocol):
    """What a connected socket needs of the network."""

    loop: KernelLoop

    @property
    def sockets(self) -> MutableMapping[Any, None]: ...
    def passes(self, source: str, target: str) -> bool: ...
    def delay_s(self, source: str, target: str) -> float: ...
    def chunk(self, available: int) -> int: ...


class PortTable(Protocol):
    """What a listening socket needs of the network."""

    loop: KernelLoop

    def forget_listener(self, opened: Any) -> None: ...


class SyncStats(Protocol):
    """Where a disk counts."""

    failed_syncs: int

    def note_sync(self, micros: int) -> None: ...


class FileDisk(Protocol):
    """What an open file needs of its disk."""

    rng: Random
    files: Names
    is_cold: bool
    sync_delay_ms: float

    @property
    def stats(self) -> SyncStats: ...
    def free_bytes(self) -> int: ...
    def lies_about(self, path: str) -> bool: ...
    def check(self, operation: str, path: str) -> None: ...
