"""What a copier wants done, and what it has to know of its log.

Source: docs/adr/0117.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

from penstock.base.ids import TopicPartition
from penstock.extents.layout import Entry
from penstock.tier.copies.alignment import OwnLog
from penstock.tier.metadata.commands import Command
from penstock.tier.metadata.manifest import Run
from penstock.tier.names import ObjectName


class Part(NamedTuple):
    """Offsets of a partition that are to go into an object; first inclusive, end exclusive."""

    topic_partition: TopicPartition
    first_offset: int
    end_offset: int


Plan = tuple[Part, ...]
"""What one object is to have, in the order of partitions; confirmed, and decided."""


class Replacement(NamedTuple):
    """Runs of one partition that follow each other, and are to be one."""

    runs: tuple[Run, ...]

    @property
    def part(self) -> Part:
        """The partition and its offsets."""
        first, last = self.runs[0], self.runs[-1]
        return Part(first.entry.topic_partition, first.first_offset, last.end_offset)

    @property
    def generation(self) -> int:
        """That of the run in their place."""
        return 1 + max(run.entry.generation for run in self.runs)

    @property
    def batch_bytes(self) -> int:
        """Bytes of all batches; fewer where a run was cut."""
        return sum(run.entry.batch_bytes for run in self.runs)


MergePlan = tuple[Replacement, ...]
"""What one object takes the place of, in the order of partitions."""


class CopiedLog(Protocol):
    """A master's log, as far as the tier needs it."""

    def partitions(self) -> Sequence[TopicPartition]:
        """Return the partitions that are to be in the tier."""

    def own(self, topic_partition: TopicPartition) -> OwnLog:
        """Return epochs and bounds of a partition."""

    def plans(self, ends: Mapping[TopicPartition, int], count_max: int) -> Sequence[Plan]:
        """Return what objects are to be made of, each partition from its end in the tier on.

        Several objects may have parts of one partition; those follow each other.
        """


class Ask(NamedTuple):
    """Send a command to the tier's metadata."""

    command: Command


class Upload(NamedTuple):
    """Build an object and put it. Nothing of it may be under way at the writer after `until_ms`."""

    name: ObjectName
    plan: Plan
    until_ms: int
    """On the copier's own clock."""
    merge: MergePlan = ()
    """Runs of the store that it takes the place of, one for each part; else it is of the log."""


class Look(NamedTuple):
    """Ask the store for the size of an object."""

    name: ObjectName


Effect = Ask | Upload | Look


class Built(NamedTuple):
    """An object as it was built: its directory, and the epochs of each entry."""

    entries: tuple[Entry, ...]
    epochs: tuple[tuple[tuple[int, int], ...], ...]
    object_bytes: int
