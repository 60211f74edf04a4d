"""A disk in memory that forgets what was not synced, and a loop that runs in one thread.

Source: the ports of base. Directory operations are durable at once, as `rename` and `replace`
promise; file contents are durable up to the last `sync`.
"""

import errno
from collections import deque
from collections.abc import Callable, Sequence
from typing import TypeVar

from penstock.base.ports import Buffer, Cancellable, Lane

T = TypeVar("T")


class CrashFile:
    def __init__(self, disk: "CrashDisk") -> None:
        self._disk = disk
        self.data = bytearray()
        self.durable = b""

    def write(self, position: int, buffers: Sequence[Buffer]) -> int:
        whole = b"".join(bytes(buffer) for buffer in buffers)
        room = max(0, self._disk.room - position)
        part = whole[:room]
        self.data[position : position + len(part)] = part
        if len(part) < len(whole):
            raise OSError(errno.ENOSPC, "No space left on device")
        if self._disk.fail_write:
            raise OSError(errno.EIO, "Input/output error")
        return len(whole)

    def read_cached(self, position: int, length: int) -> memoryview | None:
        return self.read(position, length)

    def gather_cached(self, places: list[tuple[int, int]]) -> list[memoryview]:
        return [self.read(position, length) for position, length in places]

    def read(self, position: int, length: int) -> memoryview:
        return memoryview(bytes(self.data[position : position + length]))

    def sync(self) -> None:
        if self._disk.fail_sync:
            raise OSError(errno.EIO, "Input/output error")
        self._disk.syncs += 1
        self.durable = bytes(self.data)

    def allocate(self, size: int) -> None:
        self.data.extend(bytes(size - len(self.data)))

    def truncate(self, size: int) -> None:
        del self.data[size:]

    def data_ranges(self, position: int) -> list[tuple[int, int]]:
        return [(position, len(self.data))] if position < len(self.data) else []

    def size(self) -> int:
        return len(self.data)

    def close(self) -> None:
        """Nothing to let go of."""


class CrashDisk:
    def __init__(self) -> None:
        self.files: dict[str, CrashFile] = {}
        self.room = 1 << 40
        self.fail_write = False
        self.fail_sync = False
        self.fail_rename = False
        self.syncs = 0

    def crash(self) -> None:
        for file in self.files.values():
            file.data = bytearray(file.durable)

    def open(self, path: str, *, create: bool = False) -> CrashFile:
        if path not in self.files:
            if not create:
                raise FileNotFoundError(path)
            self.files[path] = CrashFile(self)
        return self.files[path]

    def list(self, path: str) -> list[str]:
        start = f"{path}/"
        return sorted(name[len(start) :] for name in self.files if name.startswith(start))

    def directories(self, path: str) -> Sequence[str]:
        start = f"{path}/" if path else ""
        inside = (name[len(start) :] for name in self.files if name.startswith(start))
        return sorted({name.partition("/")[0] for name in inside if "/" in name})

    def make_directory(self, path: str) -> None:
        """Directories need no making."""

    def replace(self, path: str, data: Buffer) -> None:
        file = self.open(f"{path}.tmp", create=True)
        file.write(0, [data])
        file.sync()
        self.rename(f"{path}.tmp", path)

    def rename(self, source: str, target: str) -> None:
        if self.fail_rename:
            raise OSError(errno.EIO, "Input/output error")
        self.files[target] = self.files.pop(source)

    def remove(self, path: str) -> None:
        self.files.pop(path, None)

    def sync_directory(self, path: str) -> None:
        """Always durable."""

    def free_bytes(self) -> int:
        return self.room

    def total_bytes(self) -> int:
        return self.room


class _Call:
    def __init__(self, callback: Callable[[], None]) -> None:
        self.callback: Callable[[], None] | None = callback

    def cancel(self) -> None:
        self.callback = None


class StepLoop:
    """Scheduler and Offload in one: `run` empties the queue, in order."""

    def __init__(self) -> None:
        self._calls: deque[_Call] = deque()

    def call_soon(self, callback: Callable[[], None]) -> Cancellable:
        call = _Call(callback)
        self._calls.append(call)
        return call

    def call_later(self, delay_ms: int, callback: Callable[[], None]) -> Cancellable:
        return self.call_soon(callback)

    def submit(
        self,
        work: Callable[[], T],
        done: Callable[[T | None, BaseException | None], None],
        lane: Lane = Lane.WORK,
    ) -> None:
        del lane  # one thing after the other

        def run() -> None:
            try:
                result = work()
            except Exception as error:  # noqa: BLE001  handed on, as a worker does
                failure = error
                self.call_soon(lambda: done(None, failure))
            else:
                self.call_soon(lambda: done(result, None))

        self.call_soon(run)

    def run(self) -> None:
        for _ in range(1_000_000):
            if not self._calls:
                return
            callback = self._calls.popleft().callback
            if callback is not None:
                callback()
        raise AssertionError("the loop does not come to rest")

    def forget(self) -> None:
        self._calls.clear()
