"""What the next extent file is to hold, collected by a retention pass over the closed segments.

    closed segments, oldest first    [ due ][ due ][ not due ][ ...
      ─► which partitions need batches in them, and from which offset on ─► SplitPlan

A segment is due when all its needed batches are older than `log.level0_ms`, or when it ends more
than `log.level0_bytes` below the log's end. Only what is confirmed by the set and on this disk is
split: no truncation reaches it, and no loss of power takes it from the log alone. The first segment
that is not due ends the plan, since the extents of a partition have no gaps.

Batches of compacted partitions are due with every closed segment: only extents are cleaned. They
make a plan of their own where nothing else is due, and get files of their own: what cleaning has
replaced would stay in a file that others need.

Needed is what retention keeps, whatever keeps it: long retention, compaction, or the positions of a
group. What another file has already is not needed here.

Source: docs/adr/0104, docs/adr/0108.
"""

from dataclasses import dataclass, field
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


@dataclass(slots=True)
class _Needed:
    """What is needed of one segment."""

    starts: dict[TopicPartition, int] = field(default_factory=dict)
    batch_bytes: int = 0

    def add(self, topic_partition: TopicPartition, start_offset: int, piece: Piece) -> None:
        """Note a partition with its batches."""
        self.starts[topic_partition] = start_offset
        self.batch_bytes += piece.batch_bytes


@dataclass(slots=True)
class _Collected:
    """The segments of a plan, until they are enough for a file."""

    segments: list[ClosedSegment] = field(default_factory=list)
    wanted: dict[TopicPartition, int] = field(default_factory=dict)
    batch_bytes: int = 0

    def add(self, segment: ClosedSegment, needed: _Needed) -> None:
        """Add a segment, unless nothing is needed of it, or those before are enough."""
        is_full = self.batch_bytes >= FILE_BYTES_MAX or len(self.segments) == SEGMENTS_MAX
        if is_full or not needed.starts:
            return
        self.segments.append(segment)
        self.batch_bytes += needed.batch_bytes
        self.wanted = needed.starts | self.wanted  # the offset of the oldest segment counts


class SplitPlanner:
    """Collects the plan of one retention pass, segment by segment, oldest first."""

    def __init__(
        self, directory: str, config: LogConfig, *, now_ms: int, end: int, flushed: int
    ) -> None:
        """`end` and `flushed` are positions: of the log's end, and up to where it is on disk."""
        self._directory = directory
        self._config = config
        self._is_open = self._is_reached = config.moves
        self._limit_ms = now_ms - config.level0_ms if config.level0_ms >= 0 else -1
        """Batches with an older timestamp are due; -1: none is."""
        self._limit = end - config.level0_bytes if config.level0_bytes >= 0 else -1
        """Segments that end at or below it are due; -1: none is."""
        self._flushed = flushed
        self._due = _Collected()
        self._compacted = _Collected()
        self._here = _Needed()
        self._compacted_here = _Needed()
        self._newest_ms = -1
        self.backlog_bytes = 0
        """Bytes of batches that are due, and in no extent file yet."""

    def want(
        self,
        topic_partition: TopicPartition,
        start_offset: int,
        piece: Piece,
        *,
        is_compacted: bool = False,
    ) -> None:
        """Note that a partition needs its batches in the present segment, from an offset on."""
        if is_compacted:
            if self._is_reached:
                self._compacted_here.add(topic_partition, start_offset, piece)
        elif self._is_open:
            self._here.add(topic_partition, start_offset, piece)
            self._newest_ms = max(self._newest_ms, piece.max_timestamp)

    def end_segment(self, base: Position, end: Position, path: str) -> None:
        """Complete the present segment, positions [base, end)."""
        here, self._here = self._here, _Needed()
        compacted, self._compacted_here = self._compacted_here, _Needed()
        newest_ms, self._newest_ms = self._newest_ms, -1
        is_due = end <= self._limit or newest_ms < self._limit_ms
        self._is_reached = self._is_reached and end <= self._flushed
        self._is_open = self._is_open and is_due and end <= self._flushed
        closed = ClosedSegment(base, path)
        if self._is_open:
            self.backlog_bytes += here.batch_bytes
            self._due.add(closed, here)
        if self._is_reached:
            self.backlog_bytes += compacted.batch_bytes
            self._compacted.add(closed, compacted)

    def stop(self) -> None:
        """Leave this segment and all behind it to the next pass."""
        self._is_open = self._is_reached = False

    def plan(self) -> SplitPlan | None:
        """Return the plan; None where nothing is due."""
        collected = self._due if self._due.wanted else self._compacted
        wanted = collected.wanted
        if not wanted:
            return None
        if len(wanted) > WANTED_MAX:
            wanted = dict(islice(sorted(wanted.items()), WANTED_MAX))
        return SplitPlan(
            self._directory,
            tuple(collected.segments),
            wanted,
            collected.batch_bytes,
            self._config.reserve_bytes,
        )
