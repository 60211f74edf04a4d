"""A disk whose reads and writes are counted, and that writes what jobs write and nothing else.

    job ─► MeteredDisk ─► meter(bytes), which may wait ─► the disk

A job shares its data directory with a node that is running. It makes unfinished files of names of
its own; `replace` is refused, which would put a file at a name that counts.

Source: docs/adr/0104.
"""

import errno
from collections.abc import Callable, Sequence

from penstock.base.ports import Buffer, Disk, DiskFile

Meter = Callable[[int], None]
"""Is called with the bytes of a read or write that is done; may wait."""


class MeteredFile:
    """Implements DiskFile over the file of another disk."""

    def __init__(self, file: DiskFile, meter: Meter) -> None:
        self._file = file
        self._meter = meter
        self.read_cached = file.read_cached
        self.gather_cached = file.gather_cached
        self.sync = file.sync
        self.allocate = file.allocate
        self.truncate = file.truncate
        self.data_ranges = file.data_ranges
        self.size = file.size
        self.close = file.close

    def write(self, position: int, buffers: Sequence[Buffer]) -> int:
        written = self._file.write(position, buffers)
        self._meter(written)
        return written

    def read(self, position: int, length: int) -> memoryview:
        data = self._file.read(position, length)
        self._meter(len(data))
        return data


class MeteredDisk:
    """Implements Disk for jobs over another disk."""

    def __init__(self, disk: Disk, meter: Meter) -> None:
        self._disk = disk
        self._meter = meter
        self.list = disk.list
        self.directories = disk.directories
        self.remove = disk.remove
        self.free_bytes = disk.free_bytes
        self.total_bytes = disk.total_bytes

    def open(self, path: str, *, create: bool = False) -> DiskFile:
        return MeteredFile(self._disk.open(path, create=create), self._meter)

    def replace(self, path: str, data: Buffer) -> None:
        raise OSError(errno.EROFS, f"{path} is not a job's to write ({len(data)} bytes)")

    def rename(self, source: str, target: str) -> None:
        raise OSError(errno.EROFS, f"{source} is not a job's to rename to {target}")

    def make_directory(self, path: str) -> None:
        raise OSError(errno.EROFS, f"{path} is not a job's to make")

    def sync_directory(self, path: str) -> None:
        raise OSError(errno.EROFS, f"{path} is not a job's to sync")
