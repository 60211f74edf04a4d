"""Taking partitions of the internal topic over, giving them up, and having them rewritten.

    (not owned) ── begin_loading, load each record, finish_loading ──► active
         ▲                     │                                         │
         └──────── unload ─────┴─────────────────────────────────────────┘

A partition may have thousands of groups, and members: they are made, and told of the end, in
portions. They are shown all at once when all of them are made, and gone all at once before any is
told.

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
from penstock.groups.loading import GROUPS_TOGETHER, PartitionLoader
from penstock.groups.messages import JoinReply, SyncReply
from penstock.groups.portions import PORTION, TO_TELL, Steps
from penstock.groups.records import UnreadRecord
from penstock.groups.table import GroupTable, PartitionState
from penstock.groups.unread import UnreadRecords
from penstock.protocol.error_codes import ErrorCode

MEMBERS_TOGETHER = 4
"""Members whose sessions begin or end for one unit of a portion."""
POSITIONS_TOGETHER = 64
"""Positions of one batch of a rewrite: 256 KiB where each has the longest metadata."""


class PartitionOwnership:
    """Which internal partitions this coordinator has, for the broker that gives and takes them."""

    __slots__ = (
        "_context",
        "_leaving",
        "_loaders",
        "_rebalances",
        "_rewrites",
        "_table",
        "_unread",
    )

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
        self._leaving: dict[int, int] = {}
        """How often each partition was given up with groups that are not all told of it yet."""

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
        """Answer for the partition's groups once they are made, which is done in portions.

        Until all of them are there, they answer that they are being loaded.
        """
        with self._context.outbox.turn():
            self._context.portions.begin(self._adopt(partition, self._loaders[partition]))

    def unload(self, partition: int) -> None:
        """Give a partition up: parked requests are answered with NOT_COORDINATOR, in portions."""
        self._loaders.pop(partition, None)
        self._unread.pop(partition, None)
        self._rewrites.forget(partition)
        with self._context.outbox.turn():
            gone = self._table.close(partition)
            if gone:
                self._leaving[partition] = self._leaving.get(partition, 0) + 1
                self._context.portions.begin(self._let_go(partition, gone))

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
        for group_id in [group.group_id for group in self._table.groups_of(partition)]:
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

    def _adopt(self, partition: int, loader: PartitionLoader) -> Steps:
        """Make the groups of a partition, show them all at once, then start their sessions."""

        def is_over() -> bool:
            return self._loaders.get(partition) is not loader

        while partition in self._leaving and not is_over():
            # Deadlines go by names: those of the groups before must be gone.
            yield PORTION
        groups: dict[str, Group] = {}
        wall_ms = self._context.clock.wall_ms()
        for cost in loader.make_groups(groups, self._table.pinned, wall_ms=wall_ms):
            if is_over():
                break
            yield cost
        if is_over():
            yield from _count_out(groups)
            return
        del self._loaders[partition]
        self._table.open(partition, groups)
        # Counted only now: a rewrite of a partition that is half loaded would lose the rest.
        self._rewrites.appended(partition, loader.loaded_bytes)
        self._unread[partition] = loader.unread
        if loader.unread.is_in_log_only:
            self._rewrites.hold(partition)
        yield from self._begin_sessions([*groups.values()])

    def _begin_sessions(self, groups: list[Group]) -> Steps:
        """Let members be silent from now on; some may have been heard of since they are shown."""
        for number, group in enumerate(groups):
            if number % GROUPS_TOGETHER == 0:
                yield 1
            if self._table.groups.get(group.group_id) is not group:
                continue
            members = [*group.members.values()]
            is_too_large = len(members) > self._context.config.group_size_max
            if is_too_large and group.state is GroupState.STABLE:
                self._rebalances.prepare(group, "loaded with more members than allowed")
            for at, member in enumerate(members):
                self._rebalances.keep_alive_if_there(group, member)
                if at % MEMBERS_TOGETHER == 0:
                    yield 1

    def _let_go(self, partition: int, groups: list[Group]) -> Steps:
        while groups:
            # Taken out one by one: to free thousands of them at the end would be a long turn.
            yield from self._let_group_go(groups.pop())
            if len(groups) % GROUPS_TOGETHER == 0:
                yield 1
        left = self._leaving.pop(partition) - 1
        if left:
            self._leaving[partition] = left

    def _let_group_go(self, group: Group) -> Steps:
        group.count_in(None)
        refused = ErrorCode.NOT_COORDINATOR
        for number, member in enumerate([*group.members.values()]):
            self._context.newcomers.pop(member, None)
            was_told = member.answer_join(JoinReply(error=refused, member_id=member.member_id))
            was_told |= member.answer_sync(SyncReply(error=refused))
            self._cancel(DeadlineKind.SESSION, group, member.member_id)
            if was_told or number % MEMBERS_TOGETHER == 0:
                yield TO_TELL if was_told else 1
        for number, member_id in enumerate(group.pending):
            self._cancel(DeadlineKind.PENDING_MEMBER, group, member_id)
            if number % MEMBERS_TOGETHER == 0:
                yield 1
        self._cancel(DeadlineKind.JOIN, group)
        self._cancel(DeadlineKind.SYNC, group)

    def _cancel(self, kind: DeadlineKind, group: Group, member_id: str = "") -> None:
        self._context.deadlines.cancel(DeadlineKey(kind, group.group_id, member_id))


def _count_out(groups: dict[str, Group]) -> Steps:
    """Let groups go that nobody has seen."""
    while groups:
        groups.popitem()[1].count_in(None)
        if len(groups) % GROUPS_TOGETHER == 0:
            yield 1
