"""What the next extent file is to hold, collected by a retention pass over the closed segments.

    closed segments, oldest first    [ due ][ due ][ not due ][ ...
      ─► which partitions need batches in them, and from which offset on ─► SplitPlan

A segment is due when all its needed batches are older than `log.level0_ms`, or when it ends more
than `log.level0_bytes` below the log's end. Only what is confirmed by the set and on this disk is
split: no truncation reaches it, and no loss of power takes it from the log alone. The first segment
that is not due ends the plan, since the extents of a partition have no gaps.

Needed is what retention keeps, whatever keeps it: long retention, compaction, or the positions of a
group. What another file has already is not needed here.

Source: docs/adr/0104.
"""

from itertools import islice
from typing import NamedTuple

from penstock.base.ids import Position, TopicPartition
from penstock.storage.config import LogConfig
from penstock.storage.index.lookup import ClosedSegment
from penstock.storage.stores.rules import Piece

FILE_BYTES_MAX = 256 << 20
"""Batches in a file, about: with the segment that reaches it, the file is large enough."""
SEGMENTS_MAX = 16
"""Segments for a file: each partition is looked up in the index of each."""
WANTED_MAX = 50_000
"""Partitions in a file; bounds the message that asks for it. Others come with the next file."""


class SplitPlan(NamedTuple):
    """What one extent file is to be made of."""

    directory: str
    """Of the log, in the data directory."""
    segments: tuple[ClosedSegment, ...]
    """Oldest first."""
    wanted: dict[TopicPartition, int]
    """From which offset on (inclusive)."""
    batch_bytes: int
    """Of the batches that are needed, about."""
    reserve_bytes: int
    """To be left free on the disk."""

    @property
    def bases(self) -> tuple[int, ...]:
        """The positions at which the files begin."""
        return tuple(segment.base for segment in self.segments)


class SplitPlanner:
    """Collects the plan of one retention pass, segment by segment, oldest first."""

    def __init__(
        self, directory: str, config: LogConfig, *, now_ms: int, end: int, flushed: int
    ) -> None:
        """`end` and `flushed` are positions: of the log's end, and up to where it is on disk."""
        self._directory = directory
        self._config = config
        self._is_open = config.level0_ms >= 0 or config.level0_bytes >= 0
        self._limit_ms = now_ms - config.level0_ms if config.level0_ms >= 0 else -1
        """Batches with an older timestamp are due; -1: none is."""
        self._limit = end - config.level0_bytes if config.level0_bytes >= 0 else -1
        """Segments that end at or below it are due; -1: none is."""
        self._flushed = flushed
        self._is_full = False
        self._segments: list[ClosedSegment] = []
        self._wanted: dict[TopicPartition, int] = {}
        self._batch_bytes = 0
        self._here: dict[TopicPartition, int] = {}
        """What is needed of the present segment."""
        self._here_bytes = 0
        self._newest_ms = -1
        self.backlog_bytes = 0
        """Bytes of batches that are due, and in no extent file yet."""

    def want(self, topic_partition: TopicPartition, start_offset: int, piece: Piece) -> None:
        """Note that a partition needs its batches in the present segment, from an offset on."""
        if self._is_open:
            self._here[topic_partition] = start_offset
            self._here_bytes += piece.batch_bytes
            self._newest_ms = max(self._newest_ms, piece.max_timestamp)

    def end_segment(self, base: Position, end: Position, path: str) -> None:
        """Complete the present segment, positions [base, end)."""
        here, self._here = self._here, {}
        here_bytes, self._here_bytes = self._here_bytes, 0
        newest_ms, self._newest_ms = self._newest_ms, -1
        is_due = end <= self._limit or newest_ms < self._limit_ms
        self._is_open = self._is_open and is_due and end <= self._flushed
        if not self._is_open or not here:
            return
        self.backlog_bytes += here_bytes
        if self._is_full:
            return
        self._segments.append(ClosedSegment(base, path))
        self._batch_bytes += here_bytes
        self._wanted = here | self._wanted  # the offset of the oldest segment counts
        self._is_full = self._batch_bytes >= FILE_BYTES_MAX or len(self._segments) == SEGMENTS_MAX

    def stop(self) -> None:
        """Leave this segment and all behind it to the next pass."""
        self._is_open = False

    def plan(self) -> SplitPlan | None:
        """Return the plan; None where nothing is due."""
        if not self._wanted:
            return None
        wanted = self._wanted
        if len(wanted) > WANTED_MAX:
            wanted = dict(islice(sorted(wanted.items()), WANTED_MAX))
        return SplitPlan(
            self._directory,
            tuple(self._segments),
            wanted,
            self._batch_bytes,
            self._config.reserve_bytes,
        )
