"""Puts files out of the page cache.

A file that a running process has mapped stays, so this is done while its server is down.
"""

import contextlib
import os
from collections.abc import Iterable
from pathlib import Path


def forget(directories: Iterable[Path]) -> None:
    """Write every file below to the disk and drop its pages.

    A server that is running may delete some meanwhile, Kafka does so a while after a topic.
    """
    for directory in directories:
        for place, _, names in os.walk(directory):
            for name in names:
                with contextlib.suppress(FileNotFoundError):
                    _forget_file(Path(place, name))


def _forget_file(file: Path) -> None:
    descriptor = os.open(file, os.O_RDONLY)
    try:
        os.fsync(descriptor)
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
    finally:
        os.close(descriptor)
