"""A disk in memory that forgets what was not synced, tears writes, fills up and fails on demand.

Each file has its content (the page cache) and what is durable of it; writes since the last sync
are kept as a list. `power_loss` keeps, of every write that was not synced, each 512-byte sector
or not, and of every change of a name the oldest ones or not. `kill` keeps everything.
"""

import errno
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from random import Random

from penstock.base.ports import Buffer, DiskFile

SECTOR = 512


@dataclass
class Node:
    """One file: content now, content that is durable, and the operations between them."""

    data: bytearray = field(default_factory=bytearray)
    durable: bytearray = field(default_factory=bytearray)
    pending: list[tuple[str, int, bytes]] = field(default_factory=list)
    is_cold: bool = False
    path: str = ""


BLOCK = 4096


class FaultyFile:
    """An open file of a FaultyDisk."""

    def __init__(self, disk: "FaultyDisk", node: Node) -> None:
        self._disk = disk
        self.node = node
        self.is_open = True

    def write(self, position: int, buffers: Sequence[Buffer]) -> int:
        data = b"".join(buffers)
        assert self.is_open
        self._disk.check("write", self.node.path)
        node = self.node
        growth = position + len(data) - len(node.data)
        if growth > 0:
            self._disk.take(growth)
            node.data.extend(bytes(growth))
        node.data[position : position + len(data)] = data
        node.pending.append(("write", position, data))
        return len(data)

    def read_cached(self, position: int, length: int) -> memoryview | None:
        assert self.is_open
        if self.node.is_cold or self._disk.is_cold:
            return None
        self._disk.check("read_cached", self.node.path)
        return memoryview(bytes(self.node.data[position : position + length]))

    def read(self, position: int, length: int) -> memoryview:
        assert self.is_open
        self._disk.check("read", self.node.path)
        return memoryview(bytes(self.node.data[position : position + length]))

    def sync(self) -> None:
        assert self.is_open
        self._disk.check("sync", self.node.path)
        self.node.durable = bytearray(self.node.data)
        self.node.pending.clear()

    def allocate(self, size: int) -> None:
        self._disk.check("allocate", self.node.path)
        growth = size - len(self.node.data)
        if growth > 0:
            self._disk.take(growth)
            self.node.data.extend(bytes(growth))
            self.node.pending.append(("size", size, b""))

    def truncate(self, size: int) -> None:
        self._disk.check("truncate", self.node.path)
        change = size - len(self.node.data)
        if change > 0:
            self.node.data.extend(bytes(change))
        else:
            del self.node.data[size:]
        self._disk.used += change
        self.node.pending.append(("size", size, b""))

    def data_ranges(self, position: int) -> list[tuple[int, int]]:
        blocks = range(position // BLOCK * BLOCK, len(self.node.data), BLOCK)
        return [
            (max(at, position), min(at + BLOCK, len(self.node.data)))
            for at in blocks
            if any(self.node.data[max(at, position) : at + BLOCK])
        ]

    def size(self) -> int:
        return len(self.node.data)

    def close(self) -> None:
        self.is_open = False


class FaultyDisk:
    """See the module. `capacity` is what the file system holds, in bytes."""

    def __init__(self, capacity: int = 1 << 40) -> None:
        self.names: dict[str, Node] = {}
        self.durable_names: dict[str, Node] = {}
        self.pending_names: list[tuple[str, Node | None]] = []
        self.directories: set[str] = set()
        self.capacity = capacity
        self.used = 0
        self.is_cold = False
        self.faults: list[tuple[str, str, int]] = []
        self.on_operation: Callable[[str, str], None] | None = None

    def fail(self, operation: str, path_part: str, number: int) -> None:
        """Let the next `operation` on a path with `path_part` in it fail with errno `number`."""
        self.faults.append((operation, path_part, number))

    def check(self, operation: str, path: str) -> None:
        if self.on_operation is not None:
            self.on_operation(operation, path)
        for fault in self.faults:
            if fault[0] == operation and fault[1] in path:
                self.faults.remove(fault)
                raise OSError(fault[2], "injected")

    def take(self, size: int) -> None:
        if self.used + size > self.capacity:
            raise OSError(errno.ENOSPC, "full")
        self.used += size

    def open(self, path: str, *, create: bool = False) -> DiskFile:
        node = self.names.get(path)
        if node is None:
            if not create:
                raise FileNotFoundError(errno.ENOENT, "no such file", path)
            self.check("create", path)
            node = Node()
            self._name(path, node)
        return FaultyFile(self, node)

    def _name(self, path: str, node: Node | None) -> None:
        old = self.names.pop(path, None)
        if old is not None:
            self.used -= len(old.data)
        if node is not None:
            self.names[path] = node
            node.path = path
        self.pending_names.append((path, node))

    def list(self, path: str) -> list[str]:
        start = path + "/"
        return sorted(
            name[len(start) :]
            for name in self.names
            if name.startswith(start) and "/" not in name[len(start) :]
        )

    def make_directory(self, path: str) -> None:
        self.directories.add(path)

    def replace(self, path: str, data: Buffer) -> None:
        self.check("replace", path)
        content = bytearray(data)
        self.take(len(content))
        node = Node(content, bytearray(content))
        self._name(path, node)
        self._commit()

    def rename(self, source: str, target: str) -> None:
        self.check("rename", source)
        if source not in self.names:
            raise FileNotFoundError(errno.ENOENT, "no such file", source)
        node = self.names[source]
        self._name(target, node)
        self._name(source, None)
        self.used += len(node.data)
        self._commit()

    def remove(self, path: str) -> None:
        self.check("remove", path)
        if path in self.names:
            self._name(path, None)

    def sync_directory(self, path: str) -> None:
        self.check("sync_directory", path)
        self._commit()

    def _commit(self) -> None:
        self.durable_names = dict(self.names)
        self.pending_names.clear()

    def free_bytes(self) -> int:
        return self.capacity - self.used

    def kill(self) -> None:
        """The process is gone; the page cache stays."""
        self.faults.clear()

    def power_loss(self, random: Random) -> None:
        """Lose what was not synced, sector by sector, and names that were not synced."""
        kept = random.randint(0, len(self.pending_names))
        names = dict(self.durable_names)
        for path, node in self.pending_names[:kept]:
            if node is None:
                names.pop(path, None)
            else:
                names[path] = node
        for node in names.values():
            _lose(node, random)
        self.names = names
        self._commit()
        self.used = sum(len(node.data) for node in names.values())
        self.faults.clear()


def _lose(node: Node, random: Random) -> None:
    sizes = [index for index, operation in enumerate(node.pending) if operation[0] == "size"]
    kept_sizes = set(sizes[: random.randint(0, len(sizes))])
    keep = random.choice((0.0, 0.5, 0.9, 1.0))
    content = node.durable
    for index, (kind, position, data) in enumerate(node.pending):
        if kind == "size":
            if index in kept_sizes:
                grown = position - len(content)
                content = content[:position] + bytearray(max(grown, 0))
            continue
        _write_sectors(content, position, data, lambda: random.random() < keep)
    node.data = bytearray(content)
    node.durable = bytearray(content)
    node.pending.clear()


def _write_sectors(
    content: bytearray, position: int, data: bytes, is_kept: Callable[[], bool]
) -> None:
    at = position
    end = position + len(data)
    while at < end:
        stop = min(end, (at // SECTOR + 1) * SECTOR)
        if is_kept():
            if len(content) < stop:
                content.extend(bytes(stop - len(content)))
            content[at:stop] = data[at - position : stop - position]
        at = stop
