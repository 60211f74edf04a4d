"""Who keeps a segment from being deleted: every kept segment is explained by a named pin.

A segment goes when no partition needs it, so one record that is kept for ever keeps a whole file
of other partitions' dead data. The retention pass looks at every entry anyway; here it writes down
what it saw:

    by segment     its size, how many partitions need it, and the first of them by name
    by partition   the segments it needs, and of those the ones that it alone needs
    movable        segments that only partitions need whose owner can write them anew at the head
                   of the log (the internal topic's): what a rewrite would set free

Source: none. RocketMQ deletes whole files by age and so has no pins; in Kafka each partition has
its own files.
"""

from collections.abc import Iterator
from enum import StrEnum
from typing import NamedTuple

from penstock.base.ids import TopicPartition

NAMES_MAX = 4
"""Partitions that a segment's line names; how many there are is counted."""


class Pin(StrEnum):
    """Why a segment is there."""

    PARTITIONS = "partitions"
    """Each has records in it that are not out of retention, or not yet cut off."""
    UNREAD = "unread index"
    """What it holds could not be read: it stays until that can be."""
    CLOSING = "closing"
    """Its index is not written yet."""
    BEHIND = "behind one not looked at"
    """Retention goes by size from the old end on, so it waits for the older one."""
    ACTIVE = "active"
    """It is being written."""
    GOING = "going"
    """Nobody needs it: it goes when the next snapshot is durable."""


class SegmentPins(NamedTuple):
    """One segment and what keeps it."""

    base: int
    size_bytes: int
    pin: Pin
    partition_count: int = 0
    partitions: tuple[TopicPartition, ...] = ()
    """The first few of those that need it."""


class PartitionPins(NamedTuple):
    """What one partition keeps, in whole segments."""

    segments: int
    size_bytes: int
    alone_bytes: int
    """Of segments that nobody else needs."""


class Movable(NamedTuple):
    """Segments that only movable partitions need."""

    size_bytes: int
    oldest_base: int
    """-1 where there is none."""
    partitions: tuple[TopicPartition, ...]
    """Those that need them: when all of them have moved, the segments go."""


NOTHING_MOVABLE = Movable(0, -1, ())


class PinReport(NamedTuple):
    """What one retention pass saw. `number` counts the passes; 0 is before the first."""

    number: int
    segments: tuple[SegmentPins, ...]
    partitions: dict[TopicPartition, PartitionPins]
    movable: Movable

    @property
    def pinned_bytes(self) -> int:
        """Closed segments that some partition needs."""
        return sum(each.size_bytes for each in self.segments if each.pin is Pin.PARTITIONS)

    def heaviest(self, count: int) -> Iterator[tuple[TopicPartition, PartitionPins]]:
        """Yield those that keep most alone, then those that keep most."""
        ranked = sorted(
            self.partitions.items(),
            key=lambda item: (-item[1].alone_bytes, -item[1].size_bytes, item[0]),
        )
        yield from ranked[:count]


NO_REPORT = PinReport(0, (), {}, NOTHING_MOVABLE)


class PinCollector:
    """Writes down one pass, segment by segment; within a segment entry by entry."""

    def __init__(self, number: int) -> None:
        self._number = number
        self._segments: list[SegmentPins] = []
        self._partitions: dict[TopicPartition, PartitionPins] = {}
        self._moving: dict[TopicPartition, None] = {}
        self._movable_bytes = 0
        self._oldest_movable = -1
        self._pinning: list[tuple[TopicPartition, bool]] = []

    def pin(self, partition: TopicPartition, *, is_movable: bool) -> None:
        """Note that a partition needs the segment that is looked at."""
        self._pinning.append((partition, is_movable))

    def end_segment(self, base: int, size_bytes: int) -> bool:
        """Sum up the segment that was looked at; return whether nobody needs it."""
        pinning, self._pinning = self._pinning, []
        if not pinning:
            self.add(base, size_bytes, Pin.GOING)
            return True
        alone_bytes = size_bytes if len(pinning) == 1 else 0
        for partition, _ in pinning:
            segments, kept, alone = self._partitions.get(partition, (0, 0, 0))
            self._partitions[partition] = PartitionPins(
                segments + 1, kept + size_bytes, alone + alone_bytes
            )
        if all(is_movable for _, is_movable in pinning):
            self._movable_bytes += size_bytes
            if self._oldest_movable < 0:
                self._oldest_movable = base
            self._moving.update((partition, None) for partition, _ in pinning)
        names = tuple(partition for partition, _ in pinning[:NAMES_MAX])
        self._segments.append(SegmentPins(base, size_bytes, Pin.PARTITIONS, len(pinning), names))
        return False

    def add(self, base: int, size_bytes: int, pin: Pin) -> None:
        """Note a segment that is kept for another reason."""
        self._pinning.clear()
        self._segments.append(SegmentPins(base, size_bytes, pin))

    def report(self) -> PinReport:
        """Return what was seen."""
        movable = Movable(self._movable_bytes, self._oldest_movable, tuple(self._moving))
        return PinReport(
            self._number, tuple(sorted(self._segments)), dict(self._partitions), movable
        )
