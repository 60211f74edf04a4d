"""A data directory in memory: the page cache and what is durable apart, and faults on demand.

    write ─► page cache ──sync──► durable          kill: the page cache stays
    name  ─► directory  ──sync──► durable          power loss: of what was not synced, any part

Every file has its content, what is durable of it, and the changes between. A loss of power keeps
nothing of them, all, the oldest ones, or every 512-byte sector in some state that it has been in,
for each file on its own; sizes change in their order. Names keep their order within a directory
(or over the whole disk, as with a journal), and a rename is whole or has not been.

Faults: errors by operation and path (`fail`); a failed sync loses what was dirty and the next one
succeeds, since the kernel has forgotten it by then; a disk that is full takes what fits; a lying
one reports syncs that it has not done; `cut_after` lets the process end between any two operations.

Source: the contract of base.ports.Disk, with the suite that every Disk passes; Pillai et al., "All
File Systems Are Not Created Equal" (OSDI 2014); Rebello et al., "Can Applications Recover from
fsync Failures?" (ATC 2020).
Not here: time (SimOffload makes a slow disk slow), permissions, links, removal of directories.
"""

import errno
import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from random import Random

from penstock.base.ports import Buffer, DiskFile
from penstock.runtime.disk import DiskStats
from penstock.sim.sectors import Change, Keep, apply_changes, random_keep, random_sectors

UNLIMITED = 1 << 40
_BLOCK = 4096
_ZEROS = bytes(_BLOCK)

OnOperation = Callable[[str, str], None]
NameChange = tuple[tuple[str, "Inode | None"], ...]
"""Names that change together, each with the file that it stands for from then on."""


@dataclass(slots=True, eq=False)
class Inode:
    """One file: content now, content that is durable, and the changes between them, in order."""

    path: str
    data: bytearray = field(default_factory=bytearray)
    durable: bytearray = field(default_factory=bytearray)
    pending: list[Change] = field(default_factory=list)
    is_cold: bool = False
    """Not in the page cache until it is read."""
    is_linked: bool = True

    def settle(self, keep: Keep | None = None) -> None:
        """Make the pending changes durable; where only some are kept, the others are lost."""
        apply_changes(self.durable, self.pending, keep)
        self.pending.clear()

    def lose_power(self, rng: Random) -> None:
        """Lose any part of the pending changes, and the page cache."""
        self.settle(random_keep(rng, self.pending))
        missing = len(self.data) - len(self.durable)
        if missing > 0 and rng.random() < 0.3:
            self.durable.extend(bytes(rng.randint(0, missing)))
        self.data = bytearray(self.durable)
        self.is_cold = self.is_linked = True

    def fail_sync(self, rng: Random) -> None:
        """Lose any sectors of what is dirty: the kernel takes it for clean from now on.

        What is read shows the new content, or at once the old one: file systems differ.
        """
        self.settle(random_sectors(rng, self.pending, has_sizes=True))
        self.durable.extend(bytes(max(0, len(self.data) - len(self.durable))))
        if rng.random() < 0.5:
            self.data = bytearray(self.durable)


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


class SimFile:
    """An open file of a SimDisk; see base.ports.DiskFile."""

    __slots__ = ("_disk", "_inode", "_is_open")

    def __init__(self, disk: "SimDisk", inode: Inode) -> None:
        self._disk = disk
        self._inode = inode
        self._is_open = True

    def write(self, position: int, buffers: Sequence[Buffer]) -> int:
        data = bytes(buffers[0]) if len(buffers) == 1 else b"".join(buffers)
        inode, disk = self._inode, self._disk
        try:
            self._check("write")
        except OSError:
            self._put(position, data[: disk.rng.randrange(len(data) + 1)])
            raise
        growth = position + len(data) - len(inode.data)
        if growth > 0 and inode.is_linked and disk.used + growth > disk.capacity:
            room = max(0, disk.capacity - disk.used)
            self._put(position, data[: max(0, len(inode.data) + room - position)])
            raise OSError(errno.ENOSPC, "full", inode.path)
        self._put(position, data)
        return len(data)

    def _put(self, position: int, data: bytes) -> None:
        if not data:
            return
        inode = self._inode
        content = inode.data
        growth = position + len(data) - len(content)
        if growth > 0:
            if inode.is_linked:
                self._disk.used += growth
            if position > len(content):
                content.extend(bytes(position - len(content)))
        content[position : position + len(data)] = data
        inode.pending.append((position, data))

    def read_cached(self, position: int, length: int) -> memoryview | None:
        inode, disk = self._inode, self._disk
        if inode.is_cold or disk.is_cold:
            return None
        self._check("read_cached")
        return memoryview(inode.data[position : position + length])

    def read(self, position: int, length: int) -> memoryview:
        self._check("read")
        inode = self._inode
        inode.is_cold = False
        return memoryview(inode.data[position : position + length])

    def sync(self) -> None:
        disk, inode = self._disk, self._inode
        try:
            self._check("sync")
        except OSError:
            disk.stats.failed_syncs += 1
            inode.fail_sync(disk.rng)
            raise
        disk.stats.note_sync(int(disk.sync_delay_ms * 1000))
        if not disk.is_lying:
            inode.settle()

    def allocate(self, size: int) -> None:
        self._check("allocate")
        growth = size - len(self._inode.data)
        if growth > 0:
            self._disk.take(growth if self._inode.is_linked else 0)
            self._resize(size)

    def truncate(self, size: int) -> None:
        self._check("truncate")
        if self._inode.is_linked:
            self._disk.used += size - len(self._inode.data)
        self._resize(size)

    def _resize(self, size: int) -> None:
        inode = self._inode
        if size > len(inode.data):
            inode.data.extend(bytes(size - len(inode.data)))
        else:
            del inode.data[size:]
        inode.pending.append((size, None))

    def data_ranges(self, position: int) -> list[tuple[int, int]]:
        content = self._inode.data
        ranges: list[tuple[int, int]] = []
        for block in range(position // _BLOCK * _BLOCK, len(content), _BLOCK):
            start, end = max(block, position), min(block + _BLOCK, len(content))
            if content[start:end] == _ZEROS[: end - start]:
                continue
            if ranges and ranges[-1][1] == start:
                ranges[-1] = (ranges[-1][0], end)
            else:
                ranges.append((start, end))
        return ranges

    def size(self) -> int:
        return len(self._inode.data)

    def close(self) -> None:
        self._is_open = False

    def _check(self, operation: str) -> None:
        if not self._is_open:
            raise OSError(errno.EBADF, "closed", self._inode.path)
        self._disk.check(operation, self._inode.path)


class SimDisk:
    """See the module, and base.ports.Disk. Outlives the processes that use it."""

    def __init__(self, rng: Random, *, capacity: int | None = None) -> None:
        """`capacity` in bytes; None for as much as anybody asks for."""
        self.rng = rng
        self.capacity = UNLIMITED if capacity is None else capacity
        self.used = 0
        self.names: dict[str, Inode] = {}
        self.stats = DiskStats()
        self.is_cold = False
        """Nothing is in the page cache, whatever is read."""
        self.is_lying = False
        """Syncs of files and of directories report success and do nothing."""
        self.sync_delay_ms = 0.0
        """How much longer work on this disk takes, on average (see SimOffload)."""
        self.faults: list[Fault] = []
        self.on_operation: OnOperation | None = None
        """Called before each operation with its name and path; what it raises is raised."""
        self.durable_names: dict[str, Inode] = {}
        self.pending_names: list[NameChange] = []
        self.known_directories: dict[str, bool] = {"": True}
        """Whether it is durable."""
        self._temporary = itertools.count()
        self._cut_after = -1
        self._on_cut: Callable[[], None] | None = None
        self._frozen: _Frozen | None = None

    # --- the port ------------------------------------------------------------------------------

    def open(self, path: str, *, create: bool = False) -> DiskFile:
        inode = self.names.get(path)
        if inode is None:
            parent = _parent(path)
            if not create or parent not in self.known_directories:
                raise FileNotFoundError(errno.ENOENT, "no such file", path)
            self.check("create", path)
            inode = Inode(path)
            self._change((path, inode))
        return SimFile(self, inode)

    def list(self, path: str) -> list[str]:
        start = f"{path}/" if path else ""
        files = [name for name in self.names if _parent(name) == path]
        return sorted(name[len(start) :] for name in (*files, *self._below(path)))

    def directories(self, path: str) -> Sequence[str]:
        start = f"{path}/" if path else ""
        return sorted(name[len(start) :] for name in self._below(path))

    def make_directory(self, path: str) -> None:
        self.check("make_directory", path)
        parts = path.split("/")
        for count in range(1, len(parts) + 1):
            self.known_directories.setdefault("/".join(parts[:count]), not self.is_lying)

    def replace(self, path: str, data: Buffer) -> None:
        self.check("replace", path)
        unfinished = f"{path}.{next(self._temporary)}.tmp"
        file = self.open(unfinished, create=True)
        try:
            file.write(0, [data])
            file.sync()
            self._rename(unfinished, path)
        except OSError:
            self._unlink(unfinished)
            raise
        self.sync_directory(_parent(path))

    def rename(self, source: str, target: str) -> None:
        self.check("rename", source)
        self._rename(source, target)
        for directory in dict.fromkeys((_parent(target), _parent(source))):
            self.sync_directory(directory)

    def remove(self, path: str) -> None:
        self.check("remove", path)
        self._unlink(path)

    def sync_directory(self, path: str) -> None:
        self.check("sync_directory", path)
        if path not in self.known_directories:
            raise FileNotFoundError(errno.ENOENT, "no such directory", path)
        if not self.is_lying:
            for below in self._below(path):
                self.known_directories[below] = True
            self._settle_names(path)

    def free_bytes(self) -> int:
        return max(0, self.capacity - self.used)

    # --- faults --------------------------------------------------------------------------------

    def fail(
        self, operation: str, path: str, error: int, *, times: int | None = 1, after: int = 0
    ) -> None:
        """Let operations on paths with `path` in them fail with errno `error`.

        Operations: write, read, read_cached, sync, allocate, truncate, create, replace, rename,
        remove, make_directory, sync_directory. The first `after` of them are spared, then `times`
        fail (None: all, until `heal`). An error of a write leaves a part of it written.
        """
        self.faults.append(Fault(operation, path, error, times, after))

    def fill(self, free_bytes: int = 0) -> None:
        """Leave room for so many bytes more, until `heal`."""
        self.capacity = self.used + free_bytes

    def heal(self, *, capacity: int | None = None) -> None:
        """No faults from now on; what they have done stays done."""
        self.faults.clear()
        self.capacity = UNLIMITED if capacity is None else capacity
        self.is_cold = self.is_lying = False
        self.sync_delay_ms = 0.0

    def flip_bit(self, path: str, position: int, bit: int = 0) -> None:
        """Flip bit 0 to 7 of a byte, on the disk and in the cache."""
        inode = self.names[path]
        for content in (inode.data, inode.durable):
            if position < len(content):
                content[position] ^= 1 << bit

    def cut_after(self, operations: int, on_cut: Callable[[], None]) -> None:
        """Let the process end after so many more operations, from 0, wherever it is by then.

        `on_cut` is called there and then, and has to see to it that nothing of the process is run
        any more once the callback that runs now has returned. What that does to the disk until
        then is forgotten by the `kill` or `power_loss` that must follow.
        """
        self._cut_after, self._on_cut = operations, on_cut

    def kill(self) -> None:
        """The process is gone; the page cache stays."""
        self._thaw()

    def power_loss(self, rng: Random | None = None) -> None:
        """Lose what was not synced, or parts of it; drawn from `rng`, or from the disk's own."""
        self._thaw()
        chance = rng or self.rng
        self.names = self._names_after_power_loss(chance)
        self.durable_names = dict(self.names)
        self.pending_names.clear()
        for path, inode in self.names.items():
            inode.lose_power(chance)
            inode.path = path
        self.used = sum(len(inode.data) for inode in self.names.values())

    def check(self, operation: str, path: str) -> None:
        """Count one operation, and raise what it is to fail with."""
        if self._cut_after >= 0:
            self._count_down()
        if self.on_operation is not None:
            self.on_operation(operation, path)
        if self.faults:
            for fault in self.faults:
                if fault.operation == operation and fault.path in path and fault.strikes():
                    if fault.times == 0:
                        self.faults.remove(fault)
                    raise OSError(fault.error, "injected", path)

    # --- inside --------------------------------------------------------------------------------

    def take(self, size: int) -> None:
        """Use `size` more bytes. Raises OSError when they are not there."""
        if self.used + size > self.capacity:
            raise OSError(errno.ENOSPC, "full")
        self.used += size

    def _below(self, path: str) -> Sequence[str]:
        return [name for name in self.known_directories if name and _parent(name) == path]

    def _change(self, *changes: tuple[str, Inode | None]) -> None:
        for path, inode in changes:
            before = self.names.pop(path, None)
            if before is not None and before is not inode:
                before.is_linked = False
                self.used -= len(before.data)
            if inode is not None:
                if not inode.is_linked:
                    inode.is_linked = True
                    self.used += len(inode.data)
                self.names[path] = inode
                inode.path = path
        self.pending_names.append(changes)

    def _unlink(self, path: str) -> None:
        if path in self.names:
            self._change((path, None))

    def _rename(self, source: str, target: str) -> None:
        if source not in self.names or _parent(target) not in self.known_directories:
            raise FileNotFoundError(errno.ENOENT, "no such file", source)
        self._change((source, None), (target, self.names[source]))

    def _settle_names(self, directory: str) -> None:
        """Make the changes of a directory durable, and what belongs together with them."""
        directories = {directory: None}
        settled: list[NameChange] = []
        left: list[NameChange] = []
        for change in reversed(self.pending_names):
            touched = dict.fromkeys(_parent(path) for path, _ in change)
            if touched.keys() & directories.keys():
                directories.update(touched)
                settled.append(change)
            else:
                left.append(change)
        for change in reversed(settled):
            _rename_in(self.durable_names, change)
        self.pending_names = left[::-1]

    def _names_after_power_loss(self, rng: Random) -> dict[str, Inode]:
        for path, is_durable in list(self.known_directories.items()):
            if not is_durable and rng.random() < 0.5:
                self._forget_directory(path)
            elif path in self.known_directories:
                self.known_directories[path] = True
        names = dict(self.durable_names)
        is_journal, loss = rng.random() < 0.5, rng.choice((0.0, 0.2, 0.5, 1.0))
        cut: dict[str, None] = {}
        for change in self.pending_names:
            touched = [("" if is_journal else _parent(path)) for path, _ in change]
            if rng.random() < loss or any(one in cut for one in touched):
                cut.update(dict.fromkeys(touched))
            else:
                _rename_in(names, change)
        return {path: one for path, one in names.items() if _parent(path) in self.known_directories}

    def _forget_directory(self, path: str) -> None:
        for name in [one for one in self.known_directories if f"{one}/".startswith(f"{path}/")]:
            del self.known_directories[name]

    def _count_down(self) -> None:
        self._cut_after -= 1
        if self._cut_after < 0 and self._on_cut is not None:
            self._frozen = _Frozen(self)
            on_cut, self._on_cut = self._on_cut, None
            on_cut()

    def _thaw(self) -> None:
        self._cut_after, self._on_cut = -1, None
        if self._frozen is not None:
            frozen, self._frozen = self._frozen, None
            frozen.restore(self)


class _Frozen:
    """A disk as it was at one moment."""

    def __init__(self, disk: SimDisk) -> None:
        self._used = disk.used
        self._names = dict(disk.names)
        self._durable_names = dict(disk.durable_names)
        self._pending_names = list(disk.pending_names)
        self._directories = dict(disk.known_directories)
        changed = [one for change in self._pending_names for _, one in change if one is not None]
        known = dict.fromkeys((*self._names.values(), *self._durable_names.values(), *changed))
        self._inodes = [
            (one, one.path, bytes(one.data), bytes(one.durable), list(one.pending), one.is_linked)
            for one in known
        ]

    def restore(self, disk: SimDisk) -> None:
        """Put everything back."""
        disk.used, disk.names = self._used, self._names
        disk.durable_names, disk.pending_names = self._durable_names, self._pending_names
        disk.known_directories = self._directories
        for inode, path, data, durable, pending, is_linked in self._inodes:
            inode.path, inode.is_linked, inode.pending = path, is_linked, pending
            inode.data, inode.durable = bytearray(data), bytearray(durable)


def _parent(path: str) -> str:
    return path.rpartition("/")[0]


def _rename_in(names: dict[str, Inode], change: NameChange) -> None:
    for path, inode in change:
        if inode is None:
            names.pop(path, None)
        else:
            names[path] = inode
