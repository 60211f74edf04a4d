"""The port of a store: how the batches of partitions are found, read, searched and deleted.

    offset   log start ....................................... log end
    stores      [ older ................ )
                          [ newer, the commit log ........... )

Each store has a partition's kept batches from an offset of its own on, at least up to where the
next newer store begins. The port is about partitions, offsets, sizes and times; files are internal
to a store. The commit log is the newest store and takes the appends.

Everything that a store other than the commit log holds is durable and confirmed by the set. Only an
unclean election cuts it.

Source: docs/adr/0068-a-partition-is-a-sequence-over-stores.md. Choice of a store: stores/older.py;
deletion: stores/retention.py.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple, Protocol, TypeVar

from penstock.base.errors import PlatformError
from penstock.base.ids import LeaderEpoch, Offset, Position, TopicPartition
from penstock.storage.index.aborted import Aborted
from penstock.storage.index.partition_log import PartitionLog
from penstock.storage.read.chunk import Chunk
from penstock.storage.read.needs_disk import NeedsDisk
from penstock.storage.stores.rules import RetentionRules

T = TypeVar("T")
Limit_contra = TypeVar("Limit_contra", Position, Offset, contravariant=True)


class Held(NamedTuple):
    """Offsets [start, end) of a partition; the store has every kept batch of them."""

    start_offset: Offset
    end_offset: Offset


class TimestampHit(NamedTuple):
    """A batch found by time."""

    base_offset: Offset
    max_timestamp: int
    batch: memoryview


Examine = Callable[[TimestampHit], T | None]


class EpochEnd(NamedTuple):
    """The largest known epoch at or below the requested one, and its end (exclusive)."""

    leader_epoch: LeaderEpoch
    end_offset: Offset


LetGo = Callable[[], None]
"""Deletes the pieces that are not needed. Called when the log starts behind them are durable."""
Judged = Callable[[LetGo | None], None]


class Decided(NamedTuple):
    """What the markers in one piece of a partition have decided."""

    end_offset: int
    """Of the piece, exclusive."""
    aborted: Aborted
    stable_end: int
    """Everything below it is decided by markers in the piece or before it (exclusive)."""


EpochEndFound = Callable[[EpochEnd | None, PlatformError | None], None]


class TimeSearch(Protocol):
    """A search by time in a partition as it was when the search was made. Used off the loop."""

    def first_at(self, timestamp_ms: int, examine: Examine[T]) -> T | None:
        """Return the first result of `examine` on batches whose largest timestamp is not smaller.

        Batches for which `examine` returns None are passed over. Waits for the disk.
        """

    def newest(self) -> TimestampHit | None:
        """Return the first batch with the largest timestamp of all. Waits for the disk."""


class PartitionStore(Protocol[Limit_contra]):
    """One store of a log's partitions. Called on the loop unless stated otherwise.

    `limit` (exclusive) is the end of what may be returned: for the commit log a position, since the
    confirm position is one; for every other store an offset at which a batch begins.
    """

    def held(self, topic_partition: TopicPartition) -> Held | None:
        """Return the offsets that the store has; None if it has none."""

    def read(
        self, partition: PartitionLog, offset: Offset, max_bytes: int, limit: Limit_contra, /
    ) -> Chunk | NeedsDisk:
        """Return whole batches, the first being the one that holds `offset`, which must be here.

        At least one below the limit, even if it is larger than `max_bytes`, otherwise as many as
        fit. If they reach an offset limit, that is their `next_offset`.
        """

    def search(self, partition: PartitionLog, limit: Limit_contra, /) -> TimeSearch:
        """Return a search by time over kept batches below the limit."""

    def find_epoch_end(
        self, partition: PartitionLog, leader_epoch: LeaderEpoch, done: EpochEndFound
    ) -> None:
        """Call `done(end, error)`, at once or later; both are None if all its batches are newer.

        For an epoch that continues above the store, the end is the store's end or above.
        """

    def judge(self, rules: RetentionRules, done: Judged) -> None:
        """Ask `rules` for each piece of each partition, oldest first, whether it is needed.

        Calls `done(let_go)`, at once or later, when all are judged; None if nothing may be deleted.
        """


class OlderStore(PartitionStore[Offset], Protocol):
    """A store that has batches which the commit log may release."""

    @property
    def is_used(self) -> bool:
        """Whether it has batches, or has ever had some."""

    def load(self) -> None:
        """Read what the files hold: at a start, and when they were replaced. Waits for the disk."""

    def cut(self, ends: Mapping[TopicPartition, Offset]) -> None:
        """Hold nothing of these partitions from an offset on, durably. Waits for the disk.

        Called while the log is opened after an unclean election cut it there: at ends of batches.
        """

    def decided(self, partition: PartitionLog, start: Offset, limit: Offset) -> Iterator[Decided]:
        """Return what is decided in each piece that overlaps [start, limit), oldest first.

        The pieces are those of now; the iterator is used off the loop, and waits for the disk.
        """

    def size_bytes(
        self, topic_partition: TopicPartition, start_offset: Offset, end_offset: Offset
    ) -> int:
        """Return the size of the pieces that overlap [start_offset, end_offset)."""


Stores = Sequence[OlderStore]
"""Newest first."""
