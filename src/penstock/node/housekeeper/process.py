"""The housekeeper's process: jobs from stdin, answers to stdout, until stdin ends.

    python -m penstock.node.housekeeper.process BYTES_PER_SECOND PARENT_PID

A thread reads the pipe, so that a rate counts for the job that is under way.

Started by the node (runtime/housekeeper.py), and of no use by hand. It opens files of the data
directories that jobs name, without their lock: it reads closed files and writes unfinished ones.
"""

import os
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from queue import Queue

from penstock.base.ports import Disk
from penstock.base.token_bucket import TokenBucket
from penstock.housekeeper.messages import Job
from penstock.housekeeper.metered import MeteredDisk
from penstock.housekeeper.serving import receive, serve
from penstock.runtime.io.modesty import end_with_parent, stay_behind
from penstock.runtime.io.passing import PassingDisk

MODULE = "penstock.node.housekeeper.process"


def command(bytes_per_second: int) -> list[str]:
    """Return the command that runs a housekeeper of this process."""
    return [sys.executable, "-m", MODULE, str(bytes_per_second), str(os.getpid())]


class _Disks:
    """The disks of data directories, with one rate for all of them."""

    def __init__(self, bytes_per_second: int) -> None:
        self._bucket = TokenBucket(bytes_per_second, _now_us())
        self._turn = threading.Condition()
        """Notified when the rate has changed."""
        self._real: dict[str, PassingDisk] = {}
        self._metered: dict[str, Disk] = {}

    def of(self, root: str) -> Disk:
        found = self._metered.get(root)
        if found is None:
            real = self._real[root] = PassingDisk(Path(root))
            found = self._metered[root] = MeteredDisk(real, self._meter)
        return found

    def let_go(self) -> None:
        """Leave the page cache as it was before the last job."""
        for disk in self._real.values():
            disk.let_go()

    def set_rate(self, bytes_per_second: int) -> None:
        """Change the rate; whoever waits goes by it at once."""
        with self._turn:
            self._bucket.set_rate(bytes_per_second, _now_us())
            self._turn.notify_all()

    def _meter(self, count: int) -> None:
        with self._turn:
            wait_us = self._bucket.take(count, _now_us())
            while wait_us:
                self._turn.wait(wait_us / 1e6)
                wait_us = self._bucket.take(0, _now_us())


class _Ahead:
    """Jobs that a thread takes from the pipe while others are under way."""

    def __init__(self, jobs: Iterator[tuple[int, Job]]) -> None:
        self._jobs = jobs
        self._taken: Queue[tuple[int, Job] | BaseException | None] = Queue()
        threading.Thread(target=self._take, daemon=True).start()

    def _take(self) -> None:
        try:
            for job in self._jobs:
                self._taken.put(job)
        except BaseException as error:  # noqa: BLE001  it is raised where jobs are awaited
            self._taken.put(error)
        else:
            self._taken.put(None)

    def __iter__(self) -> Iterator[tuple[int, Job]]:
        """Yield jobs up to the end of the pipe. Raises what the thread raised."""
        while (job := self._taken.get()) is not None:
            if isinstance(job, BaseException):
                raise job
            yield job


def _read_stdin(count: int) -> bytes:
    """Read so many bytes; fewer at the end. A buffered stdin has a lock, which would be held."""
    parts: list[bytes] = []
    while count and (part := os.read(sys.stdin.fileno(), count)):
        parts.append(part)
        count -= len(part)
    return b"".join(parts)


def _now_us() -> int:
    return time.monotonic_ns() // 1000


def main() -> int:
    """Serve the node that started this process; return the exit code."""
    bytes_per_second, parent = (int(word) for word in sys.argv[1:])
    if not end_with_parent(parent):
        return 0
    stay_behind()
    with os.fdopen(os.dup(sys.stdout.fileno()), "wb") as answers:
        os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # what is printed is no answer

        disks = _Disks(bytes_per_second)

        def write(answer: bytes) -> None:
            disks.let_go()
            answers.write(answer)
            answers.flush()

        serve(_Ahead(receive(_read_stdin, disks.set_rate)), write, disks.of)
    return 0


if __name__ == "__main__":
    sys.exit(main())
