"""A run: whole frames of one commit log, byte for byte as in its file, sent to a slave.

    file      [epoch|batch|batch|batch|end]..gap  [epoch|batch|...
    runs       ^-----------^ ^--------------^      ^------------     never across a file or epoch

A run has the position of its bytes and the bounds of their file: replicas are equal byte for byte,
and are divided into the same files (segments).

Source: RocketMQ `HAConnection` (transfer of the commit log's own bytes), ADR 0009. A run has
no confirm position: that is sent with it, see replica.
"""

from collections.abc import Callable
from typing import NamedTuple

from penstock.base.errors import PlatformError
from penstock.base.ids import LeaderEpoch, Position

SEGMENT_BYTES_MAX = 1 << 31
"""The upper bound of LogConfig.segment_bytes."""


class Run(NamedTuple):
    """Whole frames [position, position + len(data)) of one leader epoch in one file."""

    leader_epoch: LeaderEpoch
    """The epoch of every frame in the run; for an empty run, the newest of the log."""
    position: Position
    file_base: Position
    file_end: Position
    """Position at which the file ends and the next one begins."""
    data: memoryview
    """The frames; empty if there is nothing to read yet."""
    next_position: Position = Position(-1)
    """Where the next run begins; -1 if that is not known (on the slave)."""

    @property
    def end_position(self) -> Position:
        """Position (exclusive) behind the last frame."""
        return Position(self.position + len(self.data))

    def after(self, count: int) -> "Run":
        """Return the run without its first `count` bytes, which must be whole frames."""
        return self._replace(position=Position(self.position + count), data=self.data[count:])


RunLoaded = Callable[[Run | None, PlatformError | None], None]


class ColdRun:
    """A run that has to be read from the disk. `size` is the largest number of bytes to read."""

    __slots__ = ("_load", "size")

    def __init__(self, size: int, load: Callable[[RunLoaded], None]) -> None:
        self.size = size
        self._load = load

    def load(self, done: RunLoaded) -> None:
        """Read off the loop; `done(run, error)` is called on the loop, with one of them None."""
        self._load(done)
