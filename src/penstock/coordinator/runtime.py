"""Loading, unloading and rewriting the partitions of an internal topic.

    (not owned) ── begin_loading, load each record, finish_loading ──► active
         ▲                     │                                         │
         └──────── unload ─────┴─────────────────────────────────────────┘

The state of a partition may be large: it is built in portions, and at its end waiting clients are
answered in portions. It becomes visible all at once when it is complete, and is hidden all at once
before any client is answered.

Single owner: all calls come from one thread, answers run on it, and nothing blocks. The master of a
partition's replica set owns the partition; broker/coordinators/hosting.py moves it. The owner calls
`tick` no later than `next_deadline_ms`.

Source: Kafka, CoordinatorRuntime (scheduleLoadOperation, scheduleUnloadOperation); rewrites.py for
rewrites, which Kafka does not need.
"""

from collections.abc import Hashable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Generic, TypeVar

from penstock.base.invariant import invariant
from penstock.coordinator.deadlines import Deadlines
from penstock.coordinator.journal import Journal, JournalDone
from penstock.coordinator.outbox import Later, Outbox
from penstock.coordinator.partitions import Partitions, PartitionState
from penstock.coordinator.pending import Writer
from penstock.coordinator.portions import PORTION, Portions, Steps
from penstock.coordinator.records import (
    JournalRecord,
    UnreadRecord,
    in_batches,
    original_of,
    records_bytes,
)
from penstock.coordinator.rewrites import RewriteTracker
from penstock.coordinator.shard import Loader, Shard
from penstock.coordinator.unread import UnreadRecords
from penstock.coordinator.unwritten import Unwritten
from penstock.coordinator.writes import MARKER_BYTES, Writes

S = TypeVar("S")
K = TypeVar("K", bound=Hashable)

DUE_TOGETHER = 100
"""Deadlines handled in one tick. All sessions of a group may end at once, at 10 us each and 20 us
for a line in the log, or as many rebalances may begin."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CoordinatorConfig:
    """Bounds of one kind of coordinator; GroupConfig explains each of them."""

    kind: str
    partition_count: int
    """Of the internal topic before it exists."""
    grows: bool = False
    """Whether that topic gets further partitions: whose they are does not follow from a hash."""
    writes_in_flight_max: int
    rewrite_after_bytes: int
    rewrite_after_pinned_bytes: int
    unread_bytes_max: int


class Foundation(Generic[K]):
    """The parts that a shard uses: created before it, and shared with its runtime."""

    __slots__ = ("config", "deadlines", "outbox", "partitions", "portions", "rewrites", "writes")

    def __init__(self, config: CoordinatorConfig, journal: Journal, later: Later | None) -> None:
        """`later` runs a callback in a later turn of the event loop; without it, at once."""
        self.config = config
        self.outbox = Outbox(later)
        self.portions = Portions(self.outbox, later)
        self.deadlines: Deadlines[K] = Deadlines()
        self.partitions = Partitions(config.partition_count, grows=config.grows)
        self.rewrites = RewriteTracker(config.rewrite_after_bytes)
        self.writes = Writes(
            journal, self.rewrites, self.portions, in_flight_max=config.writes_in_flight_max
        )


class _EarlyMarker:
    """A marker that was appended behind all that is loaded, before that is shown."""

    __slots__ = ("_ended", "_outcome", "is_commit", "writer")

    def __init__(self, writer: Writer, *, is_commit: bool) -> None:
        self.writer, self.is_commit = writer, is_commit
        self._ended: JournalDone | None = None
        self._outcome: list[Unwritten | None] = []

    def ended(self, reason: Unwritten | None) -> None:
        if self._ended is None:
            self._outcome.append(reason)
        else:
            self._ended(reason)

    def begin(self, ended: JournalDone) -> None:
        self._ended = ended
        for reason in self._outcome:
            ended(reason)


class _Loading(Generic[S]):
    """One partition that is being loaded."""

    __slots__ = ("loaded_bytes", "loader", "markers", "unread")

    def __init__(self, loader: Loader[S], unread: UnreadRecords) -> None:
        self.loader = loader
        self.unread = unread
        self.loaded_bytes = 0
        self.markers: list[_EarlyMarker] = []


class CoordinatorRuntime(Generic[S, K]):
    """The partitions of a shard, for the broker that assigns and revokes them."""

    __slots__ = ("_leaving", "_loading", "_shard", "_unread", "base")

    def __init__(self, base: Foundation[K], shard: Shard[S, K]) -> None:
        """Own no partition yet."""
        self.base = base
        self._shard = shard
        self._loading: dict[int, _Loading[S]] = {}
        self._unread: dict[int, UnreadRecords] = {}
        self._leaving: set[int] = set()
        """Partitions whose former state still has clients to be answered."""

    # Loading and unloading

    def begin_loading(self, partition: int) -> None:
        """Take over a partition. Requests for it are answered with "loading" from now on."""
        assert self.base.partitions.state(partition) is None, partition
        self.base.partitions.put(partition, PartitionState.LOADING)
        unread = UnreadRecords(partition, self.base.config.unread_bytes_max)
        self._loading[partition] = _Loading(self._shard.new_loader(partition, unread), unread)

    def load(self, partition: int, record: JournalRecord, writer: Writer | None = None) -> None:
        """Take the next record of a partition that is being loaded, in log order.

        With a writer it is of a transaction.
        """
        loading, whole = self._loading[partition], UnreadRecord(*record)
        original = original_of(whole) if whole.headers else None
        if writer is not None:
            loading.loader.load_pending(writer, whole)
        elif original is None:
            loading.loader.load(whole)
        else:
            loading.loader.load_copy(original)
        loading.loaded_bytes += records_bytes((record,))

    def load_end(self, partition: int, writer: Writer, *, is_commit: bool) -> None:
        """Take a marker, in log order."""
        loading = self._loading[partition]
        loading.loader.load_end(writer, is_commit=is_commit)
        loading.loaded_bytes += MARKER_BYTES

    def load_unread_batch(self, partition: int, reason: str) -> None:
        """Note a batch that cannot be read: it stays in the log."""
        self._loading[partition].loader.leave_in_log(reason)

    def finish_loading(self, partition: int) -> None:
        """Build the partition's state, in portions, then answer for it.

        Until it is complete, requests are answered with "loading".
        """
        with self.base.outbox.holding():
            self.base.portions.begin(self._adopt(partition, self._loading[partition]))

    def unload(self, partition: int) -> None:
        """Give a partition up; parked requests are answered in portions."""
        self._loading.pop(partition, None)
        self._unread.pop(partition, None)
        self.base.rewrites.forget(partition)
        with self.base.outbox.holding():
            self.base.partitions.put(partition, None)
            gone = self._shard.hide(partition)
            if gone:
                invariant(
                    partition not in self._leaving,
                    "a state is shown when the one before it has gone",
                    partition=partition,
                )
                self._leaving.add(partition)
                self.base.portions.begin(self._let_go(partition, gone))

    # Transactions

    def end_transaction(self, partition: int, writer: Writer, *, is_commit: bool) -> JournalDone:
        """Take a marker that was just appended to a partition that is loaded, or all of which is.

        Returns what is to be called as a journal calls `done`. What the marker changes is shown
        once it is confirmed, behind everything before it.
        """
        loading = self._loading.get(partition)
        if loading is not None:
            marker = _EarlyMarker(writer, is_commit=is_commit)
            loading.markers.append(marker)
            return marker.ended
        return self.base.writes.note(
            partition, self._shard.ending(partition, writer, is_commit=is_commit)
        )

    # Rewriting

    def snapshot(self, partition: int) -> Iterator[list[JournalRecord]]:
        """Yield the live records of a partition, some at a time, for a rewrite.

        Each list holds what the journal has at the moment it is taken; the owner must append it
        before anything else is appended. Between two lists other writes may happen. When all lists
        are durable, the log may start at the first of them, and `rewritten` is to be called.

        Invariant: the partition is loaded; what is not in memory would be lost with the old log.
        """
        invariant(
            self.base.partitions.is_active(partition),
            "a partition is rewritten only when loaded",
            n=partition,
        )
        unread = self._unread[partition]
        invariant(not unread.is_in_log_only, "records in the log only are not lost", n=partition)
        return self._live_records(partition, unread)

    def rewritten(self, partition: int, live_bytes: int) -> None:
        """Note that a rewrite of so many bytes is durable."""
        self.base.rewrites.rewritten(partition, live_bytes)

    def is_movable(self, partition: int) -> bool:
        """Whether the partition can be rewritten now."""
        is_active = self.base.partitions.is_active(partition)
        return is_active and partition not in self.base.rewrites.held

    @property
    def unread_bytes(self) -> int:
        """Approximate memory, in bytes, of the records that could not be read when loading."""
        return sum(unread.size_bytes for unread in self._unread.values())

    # Time

    def tick(self, now_ms: int) -> None:
        """Handle deadlines due at this monotonic time, at most DUE_TOGETHER of them."""
        with self.base.outbox.holding():
            for key in islice(self.base.deadlines.pop_due(now_ms), DUE_TOGETHER):
                self._shard.on_due(key)

    def next_deadline_ms(self) -> int | None:
        """Return when `tick` must be called next at the latest, in monotonic milliseconds."""
        return self.base.deadlines.next_ms()

    # Helpers

    def _live_records(self, partition: int, unread: UnreadRecords) -> Iterator[list[JournalRecord]]:
        yield from self._shard.live_records(partition)
        yield from in_batches(unread.records())

    def _adopt(self, partition: int, loading: _Loading[S]) -> Steps:
        """Build the state of a partition, show it all at once, then start its sessions."""

        def is_over() -> bool:
            return self._loading.get(partition) is not loading

        while partition in self._leaving and not is_over():
            # Deadlines are keyed by name: those of the former state must be cancelled first.
            yield PORTION
        making = loading.loader.make()
        while not is_over():
            try:
                cost = next(making)
            except StopIteration as made:
                yield from self._show(partition, loading, made.value)
                return
            yield cost
        yield from loading.loader.discard()

    def _show(self, partition: int, loading: _Loading[S], state: S) -> Steps:
        del self._loading[partition]
        self.base.partitions.put(partition, PartitionState.ACTIVE)
        self._shard.show(partition, state)
        # Counted only now: a rewrite of a partition that is half loaded would lose the rest.
        self.base.rewrites.appended(partition, loading.loaded_bytes)
        self._unread[partition] = loading.unread
        if loading.unread.is_in_log_only:
            self.base.rewrites.hold(partition)
        for marker in loading.markers:
            change = self._shard.ending(partition, marker.writer, is_commit=marker.is_commit)
            marker.begin(self.base.writes.note(partition, change))
        yield from self._shard.begin(partition, state)

    def _let_go(self, partition: int, gone: S) -> Steps:
        yield from self._shard.let_go(gone)
        self._leaving.remove(partition)
