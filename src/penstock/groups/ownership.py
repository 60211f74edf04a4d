"""Taking partitions of the internal topic over, giving them up, and having them rewritten.

    (not owned) ── begin_loading, load each record, finish_loading ──► active
         ▲                     │                                         │
         └──────── unload ─────┴─────────────────────────────────────────┘

Who owns a partition is the master of its replica set; broker/groups/ownership.py moves it.

Source: Kafka, handleGroupImmigration, onGroupLoaded, onGroupUnloaded; housekeeping.py for rewrites.
"""

from collections.abc import Iterator
from itertools import islice

from penstock.base.invariant import invariant
from penstock.groups.classic.group import Group, GroupState
from penstock.groups.classic.rebalance import Rebalances
from penstock.groups.context import Context
from penstock.groups.deadlines import DeadlineKey, DeadlineKind
from penstock.groups.housekeeping import (
    JournalRecord,
    RewriteTracker,
    in_batches,
    records_bytes,
)
from penstock.groups.journal import live_metadata, live_records
from penstock.groups.loading import PartitionLoader
from penstock.groups.messages import JoinReply, SyncReply
from penstock.groups.records import UnreadRecord
from penstock.groups.table import GroupTable, PartitionState
from penstock.groups.unread import UnreadRecords
from penstock.protocol.error_codes import ErrorCode

POSITIONS_TOGETHER = 64
"""Positions of one batch of a rewrite: 256 KiB where each has the longest metadata."""


class PartitionOwnership:
    """Which internal partitions this coordinator has, for the broker that gives and takes them."""

    __slots__ = ("_context", "_loaders", "_rebalances", "_rewrites", "_table", "_unread")

    def __init__(
        self,
        table: GroupTable,
        context: Context,
        rebalances: Rebalances,
        rewrites: RewriteTracker,
    ) -> None:
        self._table = table
        self._context = context
        self._rebalances = rebalances
        self._rewrites = rewrites
        self._loaders: dict[int, PartitionLoader] = {}
        self._unread: dict[int, UnreadRecords] = {}

    def begin_loading(self, partition: int) -> None:
        """Take over a partition: its groups answer that they are being loaded."""
        assert 0 <= partition < self._table.partition_count, partition
        assert partition not in self._table.partitions, partition
        self._table.partitions[partition] = PartitionState.LOADING
        self._loaders[partition] = PartitionLoader(
            partition,
            self._context.counters,
            unread_bytes_max=self._context.config.unread_bytes_max,
        )

    def load(self, partition: int, record: JournalRecord) -> None:
        """Take the next record of a partition that is being loaded, in log order."""
        loader = self._loaders[partition]
        loader.load(UnreadRecord(*record))
        loader.loaded_bytes += records_bytes((record,))

    def load_unread_batch(self, partition: int, reason: str) -> None:
        """Note a batch whose records count only by what stands elsewhere: it stays in the log."""
        self._context.counters.records_unread += 1
        self._loaders[partition].unread.leave_in_log(reason)

    def finish_loading(self, partition: int) -> None:
        """Answer for the partition's groups from now on; sessions of loaded members start now."""
        with self._context.outbox.turn():
            loader = self._loaders.pop(partition)
            self._table.partitions[partition] = PartitionState.ACTIVE
            # Counted only now: a rewrite of a partition that is half loaded would lose the rest.
            self._rewrites.appended(partition, loader.loaded_bytes)
            self._unread[partition] = loader.unread
            if loader.unread.is_in_log_only:
                self._rewrites.hold(partition)
            for group in loader.groups(wall_ms=self._context.clock.wall_ms()):
                self._table.adopt(group)
                for member in group.members.values():
                    self._rebalances.keep_alive(group, member)
                if len(group.members) > self._context.config.group_size_max:
                    self._rebalances.prepare(group, "loaded with more members than allowed")

    def unload(self, partition: int) -> None:
        """Give a partition up: parked requests are answered with NOT_COORDINATOR."""
        self._table.partitions.pop(partition, None)
        self._loaders.pop(partition, None)
        self._unread.pop(partition, None)
        self._rewrites.forget(partition)
        with self._context.outbox.turn():
            for group in self._groups_of(partition):
                self._unload_group(group)

    def snapshot(self, partition: int) -> Iterator[list[JournalRecord]]:
        """Yield the live records of a partition, some at a time, for a rewrite.

        Each list holds what the journal has at the moment it is taken; the owner must append it
        before anything else can be appended. Between two lists anything may be. When all of them
        are durable, the log may start where the first one lies, and `rewritten` is to be called.

        Invariant: the partition is loaded; what is not in memory would be lost with the old log.
        """
        state = self._table.partitions.get(partition)
        invariant(
            state is PartitionState.ACTIVE, "only a loaded partition is rewritten", n=partition
        )
        unread = self._unread[partition]
        invariant(not unread.is_in_log_only, "what is only in the log stays there", n=partition)
        return self._live_records(partition, unread)

    @property
    def unread_bytes(self) -> int:
        """About what records that could not be read take in memory, as found when loading."""
        return sum(unread.size_bytes for unread in self._unread.values())

    def rewritten(self, partition: int, live_bytes: int) -> None:
        """Note that a rewrite of so many bytes is durable."""
        self._rewrites.rewritten(partition, live_bytes)

    def is_movable(self, partition: int) -> bool:
        """Whether the partition can be rewritten here and now."""
        is_active = self._table.partitions.get(partition) is PartitionState.ACTIVE
        return is_active and partition not in self._rewrites.held

    def _live_records(self, partition: int, unread: UnreadRecords) -> Iterator[list[JournalRecord]]:
        for group_id in sorted(group.group_id for group in self._groups_of(partition)):
            group = self._table.groups.get(group_id)
            if group is None:
                continue
            if metadata := live_metadata(group):
                yield metadata
            keys = iter([*group.offsets.latest()])
            while some := [*islice(keys, POSITIONS_TOGETHER)]:
                # Deleted meanwhile, or made anew: then all it has lies behind the rewrite's start.
                if self._table.groups.get(group_id) is group and (
                    records := live_records(group, some)
                ):
                    yield records
        yield from in_batches(unread.records())

    def _groups_of(self, partition: int) -> list[Group]:
        return [group for group in self._table.groups.values() if group.partition == partition]

    def _unload_group(self, group: Group) -> None:
        self._table.forget(group)
        for member in group.members.values():
            self._context.newcomers.pop(member, None)
            member.answer_join(
                JoinReply(error=ErrorCode.NOT_COORDINATOR, member_id=member.member_id)
            )
            member.answer_sync(SyncReply(error=ErrorCode.NOT_COORDINATOR))
            self._cancel(DeadlineKind.SESSION, group, member.member_id)
        for member_id in group.pending:
            self._cancel(DeadlineKind.PENDING_MEMBER, group, member_id)
        self._cancel(DeadlineKind.JOIN, group)
        self._cancel(DeadlineKind.SYNC, group)
        if group.state is not GroupState.DEAD:
            group.transition(GroupState.DEAD, self._context.clock.wall_ms())

    def _cancel(self, kind: DeadlineKind, group: Group, member_id: str = "") -> None:
        self._context.deadlines.cancel(DeadlineKey(kind, group.group_id, member_id))
