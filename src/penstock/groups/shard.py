"""Groups as a shard of the coordinator runtime: loading, unloading, deadlines, rewrites.

A partition may have thousands of groups and members: they are built, and answered at the end, in
portions. They become visible all at once when all are built, and are hidden all at once before any
client is answered.

Source: Kafka, GroupCoordinatorShard; handleGroupImmigration, onGroupLoaded, onGroupUnloaded.
"""

from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from typing import Any

from penstock.base.invariant import invariant
from penstock.coordinator.pending import Writer
from penstock.coordinator.portions import Steps
from penstock.coordinator.records import JournalRecord
from penstock.coordinator.unread import UnreadRecords
from penstock.coordinator.writes import Change, NoChange
from penstock.groups import expiry
from penstock.groups.assigned.batches import Batches
from penstock.groups.assigned.group import AssignedGroup
from penstock.groups.classic.group import Group, GroupState
from penstock.groups.classic.letting_go import MEMBERS_TOGETHER, let_go
from penstock.groups.classic.rebalance import Rebalances
from penstock.groups.context import Context
from penstock.groups.deadlines import DeadlineKey, DeadlineKind
from penstock.groups.group import BaseGroup
from penstock.groups.journal import live_metadata, live_records
from penstock.groups.loading import GROUPS_TOGETHER, GroupLoader
from penstock.groups.table import Groups, GroupTable
from penstock.protocol.error_codes import ErrorCode

POSITIONS_TOGETHER = 64
"""Positions in one batch of a rewrite: 256 KiB if each has the longest metadata."""
_EXPIRY = DeadlineKey(DeadlineKind.EXPIRY)

RECORDS_TOGETHER = 200
"""Records of a group in one batch of a rewrite."""

Deciders = Mapping[type[BaseGroup], Batches[Any, Any, Any]]
"""Who decides on the groups of each kind whose coordinator assigns."""


class GroupShard:
    """The groups of one coordinator (penstock.coordinator.shard describes each method)."""

    __slots__ = ("_assigned", "_context", "_rebalances", "_retention_now_ms", "_table")

    def __init__(
        self,
        context: Context,
        table: GroupTable,
        rebalances: Rebalances,
        assigned: Deciders,
        *,
        retention_now_ms: Callable[[], int],
    ) -> None:
        self._context = context
        self._table = table
        self._rebalances = rebalances
        self._assigned = assigned
        self._retention_now_ms = retention_now_ms
        self._set_expiry()

    def new_loader(self, partition: int, unread: UnreadRecords) -> GroupLoader:
        """As in Shard."""
        context = self._context
        return GroupLoader(partition, unread, context.counters, self._table.pinned, context.clock)

    def show(self, partition: int, state: Groups) -> None:
        """As in Shard."""
        self._table.open(partition, state)

    def begin(self, partition: int, state: Groups) -> Steps:
        """Start the sessions of members; some may have sent requests since they were shown."""
        for number, group in enumerate([*state.values()]):
            if number % GROUPS_TOGETHER == 0:
                yield 1
            if self._table.groups.get(group.group_id) is not group:
                continue
            if isinstance(group, AssignedGroup):
                yield from self._assigned[type(group)].begin(group)
            elif isinstance(group, Group):
                yield from self._begin_classic(group)

    def _begin_classic(self, group: Group) -> Steps:
        members = [*group.members.values()]
        is_too_large = len(members) > self._context.config.group_size_max
        # A group that was another kind of group has members, and no leader yet.
        if group.state is GroupState.STABLE and (is_too_large or group.leader_id is None):
            self._rebalances.prepare(group, "loaded with too many members, or without a leader")
        for at, member in enumerate(members):
            self._rebalances.answering.keep_alive_if_there(group, member)
            if at % MEMBERS_TOGETHER == 0:
                yield 1

    def hide(self, partition: int) -> Groups | None:
        """As in Shard."""
        return self._table.close(partition) or None

    def let_go(self, state: Groups) -> Steps:
        """Answer parked requests with NOT_COORDINATOR."""
        while state:
            # Removed one by one: freeing thousands of them at the end would block the loop.
            group = state.popitem()[1]
            group.count_in(None)
            if isinstance(group, AssignedGroup):
                yield from self._assigned[type(group)].let_go(group)
            elif isinstance(group, Group):
                yield from let_go(self._context, group, ErrorCode.NOT_COORDINATOR)
            if len(state) % GROUPS_TOGETHER == 0:
                yield 1

    def live_records(self, partition: int) -> Iterator[list[JournalRecord]]:
        """As in Shard: group by group, so that a commit between two lies before or behind them."""
        for group_id in [group.group_id for group in self._table.groups_of(partition)]:
            group = self._table.groups.get(group_id)
            if group is None:
                continue
            yield from self._own_records(group_id)
            keys = group.offsets.keys()
            while some := [*islice(keys, POSITIONS_TOGETHER)]:
                # If deleted or created anew meanwhile, its records are behind the rewrite's start.
                # A group that became one of another kind has the same positions.
                now = self._table.groups.get(group_id)
                if now is None or now.offsets is not group.offsets:
                    continue
                if records := live_records(now, some):
                    yield records

    def _own_records(self, group_id: str) -> Iterator[list[JournalRecord]]:
        """Yield the records of a group, and of the one that it is about to become."""
        for group in self._kinds_of(group_id):
            own = group.metadata.keys()
            while named := [*islice(own, RECORDS_TOGETHER)]:
                is_there = group in self._kinds_of(group_id)
                if is_there and (metadata := live_metadata(group, named)):
                    yield metadata

    def _kinds_of(self, group_id: str) -> list[BaseGroup]:
        table = self._table
        found = (table.groups.get(group_id), table.successors.get(group_id))
        return [group for group in found if group is not None]

    def ending(self, partition: int, writer: Writer, *, is_commit: bool) -> Change:
        """As in Shard: the positions of all groups in which the transaction has some."""
        table = self._table
        names = table.writers.end(partition, writer.producer_id)
        groups = [table.groups[name] for name in names if name in table.groups]
        if not groups:
            return NoChange()
        return self._context.writer.ending(groups, writer, is_commit=is_commit)

    def on_due(self, key: DeadlineKey) -> None:
        """As in Shard."""
        kind, group_id, member_id = key
        if kind is DeadlineKind.GONE:
            self._rebalances.drop_the_gone()
            return
        if kind is DeadlineKind.EXPIRY:
            self._context.portions.begin(self._expire_groups())
            return
        group = self._table.groups.get(group_id)
        if kind is DeadlineKind.VACANT:
            if group is not None:
                self._context.portions.begin(
                    expiry.expire_vacant(self._context, self._table, group)
                )
        elif isinstance(group, AssignedGroup):
            self._assigned[type(group)].on_due(group, key)
        elif isinstance(group, Group) and not _is_of_another_kind(kind, member_id):
            self._on_due_classic(group, kind, member_id)

    def _on_due_classic(self, group: Group, kind: DeadlineKind, member_id: str) -> None:
        match kind:
            case DeadlineKind.SESSION:
                self._rebalances.on_session_expired(group, member_id)
            case DeadlineKind.PENDING_MEMBER:
                self._rebalances.remove_pending(group, member_id)
                self._forget_if_void(group)
            case DeadlineKind.JOIN:
                self._rebalances.on_join_deadline(group)
            case DeadlineKind.SYNC:
                self._rebalances.on_sync_deadline(group)
            case (
                DeadlineKind.EXPIRY
                | DeadlineKind.GONE
                | DeadlineKind.REVOCATION
                | DeadlineKind.VACANT
            ):
                invariant(False, "a deadline of a classic group", kind=kind.name)

    def _forget_if_void(self, group: Group) -> None:
        """Remove a group without any record: a member id was handed out and not used."""
        if group.is_idle and not group.offsets.values and not group.metadata.values:
            self._table.forget(group)

    def _expire_groups(self) -> Steps:
        yield from expiry.expire_groups(
            self._context, self._table, wall_ms=self._retention_now_ms()
        )
        self._set_expiry()

    def _set_expiry(self) -> None:
        context = self._context
        interval_ms = context.config.expiry_check_interval_ms
        context.deadlines.set(_EXPIRY, context.clock.monotonic_ms() + interval_ms)


def _is_of_another_kind(kind: DeadlineKind, member_id: str) -> bool:
    """Whether a deadline is left over from the consumer group that a classic one was before.

    Those of its members are cancelled in portions, while time goes on.
    """
    is_of_both = kind in (DeadlineKind.JOIN, DeadlineKind.SYNC)
    return kind is DeadlineKind.REVOCATION or (is_of_both and bool(member_id))
