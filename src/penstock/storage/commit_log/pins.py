"""The report of what keeps each segment from being deleted: its pins.

A segment is deleted when no partition needs it, so one record that is kept for ever keeps a whole
file of other partitions' dead data. The retention pass looks at every entry anyway, and collects:

    by segment     its size, how many partitions need it, and the names of the first few
    by partition   the segments it needs, and of these the ones that no other partition needs
    movable        segments needed only by partitions whose owner can append their live records
                   again (those of internal topics): a rewrite would free them; with such files of
                   the second level (second_level/file_pins.py)

Source: ours. RocketMQ deletes whole files by age and so has no pins; in Kafka each partition has
its own files.
"""

from collections.abc import Iterator
from enum import StrEnum
from typing import NamedTuple

from penstock.base.ids import TopicPartition

NAMES_MAX = 4
"""Number of partitions that are named for a segment; all are counted."""


class Pin(StrEnum):
    """Why a segment is kept."""

    PARTITIONS = "partitions"
    """Each has records in it that are in retention, or that its log start does not exclude yet."""
    UNREAD = "unread index"
    """Its index could not be read: it is kept until that works."""
    CLOSING = "closing"
    """Its index is not written yet."""
    UNCONFIRMED = "unconfirmed"
    """Its set has not confirmed all that is in it."""
    BEHIND = "behind one not looked at"
    """Retention by size counts from the old end, so this waits for an older segment."""
    ACTIVE = "active"
    """It is being written."""
    GOING = "going"
    """No partition needs it: it is deleted when the next snapshot is durable."""


class SegmentPins(NamedTuple):
    """One segment and its pins."""

    base: int
    size_bytes: int
    pin: Pin
    partition_count: int = 0
    partitions: tuple[TopicPartition, ...] = ()
    """The first few of those that need it."""


class PartitionPins(NamedTuple):
    """The segments that one partition keeps, in count and bytes."""

    segments: int
    size_bytes: int
    alone_bytes: int
    """Bytes of segments that no other partition needs."""


class Movable(NamedTuple):
    """Segments, and extent files, that only movable partitions need."""

    size_bytes: int
    oldest_base: int
    """Of the segments; -1 if there is none."""
    partitions: tuple[TopicPartition, ...]
    """The partitions that need them: when all of these are rewritten, they are deleted."""
    oldest_file: int = -1
    """Number of the first of the extent files; -1 if there is none."""

    def added(self, other: "Movable") -> "Movable":
        """Return segments and extent files together; each of the two has one kind."""
        partitions = dict.fromkeys((*self.partitions, *other.partitions))
        return Movable(
            self.size_bytes + other.size_bytes,
            max(self.oldest_base, other.oldest_base),
            tuple(partitions),
            max(self.oldest_file, other.oldest_file),
        )


NOTHING_MOVABLE = Movable(0, -1, ())


class PinReport(NamedTuple):
    """The result of one retention pass. `number` counts the passes; 0 is before the first."""

    number: int
    segments: tuple[SegmentPins, ...]
    partitions: dict[TopicPartition, PartitionPins]
    movable: Movable

    @property
    def pinned_bytes(self) -> int:
        """Bytes of closed segments that some partition needs."""
        return sum(each.size_bytes for each in self.segments if each.pin is Pin.PARTITIONS)

    def heaviest(self, count: int) -> Iterator[tuple[TopicPartition, PartitionPins]]:
        """Yield the partitions that keep most alone, then those that keep most."""
        ranked = sorted(
            self.partitions.items(),
            key=lambda item: (-item[1].alone_bytes, -item[1].size_bytes, item[0]),
        )
        yield from ranked[:count]


NO_REPORT = PinReport(0, (), {}, NOTHING_MOVABLE)


class PinCollector:
    """Collects the report of one pass, segment by segment and entry by entry."""

    def __init__(self, number: int) -> None:
        self._number = number
        self._segments: list[SegmentPins] = []
        self._partitions: dict[TopicPartition, PartitionPins] = {}
        self._moving: dict[TopicPartition, None] = {}
        self._movable_bytes = 0
        self._oldest_movable = -1
        self._pinning: list[tuple[TopicPartition, bool]] = []

    def pin(self, partition: TopicPartition, *, is_movable: bool) -> None:
        """Note that a partition needs the present segment."""
        self._pinning.append((partition, is_movable))

    def end_segment(self, base: int, size_bytes: int) -> bool:
        """Complete the present segment; return whether no partition needs it."""
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

    def report(self, files: Movable = NOTHING_MOVABLE) -> PinReport:
        """Return the report; `files` are extent files that only movable partitions need."""
        movable = Movable(self._movable_bytes, self._oldest_movable, tuple(self._moving))
        segments, partitions = tuple(sorted(self._segments)), dict(self._partitions)
        return PinReport(self._number, segments, partitions, movable.added(files))
