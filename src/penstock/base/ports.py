"""Ports: how the core rooms reach time, randomness, disk and other threads.

The core (storage, replication, controller, groups, record, protocol) gets these as arguments and
imports no asyncio, os, time or threading. `runtime` has the real ones; a simulation brings its own.
A port's contract is tested by one suite that every implementation passes.

Blocking rule: a call that can wait for the disk says so in its docstring, and is made on the loop
only while a log is being opened. Everything else that waits goes through `Offload`.
"""

from collections.abc import Callable, Sequence
from enum import Enum
from typing import Protocol, TypeVar

Buffer = bytes | bytearray | memoryview
T = TypeVar("T")


class Clock(Protocol):
    """Time. Wall time may jump; monotonic time may not, and has no meaning outside the process.

    Monotonic time goes on while the machine is suspended: leases are measured by it.
    """

    def wall_ms(self) -> int: ...
    def monotonic_ms(self) -> int: ...
    def monotonic_us(self) -> int: ...


class Cancellable(Protocol):
    """A scheduled callback; `cancel` after it ran does nothing."""

    def cancel(self) -> None: ...


class Scheduler(Protocol):
    """Runs callbacks on the event loop, in order of their time."""

    def call_soon(self, callback: Callable[[], None]) -> Cancellable: ...
    def call_later(self, delay_ms: int, callback: Callable[[], None]) -> Cancellable: ...


class Randomness(Protocol):
    """Random draws; the real implementation is not predictable."""

    def token_bytes(self, count: int, /) -> bytes:
        """Return `count` random bytes."""

    def below(self, limit: int, /) -> int:
        """Return 0 to `limit` - 1."""

    def uniform(self, low: float, high: float, /) -> float:
        """Return a number from `low` to `high`."""


class Lane(Enum):
    """Who waits for a piece of work. No lane waits for the threads of another (ADR 0084)."""

    SYNC = "sync"
    """Acknowledgements: syncs of a log, and all operations of the metadata log."""
    WORK = "work"
    """The log itself: its files, indexes and snapshots, and what replication reads and copies."""
    READ = "read"
    """Clients that read or search, however many."""


class Offload(Protocol):
    """One disk's small worker pool: a slow disk slows its own users and nobody else."""

    def submit(
        self,
        work: Callable[[], T],
        done: Callable[[T | None, BaseException | None], None],
        lane: Lane = Lane.WORK,
    ) -> None:
        """Run `work` off the loop, then `done(result, error)` on the loop; one of them is None."""


class DiskFile(Protocol):
    """An open file, read and written at explicit positions."""

    def write(self, position: int, buffers: Sequence[Buffer]) -> int:
        """Write all buffers one after another, into the page cache; short writes are continued.

        Returns the byte count. Raises OSError (ENOSPC, EIO, ...) with an unknown prefix written.
        """

    def read_cached(self, position: int, length: int) -> memoryview | None:
        """Return up to `length` bytes if that needs no disk access, else None.

        Fewer bytes than asked for only at the end of the file.
        """

    def gather_cached(self, places: list[tuple[int, int]]) -> list[memoryview]:
        """Do the same for many (position, length) pairs, up to the first one that is not cached."""

    def read(self, position: int, length: int) -> memoryview:
        """Read up to `length` bytes; fewer only at the end of the file. May wait for the disk."""

    def sync(self) -> None:
        """Make what was written durable (fdatasync). Waits for the disk.

        Raises OSError; after that nothing written since the last good sync may be trusted.
        """

    def allocate(self, size: int) -> None:
        """Reserve blocks for bytes [0, size) and make the file that long. May wait for the disk."""

    def truncate(self, size: int) -> None:
        """Cut or extend the file to `size` bytes."""

    def data_ranges(self, position: int) -> list[tuple[int, int]]:
        """Ranges [start, end) from `position` on that may hold bytes other than zero, in order.

        Allocated space that was never written is left out without reading it; a file system that
        cannot tell gives one range. Reading fills the page cache, which then counts as data: call
        this before reading.
        """

    def size(self) -> int: ...
    def close(self) -> None: ...


class Disk(Protocol):
    """One data directory. Paths are relative to it, with `/` between the parts."""

    def open(self, path: str, *, create: bool = False) -> DiskFile:
        """Open for reading and writing. Raises FileNotFoundError without `create`."""

    def list(self, path: str) -> list[str]:
        """Return the names in a directory, sorted; an absent directory is empty."""

    def directories(self, path: str) -> Sequence[str]:
        """Return the names of the directories in a directory, sorted; "" is the data directory."""

    def make_directory(self, path: str) -> None:
        """Make the directory and its parents durable; an existing one is fine."""

    def replace(self, path: str, data: Buffer) -> None:
        """Put `data` at `path` atomically and durably (temporary file, sync, rename, sync)."""

    def rename(self, source: str, target: str) -> None:
        """Rename durably, replacing `target`."""

    def remove(self, path: str) -> None:
        """Remove a file; an absent one is fine. Durable with the next `sync_directory`."""

    def sync_directory(self, path: str) -> None:
        """Make entries made, renamed and removed in the directory durable. Waits for the disk."""

    def free_bytes(self) -> int:
        """Bytes that this process may still write on the file system of the directory."""

    def total_bytes(self) -> int:
        """Size of that file system, whoever uses it."""
