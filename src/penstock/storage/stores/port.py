"""The port behind which the batches of partitions are: what every store of a log can do.

    offset   log start ....................................... log end
    stores      [ older ................ )
                          [ newer, the commit log ........... )

Each store has a partition's kept batches from an offset of its own on, up to where the next newer
one begins or further. It speaks of partitions, offsets, sizes and times; how it divides them into
files is its own matter. The commit log is the newest and takes the appends.

What a store says to hold is durable and confirmed by the set: nothing of it is ever truncated.

Source: docs/adr/0068. Which store is asked: stores/older.py; what may go: stores/retention.py.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol, TypeVar

from penstock.base.errors import PlatformError
from penstock.base.ids import TopicPartition
from penstock.storage.index.partition_log import PartitionLog
from penstock.storage.read.chunk import Chunk
from penstock.storage.read.needs_disk import NeedsDisk
from penstock.storage.stores.rules import RetentionRules

T = TypeVar("T")


class Held(NamedTuple):
    """Offsets of a partition of which a store has every kept batch: [start, end)."""

    start_offset: int
    end_offset: int


class TimestampHit(NamedTuple):
    """A batch that was looked for by time."""

    base_offset: int
    max_timestamp: int
    batch: memoryview


Examine = Callable[[TimestampHit], T | None]


class EpochEnd(NamedTuple):
    """The largest known epoch at or below the one asked for, and its end (exclusive)."""

    leader_epoch: int
    end_offset: int


LetGo = Callable[[], None]
"""Delete what was judged and is not needed. Called when the log starts behind it are durable."""
Judged = Callable[[LetGo | None], None]


EpochEndFound = Callable[[EpochEnd | None, PlatformError | None], None]


class TimeSearch(Protocol):
    """A look by time at a partition as it was when the search was made. Used off the loop."""

    def first_at(self, timestamp_ms: int, examine: Examine[T]) -> T | None:
        """Return what `examine` makes of the first batch whose largest timestamp is not smaller.

        Where that is None, of the next such batch. Waits for the disk.
        """

    def newest(self) -> TimestampHit | None:
        """Return the first batch with the largest timestamp of all. Waits for the disk."""


class PartitionStore(Protocol):
    """One store of a log's partitions. Called on the loop where nothing else is said.

    `limit` is where that ends, exclusive, which may be given: of the commit log a position, since
    what is confirmed is one; of every other store an offset, at which a batch begins.
    """

    def held(self, topic_partition: TopicPartition) -> Held | None:
        """Return what the store has; None where that is nothing."""

    def read(
        self, partition: PartitionLog, offset: int, max_bytes: int, limit: int, /
    ) -> Chunk | NeedsDisk:
        """Return whole batches from the one that holds `offset` on, which the store must have.

        At least one below the limit, even if it is larger than `max_bytes`, otherwise as many as
        fit. Those that reach an offset limit say so by their `next_offset`.
        """

    def search(self, partition: PartitionLog, limit: int, /) -> TimeSearch:
        """Return a look by time over kept batches below the limit."""

    def find_epoch_end(
        self, partition: PartitionLog, leader_epoch: int, done: EpochEndFound
    ) -> None:
        """Call `done(end, error)`, at once or later; both are None where all it has is newer.

        The end of an epoch whose batches go on above the store is the store's end or further.
        """

    def judge(self, rules: RetentionRules, done: Judged) -> None:
        """Ask the rules of each partition's pieces, oldest first, whether they are needed.

        `done(let_go)`, at once or later, when all were asked; None where nothing may go.
        """


class OlderStore(PartitionStore, Protocol):
    """A store that takes over what the commit log releases."""

    def size_bytes(
        self, topic_partition: TopicPartition, start_offset: int, end_offset: int
    ) -> int:
        """Return the bytes of pieces that lie in [start_offset, end_offset), partly or wholly."""


Stores = Sequence[OlderStore]
"""Newest first."""
