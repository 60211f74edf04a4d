"""An open file of a simulated disk."""

import errno
from collections.abc import Sequence

from penstock.base.ports import Buffer
from simulator.kernel.inode import Inode
from simulator.kernel.ports import FileDisk
from simulator.kernel.sectors import resized

_BLOCK = 4096
_ZEROS = bytes(_BLOCK)


class SimFile:
    """An open file of a SimDisk; see base.ports.DiskFile."""

    __slots__ = ("_disk", "_inode", "_is_open")

    def __init__(self, disk: FileDisk, inode: Inode) -> None:
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
        if growth > 0 and inode.is_linked and growth > disk.free_bytes():
            room = disk.free_bytes()
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
                self._disk.files.used += growth
            if position > len(content):
                content.extend(bytes(position - len(content)))
        content[position : position + len(data)] = data
        inode.note((position, data))

    def read_cached(self, position: int, length: int) -> memoryview | None:
        inode, disk = self._inode, self._disk
        if inode.is_cold or disk.is_cold:
            return None
        self._check("read_cached")
        return memoryview(inode.data[position : position + length])

    def gather_cached(self, places: list[tuple[int, int]]) -> list[memoryview]:
        found: list[memoryview] = []
        for position, length in places:
            data = self.read_cached(position, length)
            if data is None:
                break
            found.append(data)
        return found

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
        if not disk.lies_about(inode.path):
            inode.settle()

    def allocate(self, size: int) -> None:
        self._check("allocate")
        growth = size - len(self._inode.data)
        if growth > 0:
            if self._inode.is_linked:
                if growth > self._disk.free_bytes():
                    raise OSError(errno.ENOSPC, "full", self._inode.path)
                self._disk.files.used += growth
            self._resize(size)

    def truncate(self, size: int) -> None:
        self._check("truncate")
        if self._inode.is_linked:
            self._disk.files.used += size - len(self._inode.data)
        self._resize(size)

    def _resize(self, size: int) -> None:
        inode = self._inode
        inode.data = resized(inode.data, size)
        inode.note((size, None))

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
        self._disk.check(operation, self._inode.path)
        if not self._is_open:
            raise OSError(errno.EBADF, "closed", self._inode.path)
