"""A disk that leaves the page cache about as it found it, for work that reads and writes much once.

    read      a file that was mostly cached when it was opened: somebody reads it, and it stays
              any other: dropped from the cache when the work is done (`let_go`)
    write     synced every SYNC_BYTES, and dropped from the cache behind it

The housekeeper goes through gigabytes that nobody else will read soon. Without this they would push
out of memory what consumers read, and its own sync at the end would write all of it at once, while
producers wait for theirs. Files are read batch by batch, a partition at a time, so a page is needed
several times: what was read is dropped at the end, and not after each read.

The advice is a hint: a file system that ignores it does nothing, and that costs memory alone.

Source: posix_fadvise(2), POSIX_FADV_DONTNEED; mincore(2). ADR 0104.
"""

import ctypes
import mmap
import os
from collections.abc import Sequence
from pathlib import Path

from penstock.base.ports import Buffer, DiskFile
from penstock.runtime.io.disk import FileDisk, FileHandle

SYNC_BYTES = 16 << 20
WINDOW_BYTES = 64 << 20
"""Mapped at a time to see what is cached; a mapping counts as memory of the process."""
_LIBC = ctypes.CDLL(None, use_errno=True)


class PassingHandle(FileHandle):
    """See the module and base.ports.DiskFile."""

    __slots__ = ("_synced_end",)

    def __init__(self, disk: FileDisk, descriptor: int) -> None:
        super().__init__(disk, descriptor)
        self._synced_end = 0

    def write(self, position: int, buffers: Sequence[Buffer]) -> int:
        """Write, and now and then wait until it is on the disk."""
        written = super().write(position, buffers)
        if position + written - self._synced_end >= SYNC_BYTES:
            self.sync()
            self._synced_end = position + written
        return written

    def sync(self) -> None:
        """Sync, and drop what is clean now from the page cache."""
        super().sync()
        drop(self._descriptor)

    def is_cached(self) -> bool:
        """Whether most of the file is in the page cache."""
        size = self.size()
        return cached_pages(self._descriptor, size) * 2 * mmap.PAGESIZE > size


class PassingDisk(FileDisk):
    """A data directory whose files leave the page cache about as it was."""

    def __init__(self, root: Path) -> None:
        """Use `root`, which must exist."""
        super().__init__(root)
        self._is_kept: dict[str, bool] = {}
        """By the paths of files that were opened: whether they were cached then."""

    def open(self, path: str, *, create: bool = False) -> DiskFile:
        """See base.ports.Disk."""
        file = PassingHandle(self, self._open(path, create=create))
        if not create and path not in self._is_kept:
            self._is_kept[path] = file.is_cached()
        return file

    def let_go(self) -> None:
        """Drop what was read since the last call from the page cache, unless it was there."""
        looked_at, self._is_kept = self._is_kept, {}
        for path, is_kept in looked_at.items():
            if not is_kept:
                self._drop(path)

    def _drop(self, path: str) -> None:
        try:
            descriptor = self._open(path, create=False)
        except FileNotFoundError:  # the node has deleted it meanwhile
            return
        try:
            drop(descriptor)
        finally:
            os.close(descriptor)


def cached_pages(descriptor: int, size: int) -> int:
    """Return how many pages of a file are in the page cache; 0 where the system does not tell.

    Reading with RWF_NOWAIT would tell as well, and begin to read what is not there.
    """
    windows = range(0, size, WINDOW_BYTES)
    return sum(_cached_pages(descriptor, at, min(WINDOW_BYTES, size - at)) for at in windows)


def _cached_pages(descriptor: int, position: int, length: int) -> int:
    with mmap.mmap(descriptor, length, flags=mmap.MAP_PRIVATE, offset=position) as mapped:
        found = (ctypes.c_ubyte * -(-length // mmap.PAGESIZE))()
        first = ctypes.c_char.from_buffer(mapped)
        address = ctypes.c_void_p(ctypes.addressof(first))
        failed = _LIBC.mincore(address, ctypes.c_size_t(length), found)
        del first  # a mapping that is referred to cannot be closed
    return 0 if failed else bytes(found).count(1)


def drop(descriptor: int) -> None:
    """Drop the clean pages of a file from the page cache."""
    os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
