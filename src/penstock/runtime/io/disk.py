"""The real disk: files of one data directory, and the threads that block on them.

    write        pwritev into the page cache, short writes continued
    read_cached  preadv2(RWF_NOWAIT): the page cache has all of it, or None; gather_cached for many
    read         pread, blocks
    sync         fdatasync
    replace      temporary file, fsync, rename, fsync of the directory

A file system that refuses RWF_NOWAIT (tmpfs and some network file systems) is remembered for the
directory. Then what this process wrote or read lately in a file is assumed to be in memory: the
last 32 MiB before the highest written position. Older bytes are read through the Offload.

Buffers for cached reads come from a small pool and are reused when no view on them is left: a fresh
buffer is zeroed first, which costs half as much as the read itself. The first free one is used, so
that its memory is likely in the processor's cache. Small reads share one buffer.

`ThreadOffload` is a small pool for one disk: plain threads and a queue for each lane; results are
handed to the loop with one wake-up at a time.
"""

import asyncio
import contextlib
import errno
import itertools
import os
import queue
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TypeVar

from penstock.base.ports import Buffer, DiskFile, Lane
from penstock.broker.api_stats import Histogram
from penstock.net.workers_turn import WORKERS_TURN
from penstock.runtime.io.compiled import read_places

T = TypeVar("T")

NOWAIT_REFUSED = (95, 22)
"""EOPNOTSUPP and EINVAL: the file system or the kernel does not support RWF_NOWAIT."""
RECENT_BYTES = 32 << 20
BUFFERS_MAX = 1024
"""IOV_MAX: most buffers of one pwritev."""

POOLED_BYTES = (1 << 20) + (64 << 10)
"""1 MiB of batches, the default of a consumer for a partition, with their frame headers."""
POOLED_FROM_BYTES = 4 << 10
POOL_BUFFERS = 32


class ReadBuffers:
    """A few large buffers, allocated from front to back. Used on one thread only."""

    def __init__(self) -> None:
        self._pool: list[bytearray] = []
        self._open = memoryview(b"")
        """The rest of the buffer that is being allocated from."""

    def take(self, length: int) -> memoryview:
        """Return `length` writable bytes that no other view covers."""
        if not POOLED_FROM_BYTES <= length <= POOLED_BYTES:
            return memoryview(bytearray(length))
        if length > len(self._open):
            self._open = memoryview(b"")  # drop the view, which would keep a free buffer in use
            buffer = self._free_buffer()
            if buffer is None:
                return memoryview(bytearray(length))
            self._open = buffer
        taken = self._open[:length]
        self._open = self._open[length:]
        return taken

    def shrink(self) -> None:
        """Release all buffers; memory of those in use is freed with the last view on it."""
        self._pool = []
        self._open = memoryview(b"")

    def _free_buffer(self) -> memoryview | None:
        """Return a whole buffer without any view on it; None if all are in use and none may be
        added.

        They are in use when many answers wait for slow clients. Memory is short then, and a small
        answer must not keep a large buffer alive of which the rest was sent long ago.
        """
        for buffer in self._pool:
            try:
                buffer.pop()  # raises while a view exists, without changing the buffer
            except BufferError:
                continue
            buffer.append(0)
            return memoryview(buffer)
        if len(self._pool) == POOL_BUFFERS:
            return None
        self._pool.append(bytearray(POOLED_BYTES))
        return memoryview(self._pool[-1])


class DiskStats:
    """Counters of one data directory's files; updated on the disk's threads."""

    def __init__(self) -> None:
        self.sync_times = Histogram()
        self.failed_syncs = 0
        self._lock = threading.Lock()

    def note_sync(self, microseconds: int) -> None:
        """Count one successful sync."""
        with self._lock:
            self.sync_times.observe(microseconds)


class FileHandle:
    """An open file of a FileDisk; see base.ports.DiskFile."""

    __slots__ = ("_descriptor", "_disk", "_recent_end")

    def __init__(self, disk: "FileDisk", descriptor: int) -> None:
        self._disk = disk
        self._descriptor = descriptor
        self._recent_end = 0

    def write(self, position: int, buffers: Sequence[Buffer]) -> int:
        total = sum(map(len, buffers))
        written = 0
        if len(buffers) <= BUFFERS_MAX:
            written = os.pwritev(self._descriptor, buffers, position)
        while written < total:
            rest = _skip(buffers, written)
            written += os.pwritev(self._descriptor, rest[:BUFFERS_MAX], position + written)
        if position + total > self._recent_end:  # noqa: PLR1730  on the write path
            self._recent_end = position + total
        return total

    def read_cached(self, position: int, length: int) -> memoryview | None:
        disk = self._disk
        if not disk.has_nowait:
            return self._read_recent(position, length)
        view = disk.buffers.take(length)
        try:
            got = os.preadv(self._descriptor, [view], position, os.RWF_NOWAIT)
        except BlockingIOError:
            return None
        except OSError as error:
            if error.errno not in NOWAIT_REFUSED:
                raise
            disk.has_nowait = False
            return self._read_recent(position, length)
        if got == length:
            return view
        end = self.size()
        return view[:got] if position + got >= end else None

    def gather_cached(self, places: list[tuple[int, int]]) -> list[memoryview]:
        found: list[memoryview] = []
        disk = self._disk
        while len(found) < len(places):
            more: list[memoryview] = []
            if disk.has_nowait and len(places) > 1:
                take = disk.buffers.take
                more = read_places(self._descriptor, places, len(found), take, POOLED_BYTES)
            if not more:  # a single place, or an unusual result: read_cached handles it
                data = self.read_cached(*places[len(found)])
                if data is None:
                    break
                more = [data]
            found += more
        return found

    def _read_recent(self, position: int, length: int) -> memoryview | None:
        if position < self._recent_end - RECENT_BYTES or self._recent_end == 0:
            return None
        return self.read(position, length)

    def read(self, position: int, length: int) -> memoryview:
        data = os.pread(self._descriptor, length, position)
        if len(data) == length:
            return memoryview(data)
        pieces = [data]
        got = len(data)
        while pieces[-1] and got < length:
            pieces.append(os.pread(self._descriptor, length - got, position + got))
            got += len(pieces[-1])
        return memoryview(b"".join(pieces))

    def sync(self) -> None:
        started_ns = time.monotonic_ns()
        try:
            os.fdatasync(self._descriptor)
        except OSError:
            self._disk.stats.failed_syncs += 1
            raise
        self._disk.stats.note_sync((time.monotonic_ns() - started_ns) // 1000)

    def allocate(self, size: int) -> None:
        try:
            os.posix_fallocate(self._descriptor, 0, size)
        except OSError as error:
            if error.errno not in NOWAIT_REFUSED:
                raise
            os.ftruncate(self._descriptor, max(size, self.size()))

    def truncate(self, size: int) -> None:
        os.ftruncate(self._descriptor, size)
        self._recent_end = min(self._recent_end, size)

    def data_ranges(self, position: int) -> list[tuple[int, int]]:
        ranges = []
        end = self.size()
        while position < end:
            try:
                start = os.lseek(self._descriptor, position, os.SEEK_DATA)
                position = os.lseek(self._descriptor, start, os.SEEK_HOLE)
            except OSError as error:
                if error.errno == errno.ENXIO:
                    break
                return [(position, end)]  # the file system cannot report holes
            ranges.append((start, position))
        return ranges

    def size(self) -> int:
        return os.fstat(self._descriptor).st_size

    def close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


def _skip(buffers: Sequence[Buffer], count: int) -> list[Buffer]:
    """Return the rest of `buffers` after the first `count` bytes."""
    rest: list[Buffer] = []
    for buffer in buffers:
        if count >= len(buffer):
            count -= len(buffer)
        else:
            rest.append(memoryview(buffer)[count:])
            count = 0
    return rest


class FileDisk:
    """One data directory; see base.ports.Disk."""

    def __init__(self, root: Path) -> None:
        """Use `root`, which must exist."""
        self._root = root
        self.buffers = ReadBuffers()
        self.stats = DiskStats()
        self.has_nowait = hasattr(os, "RWF_NOWAIT")
        self._temporary = itertools.count()

    def open(self, path: str, *, create: bool = False) -> DiskFile:
        return FileHandle(self, self._open(path, create=create))

    def _open(self, path: str, *, create: bool) -> int:
        flags = os.O_RDWR | os.O_CLOEXEC | (os.O_CREAT if create else 0)
        return os.open(self._root / path, flags, 0o640)

    def list(self, path: str) -> list[str]:
        try:
            return sorted(os.listdir(self._root / path))  # noqa: PTH208  names are wanted
        except (FileNotFoundError, NotADirectoryError):
            return []

    def directories(self, path: str) -> Sequence[str]:
        try:
            with os.scandir(self._root / path) as entries:
                return sorted(entry.name for entry in entries if entry.is_dir())
        except (FileNotFoundError, NotADirectoryError):
            return []

    def make_directory(self, path: str) -> None:
        made = self._root
        for part in path.split("/"):
            parent, made = made, made / part
            if not made.is_dir():
                made.mkdir(mode=0o750)
                _sync_directory(parent)

    def replace(self, path: str, data: Buffer) -> None:
        target = self._root / path
        unfinished = target.with_name(f"{target.name}.{next(self._temporary)}.tmp")
        descriptor = os.open(unfinished, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o640)
        try:
            try:
                _write_all(descriptor, memoryview(data))
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
            unfinished.replace(target)
        except OSError:
            unfinished.unlink(missing_ok=True)
            raise
        _sync_directory(target.parent)

    def rename(self, source: str, target: str) -> None:
        (self._root / source).replace(self._root / target)
        _sync_directory((self._root / target).parent)
        if (self._root / source).parent != (self._root / target).parent:
            _sync_directory((self._root / source).parent)

    def remove(self, path: str) -> None:
        (self._root / path).unlink(missing_ok=True)

    def sync_directory(self, path: str) -> None:
        _sync_directory(self._root / path)

    def relieve(self) -> None:
        """Release memory that is kept for later reads."""
        self.buffers.shrink()

    def free_bytes(self) -> int:
        found = os.statvfs(self._root)
        return found.f_bavail * found.f_frsize

    def total_bytes(self) -> int:
        found = os.statvfs(self._root)
        return found.f_blocks * found.f_frsize


def _write_all(descriptor: int, data: memoryview) -> None:
    at = 0
    while at < len(data):
        at += os.write(descriptor, data[at:])


def _sync_directory(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


class ThreadOffload:
    """Worker threads of one disk; see base.ports.Offload. Close it before the event loop."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        *,
        name: str,
        threads: int = 4,
        lanes: Iterable[Lane] = Lane,
    ) -> None:
        """`threads` of each lane; work is submitted to these lanes only."""
        self._loop = loop
        self._work: dict[Lane, queue.SimpleQueue[Callable[[], None] | None]] = {
            lane: queue.SimpleQueue() for lane in lanes
        }
        self._is_at_work = [False] * threads * len(self._work)
        self._threads = [
            threading.Thread(
                target=self._run,
                name=f"{name}-{lane.value}-{number}",
                args=(work, at * threads + number),
                daemon=True,
            )
            for at, (lane, work) in enumerate(self._work.items())
            for number in range(threads)
        ]
        WORKERS_TURN.watched.append(self.is_busy)
        for thread in self._threads:
            thread.start()

    def submit(
        self,
        work: Callable[[], T],
        done: Callable[[T | None, BaseException | None], None],
        lane: Lane = Lane.WORK,
    ) -> None:
        def job() -> None:
            result: T | None = None
            failure: BaseException | None = None
            try:
                result = work()
            except BaseException as error:  # noqa: BLE001  handed to the loop, nothing is lost
                failure = error
            # Fails if the loop is closed already; then there is no receiver for the result.
            with contextlib.suppress(RuntimeError):
                self._loop.call_soon_threadsafe(done, result, failure)

        self._work[lane].put(job)

    def is_busy(self) -> bool:
        """Whether a thread is working or has queued work."""
        return any(self._is_at_work) or not all(work.empty() for work in self._work.values())

    def _run(self, work: queue.SimpleQueue[Callable[[], None] | None], number: int) -> None:
        while (job := work.get()) is not None:
            self._is_at_work[number] = True
            job()
            del job
            self._is_at_work[number] = False

    def close(self) -> None:
        """Finish all queued work and end the threads. Blocks."""
        if self.is_busy in WORKERS_TURN.watched:  # else it is closed already
            WORKERS_TURN.watched.remove(self.is_busy)
        for work in self._work.values():
            for _ in range(len(self._threads) // len(self._work)):
                work.put(None)
        for thread in self._threads:
            thread.join()
