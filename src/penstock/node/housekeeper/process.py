"""The housekeeper's process: jobs from stdin, answers to stdout, until stdin ends.

    python -m penstock.node.housekeeper.process BYTES_PER_SECOND PARENT_PID

Started by the node (runtime/housekeeper.py), and of no use by hand. It opens files of the data
directories that jobs name, without their lock: it reads closed files and writes unfinished ones.
"""

import os
import sys
import time
from pathlib import Path

from penstock.base.ports import Disk
from penstock.housekeeper.bucket import TokenBucket
from penstock.housekeeper.metered import MeteredDisk
from penstock.housekeeper.serving import serve
from penstock.runtime.io.disk import FileDisk
from penstock.runtime.io.modesty import end_with_parent, stay_behind

MODULE = "penstock.node.housekeeper.process"


def command(bytes_per_second: int) -> list[str]:
    """Return the command that runs a housekeeper of this process."""
    return [sys.executable, "-m", MODULE, str(bytes_per_second), str(os.getpid())]


class _Disks:
    """The disks of data directories, with one rate for all of them."""

    def __init__(self, bytes_per_second: int) -> None:
        self._bucket = TokenBucket(bytes_per_second, _now_us())
        self._disks: dict[str, Disk] = {}

    def of(self, root: str) -> Disk:
        found = self._disks.get(root)
        if found is None:
            found = self._disks[root] = MeteredDisk(FileDisk(Path(root)), self._meter)
        return found

    def _meter(self, count: int) -> None:
        wait_us = self._bucket.take(count, _now_us())
        if wait_us:
            time.sleep(wait_us / 1e6)


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

        def write(answer: bytes) -> None:
            answers.write(answer)
            answers.flush()

        serve(sys.stdin.buffer.read, write, _Disks(bytes_per_second).of)
    return 0


if __name__ == "__main__":
    sys.exit(main())
