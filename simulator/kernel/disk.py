"""A data directory in memory, with separate page cache and durable state, and faults on demand.

    write ─► page cache ──sync──► durable          kill: the page cache stays
    name  ─► directory  ──sync──► durable          power loss: of what was not synced, any part

Every file has its content, its durable part, and the changes between. After a power loss each file
has none of these changes, all, the oldest ones, or every 512-byte sector in some state that it has
been in; sizes change in order. Names keep their order within a directory (or over the whole disk,
as with a journal), and a rename is atomic.

Faults: errors by operation and path (`fail`); a failed sync loses the dirty data and the next one
succeeds, as with Linux; a full disk writes what fits; a lying one reports syncs that it has not
done; `cut_after` ends the process between any two operations.

Source: the contract of base.ports.Disk, with the suite that every Disk passes; Pillai et al., "All
File Systems Are Not Created Equal" (OSDI 2014); Rebello et al., "Can Applications Recover from
fsync Failures?" (ATC 2020).
Not simulated: permissions, links, removal of directories. Slow disks are simulated by SimOffload.
"""

import errno
import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random

from penstock.base.ports import Buffer, DiskFile
from penstock.runtime.io.disk import DiskStats
from simulator.kernel.disk_file import SimFile
from simulator.kernel.disk_names import Names, parent
from simulator.kernel.inode import Inode

UNLIMITED = 1 << 40

OnOperation = Callable[[str, str], None]


@dataclass(slots=True)
class Fault:
    """Fails `times` operations (None: until healed), after `after` that are spared."""

    operation: str
    path: str
    error: int
    times: int | None
    after: int

    def strikes(self) -> bool:
        """Count one operation; returns whether it fails."""
        if self.after > 0:
            self.after -= 1
            return False
        if self.times is None:
            return True
        self.times -= 1
        return True


class SimDisk:
    """See the module, and base.ports.Disk. Outlives the processes that use it."""

    def __init__(self, rng: Random, *, capacity: int | None = None) -> None:
        """`capacity` in bytes; None for unlimited."""
        self.rng = rng
        self.capacity = UNLIMITED if capacity is None else capacity
        self.files = Names()
        self.stats = DiskStats()
        self.is_cold = False
        """Nothing is in the page cache, whatever is read."""
        self.is_lying = False
        """Syncs of files and of directories report success and do nothing."""
        self.lying_part = ""
        """Where it lies: about paths with this in them."""
        self.sync_delay_ms = 0.0
        """How much longer work on this disk takes, on average (see SimOffload)."""
        self.faults: list[Fault] = []
        self.on_operation: OnOperation | None = None
        """Called before each operation with its name and path; what it raises is raised."""
        self.before_operation: Callable[[], None] | None = None
        """Called before each operation while work that may stop there runs; see worker.py."""
        self._temporary = itertools.count()
        self._cut_after = -1
        self._on_cut: Callable[[], None] | None = None
        self._frozen: tuple[Names, list[tuple[Inode, Inode]]] | None = None
        """The names, and each file with how it was, at the moment of the cut."""

    @property
    def names(self) -> dict[str, Inode]:
        """Every file by its path, for checks and for faults."""
        return self.files.files

    @property
    def used(self) -> int:
        """Bytes of all files."""
        return self.files.used

    @property
    def is_cut(self) -> bool:
        """Whether the process has ended here, and what it still does to the disk is forgotten."""
        return self._frozen is not None

    # --- the port ------------------------------------------------------------------------------

    def open(self, path: str, *, create: bool = False) -> DiskFile:
        inode = self.names.get(path)
        if inode is None:
            if not create:
                raise FileNotFoundError(errno.ENOENT, "no such file", path)
            self.check("create", path)
            inode = self.files.create(path)
        return SimFile(self, inode)

    def list(self, path: str) -> list[str]:
        files = [name for name in self.names if parent(name) == path]
        return _last_parts([*files, *self.files.directories_in(path)])

    def directories(self, path: str) -> Sequence[str]:
        return _last_parts(self.files.directories_in(path))

    def make_directory(self, path: str) -> None:
        self.check("make_directory", path)
        self.files.make_directory(path, is_durable=not self.lies_about(path))

    def replace(self, path: str, data: Buffer) -> None:
        self.check("replace", path)
        unfinished = f"{path}.{next(self._temporary)}.tmp"
        file = self.open(unfinished, create=True)
        try:
            file.write(0, [data])
            file.sync()
            self.check("rename", unfinished)
            self.files.rename(unfinished, path)
        except OSError:
            self.files.remove(unfinished)
            raise
        self.sync_directory(parent(path))

    def rename(self, source: str, target: str) -> None:
        self.check("rename", source)
        self.files.rename(source, target)
        for directory in dict.fromkeys((parent(target), parent(source))):
            self.sync_directory(directory)

    def remove(self, path: str) -> None:
        self.check("remove", path)
        self.files.remove(path)

    def sync_directory(self, path: str) -> None:
        self.check("sync_directory", path)
        if not self.lies_about(path):
            self.files.settle(path)

    def lies_about(self, path: str) -> bool:
        """Whether a sync of this file or directory does nothing now."""
        return self.is_lying and self.lying_part in path

    def relieve(self) -> None:
        """Keep nothing for reads to come, as always."""

    def free_bytes(self) -> int:
        return max(0, self.capacity - self.files.used)

    def total_bytes(self) -> int:
        return self.capacity

    # --- faults --------------------------------------------------------------------------------

    def fail(
        self, operation: str, path: str, error: int, *, times: int | None = 1, after: int = 0
    ) -> Fault:
        """Let operations on paths with `path` in them fail with errno `error`.

        Operations: write, read, read_cached, sync, allocate, truncate, create, replace, rename,
        remove, make_directory, sync_directory. The first `after` of them are spared, then `times`
        fail (None: all, until `heal`). A write that fails has written a part.
        """
        fault = Fault(operation, path, error, times, after)
        self.faults.append(fault)
        return fault

    def forget(self, fault: Fault) -> None:
        """End one fault; again: no effect."""
        self.faults = [one for one in self.faults if one is not fault]

    def fill(self, free_bytes: int = 0) -> None:
        """Leave room for so many bytes more, until `heal`."""
        self.capacity = self.used + free_bytes

    def heal(self, *, capacity: int | None = None) -> None:
        """No faults from now on; what they have done stays done."""
        self.faults.clear()
        self.capacity = UNLIMITED if capacity is None else capacity
        self.is_cold = self.is_lying = False
        self.sync_delay_ms = 0.0

    def lose(self, prefix: str) -> None:
        """Be a new disk where paths begin so. Nothing may run on it."""
        self.files.lose(prefix)

    def flip_bit(self, path: str, position: int, bit: int = 0) -> None:
        """Flip bit 0 to 7 of a byte, on the disk and in the cache. Raises KeyError, IndexError."""
        inode = self.names[path]
        inode.data[position] ^= 1 << bit
        if position < len(inode.durable):
            inode.durable[position] ^= 1 << bit

    def duplicate(self, begins: str, rng: Random) -> "SimDisk":
        """Return a sound disk with the same files, of the paths that begin so, as they are now."""
        copied = SimDisk(rng)
        copied.files = self.files.duplicate(begins)
        return copied

    def wipe(self) -> None:
        """Put an empty disk in the place of this one; no process may have files of it open."""
        self.kill()
        self.files = Names()

    def cut_after(self, operations: int, on_cut: Callable[[], None]) -> None:
        """Let the process end after so many more operations, from 0, wherever it is by then.

        `on_cut` is called there and then, and has to see to it that nothing of the process is run
        any more once the callback that runs now has returned. What that does to the disk until
        then is forgotten by the `kill` or `power_loss` that must follow.
        """
        self._cut_after, self._on_cut = operations, on_cut

    def kill(self) -> None:
        """The process is gone; the page cache stays."""
        self._cut_after, self._on_cut = -1, None
        if self._frozen is None:
            return
        (self.files, inodes), self._frozen = self._frozen, None
        for inode, before in inodes:
            inode.become(before)

    def power_loss(self, rng: Random | None = None) -> None:
        """Lose what was not synced, or parts of it; drawn from `rng`, or from the disk's own."""
        self.kill()
        draws = rng or self.rng
        self.files.lose_power(draws)
        for inode in self.names.values():
            inode.lose_power(draws)
        self.files.count_used()

    def check(self, operation: str, path: str) -> None:
        """Count one operation, and raise what it is to fail with."""
        if self.before_operation is not None:
            self.before_operation()
        if self._cut_after >= 0:
            self._count_down()
        if self.on_operation is not None:
            self.on_operation(operation, path)
        if self.faults:
            self._strike(operation, path)

    def _strike(self, operation: str, path: str) -> None:
        for fault in self.faults:
            if fault.operation == operation and fault.path in path and fault.strikes():
                if fault.times == 0:
                    self.faults.remove(fault)
                raise OSError(fault.error, "injected", path)

    def _count_down(self) -> None:
        self._cut_after -= 1
        if self._cut_after < 0 and self._on_cut is not None:
            self._frozen = (
                self.files.copy(),
                [(inode, inode.copy()) for inode in self.files.inodes()],
            )
            on_cut, self._on_cut = self._on_cut, None
            on_cut()


def _last_parts(paths: Sequence[str]) -> list[str]:
    return sorted(path.rpartition("/")[2] for path in paths)
