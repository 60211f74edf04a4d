"""A run: whole frames of one commit log as they lie in its file, on their way to a replica.

    file      [epoch|batch|batch|batch|end]..gap  [epoch|batch|...
    runs       ^-----------^ ^--------------^      ^------------     never across a file or epoch

`position` says where the bytes belong, the file's bounds say how the log is cut: replicas are
equal byte for byte, and so is the way they are divided into files (segments).

Source: RocketMQ `HAConnection` (transfer of the commit log's own bytes), ADR 0009. It carries
no confirm position: that belongs to the connection.
"""

from collections.abc import Callable
from typing import NamedTuple

from penstock.base.errors import PlatformError

SEGMENT_BYTES_MAX = 1 << 31
"""Largest file that a configuration allows (LogConfig.segment_bytes)."""


class Run(NamedTuple):
    """Whole frames [position, position + len(data)) of one leader epoch in one file."""

    leader_epoch: int
    """The epoch that every frame of the run carries; of an empty run, the newest of the log."""
    position: int
    file_base: int
    file_end: int
    """Where the file ends, and the next one begins."""
    data: memoryview
    """The frames; empty when there is nothing to read yet."""
    next_position: int = -1
    """Where the run behind this one begins; -1 where that is not known (on the slave)."""

    @property
    def end_position(self) -> int:
        """Position (exclusive) behind the last frame."""
        return self.position + len(self.data)

    def after(self, count: int) -> "Run":
        """Return what is left of the run behind its first `count` bytes, whole frames."""
        return self._replace(position=self.position + count, data=self.data[count:])


RunLoaded = Callable[[Run | None, PlatformError | None], None]


class ColdRun:
    """A run that has to be read from the disk. `size` is what was asked for at most, in bytes."""

    __slots__ = ("_load", "size")

    def __init__(self, size: int, load: Callable[[RunLoaded], None]) -> None:
        self.size = size
        self._load = load

    def load(self, done: RunLoaded) -> None:
        """Read off the loop; `done(run, error)` is called on the loop, one of them is None."""
        self._load(done)
