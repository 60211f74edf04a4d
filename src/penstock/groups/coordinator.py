"""The group coordinator: finds the group, makes the common checks, and passes requests on.

    handlers ──► GroupCoordinator ──► joining, syncing, leaving (classic), heartbeats (consumer,
                        ▲             share and streams groups), commits, expiry: the rules
                        │                     │
                        └── answers ◄── outbox◄┘         writes ──► journal ──► internal topic

Single owner: all calls come from one thread, answers run on it, and nothing blocks. A group belongs
to a partition of the internal topic. `runtime` loads, unloads and rewrites these partitions and
handles deadlines (penstock.coordinator).

Source: Kafka, GroupCoordinator.scala and GroupCoordinatorService.java (order of the checks).
An empty classic group becomes one of another kind when such a member joins, and an empty consumer
or streams group a classic one; a classic and a consumer group with members become one of the other
kind with all of them (migration/). A share group keeps its kind. Deliberately not here: ACLs.
"""

from collections.abc import Callable, Iterable, Mapping
from functools import partial

from penstock.base.ports import Clock
from penstock.coordinator.journal import Journal
from penstock.coordinator.outbox import Later
from penstock.coordinator.runtime import CoordinatorConfig, CoordinatorRuntime, Foundation
from penstock.groups.classic.answering import Answering
from penstock.groups.classic.group import Group
from penstock.groups.classic.joining import Joining
from penstock.groups.classic.leaving import leave
from penstock.groups.classic.rebalance import Rebalances
from penstock.groups.classic.syncing import Syncing
from penstock.groups.cluster import Cluster
from penstock.groups.config import GroupConfig, MigrationPolicy
from penstock.groups.consumer.group import ConsumerGroup
from penstock.groups.consumer.heartbeats import Heartbeats
from penstock.groups.consumer.membership import ConsumerMembership
from penstock.groups.context import Context
from penstock.groups.counters import GroupCounters
from penstock.groups.deadlines import DeadlineKey, DeadlineKind
from penstock.groups.deletions import Deletions
from penstock.groups.expiry import VACANT_MS
from penstock.groups.journal import GroupWriter
from penstock.groups.kinds import change_kind
from penstock.groups.messages import (
    NO_MEMBER_ID,
    CommitCallback,
    CommitOffsets,
    DeleteGroupsCallback,
    DeleteOffsetsCallback,
    DeleteOffsetsReply,
    Heartbeat,
    JoinCallback,
    JoinGroup,
    JoinReply,
    LeaveReply,
    LeftMember,
    MemberIdentity,
    SyncCallback,
    SyncGroup,
    SyncReply,
)
from penstock.groups.migration.classic_members import ClassicMembers
from penstock.groups.migration.downgrade import Downgrades
from penstock.groups.migration.upgrade import Upgrades
from penstock.groups.offsets.commits import Commits
from penstock.groups.reading import GroupReading
from penstock.groups.records import TopicKey
from penstock.groups.shard import Deciders, GroupShard
from penstock.groups.share.group import ShareGroup
from penstock.groups.share.heartbeats import ShareHeartbeats
from penstock.groups.share.membership import ShareMembership
from penstock.groups.streams.group import StreamsGroup
from penstock.groups.streams.heartbeats import StreamsHeartbeats
from penstock.groups.streams.membership import StreamsMembership
from penstock.groups.table import GroupTable
from penstock.protocol.error_codes import ErrorCode

_INSTANCE_ID_CHARACTERS_MAX = 249


class GroupCoordinator:
    """All groups whose internal partitions this broker is master of."""

    def __init__(
        self,
        clock: Clock,
        journal: Journal,
        *,
        config: GroupConfig,
        new_suffix: Callable[[], str],
        cluster: Cluster,
        later: Later | None = None,
    ) -> None:
        """Own no partition yet. `new_suffix` returns a unique text, such as a UUID's.

        `later` runs a callback in a later iteration of the loop, for long work and many answers.
        """
        self.config = config
        self.counters = GroupCounters()
        base: Foundation[DeadlineKey] = Foundation(_runtime_config(config), journal, later)
        self._outbox = base.outbox
        self._table = GroupTable(config, clock, base.partitions)
        self._context = Context(
            config=config,
            clock=clock,
            deadlines=base.deadlines,
            writer=GroupWriter(
                base.writes,
                self.counters,
                record_bytes_max=config.record_bytes_max,
                on_vacant=self._on_vacant,
            ),
            counters=self.counters,
            outbox=base.outbox,
            portions=base.portions,
            new_suffix=new_suffix,
            overrides=cluster.group_keys,
        )
        answering = Answering(self._context)
        self._rebalances = Rebalances(self._context, answering)
        self._joining = Joining(self._context, self._rebalances)
        self._syncing = Syncing(self._context, self._rebalances)
        self._commits = Commits(self._context, answering, self._table)
        self._deletions = Deletions(self._context, self._table, cluster.share_masters)
        self._context.writer.on_transaction_ended = self._commits.drop_rest
        shard = GroupShard(
            self._context,
            self._table,
            self._rebalances,
            self._begin_assigning(cluster),
            retention_now_ms=cluster.retention_now_ms,
        )
        self.runtime = CoordinatorRuntime(base, shard)
        """For the broker, which assigns and revokes partitions and calls `tick`."""
        self.reading = GroupReading(self._table)
        """For what changes nothing: states, members, committed positions."""

    def _begin_assigning(self, cluster: Cluster) -> Deciders:
        """Make what the kinds of groups need that the coordinator assigns; return who decides."""
        downgrades = Downgrades(self._context, self._table, cluster, self._rebalances)
        consuming = Heartbeats(self._context, self._table, cluster, downgrades)
        upgrades = Upgrades(self._context, self._table, cluster, consuming, self._rebalances)
        self._classic_members = ClassicMembers(self._context, cluster, consuming)
        self.consumers = ConsumerMembership(self._context, self._table, consuming, upgrades)
        """For the members of consumer groups (KIP-848)."""
        sharing = ShareHeartbeats(self._context, self._table, cluster)
        self.shares = ShareMembership(self._context, self._table, sharing, cluster.share_masters)
        """For the members of share groups (KIP-932), and for their administrators."""
        streaming = StreamsHeartbeats(self._context, self._table, cluster)
        self.streams = StreamsMembership(self._context, self._table, streaming)
        """For the members of streams groups (KIP-1071)."""
        return {ConsumerGroup: consuming, ShareGroup: sharing, StreamsGroup: streaming}

    def use_config(self, config: GroupConfig) -> None:
        """Go by other limits and times from now on; `partition_count` is as before."""
        self.config = self._context.config = config
        self._table.use_config(config)

    def _on_vacant(self, group_id: str) -> None:
        at_ms = self._context.clock.monotonic_ms() + VACANT_MS
        self._context.deadlines.set(DeadlineKey(DeadlineKind.VACANT, group_id), at_ms)

    # Membership

    def join(self, request: JoinGroup, reply: JoinCallback) -> None:
        """Answer a JoinGroup, perhaps much later: when the rebalance it takes part in completes."""
        with self._outbox.holding():
            self._join(request, self._outbox.wrap(reply))

    def _join(self, request: JoinGroup, reply: JoinCallback) -> None:
        error = self._table.refusal(request.group_id) or self._join_refusal(request)
        mixed = None if error else self._mixed(request.group_id)
        if mixed is not None:
            again = partial(self._join, request, reply)
            self._classic_members.join(mixed, request, reply, again)
            return
        group = None if error else self._table.classic(request.group_id)
        if error is None and group is None:
            group, error = self._create_for_join(request)
        if group is None or error is not None:
            assert error is not None
            reply(JoinReply(error=error, member_id=request.member_id))
            return
        self._joining.join(group, request, reply)

    def _mixed(self, group_id: str) -> ConsumerGroup | None:
        """Return a consumer group with members, which takes members of the classic protocol too."""
        group = self._table.groups.get(group_id)
        if not isinstance(group, ConsumerGroup) or group.is_dead or group.is_empty:
            return None
        has_some = group.tables.classic_count > 0
        is_open = self.config.migration_policy is not MigrationPolicy.DISABLED
        return group if has_some or is_open else None

    def sync(self, request: SyncGroup, reply: SyncCallback) -> None:
        """Answer a SyncGroup: when the leader's assignment is durable."""
        with self._outbox.holding():
            reply = self._outbox.wrap(reply)
            error = self._table.refusal(request.group_id)
            if error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
                # Old clients do not expect that code here; this one makes them join again.
                error = ErrorCode.REBALANCE_IN_PROGRESS
            mixed = None if error else self._mixed(request.group_id)
            if mixed is not None:
                reply(self._classic_members.sync(mixed, request))
                return
            group = self._table.classic(request.group_id)
            if error is not None or group is None:
                reply(SyncReply(error=error or ErrorCode.UNKNOWN_MEMBER_ID))
                return
            self._syncing.sync(group, request, reply)

    def heartbeat(self, request: Heartbeat) -> ErrorCode:
        """Keep a member alive; the code tells it whether to join again."""
        group = self._table.classic(request.group_id)
        if group is not None:
            return self._syncing.heartbeat(group, request)
        mixed = self._mixed(request.group_id)
        if mixed is not None:
            return self._classic_members.heartbeat(mixed, request)
        error = self._table.refusal(request.group_id)
        if error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
            # Old clients do not expect that code here; the member's session starts after loading.
            return ErrorCode.NONE
        return error or ErrorCode.UNKNOWN_MEMBER_ID

    def leave(self, group_id: str, identities: tuple[MemberIdentity, ...]) -> LeaveReply:
        """Remove members and return the outcome for each."""
        error = self._table.refusal(group_id)
        if error is not None:
            return LeaveReply(error=error)
        mixed = self._mixed(group_id)
        if mixed is not None:
            with self._outbox.holding():
                again = partial(self._leave_again, group_id)
                return self._classic_members.leave(mixed, identities, again)
        group = self._table.classic(group_id)
        if group is None:
            unknown = ErrorCode.UNKNOWN_MEMBER_ID
            members = tuple(LeftMember(identity, unknown) for identity in identities)
            return LeaveReply(error=ErrorCode.NONE, members=members)
        with self._outbox.holding():
            return leave(self._rebalances, group, identities)

    def _leave_again(self, group_id: str, identity: MemberIdentity) -> None:
        self.leave(group_id, (identity,))

    # Offsets

    def commit(self, request: CommitOffsets, reply: CommitCallback) -> None:
        """Keep offsets; the answer comes when they are durable.

        Those of a transaction are kept aside until it ends.
        """
        with self._outbox.holding():
            reply = self._outbox.wrap(reply)
            is_plain = request.writer is None
            error = self._table.refusal(request.group_id, is_empty_id_allowed=is_plain)
            group = None if error else self._table.groups.get(request.group_id)
            if error is None and group is None:
                if request.generation >= 0:
                    error = _no_group(request)
                else:
                    group, error = self._table.create_memberless(request.group_id, Group)
            if group is None or error is not None:
                assert error is not None
                reply(dict.fromkeys(request.offsets, error))
                return
            self._commits.commit(group, request, reply)

    def delete_offsets(
        self, group_id: str, keys: tuple[TopicKey, ...], reply: DeleteOffsetsCallback
    ) -> None:
        """Delete offsets of topics that nobody in the group subscribes to."""
        with self._outbox.holding():
            reply = self._outbox.wrap(reply)
            error = self._table.refusal(group_id)
            group = self._table.groups.get(group_id)
            if error is not None or group is None:
                error = error or ErrorCode.GROUP_ID_NOT_FOUND
                reply(DeleteOffsetsReply(error=error, partitions={}))
                return
            self._commits.delete(group, keys, reply)

    def on_topics_deleted(self, topics: Mapping[str, bytes]) -> None:
        """Delete, durably, the offsets of deleted topics, given as name -> topic id."""
        with self._outbox.holding():
            self._commits.drop_topics(self._table, topics)

    # Administration

    def delete_groups(self, group_ids: Iterable[str], reply: DeleteGroupsCallback) -> None:
        """Delete empty groups with their offsets; the answer comes when all of it is durable."""
        with self._outbox.holding():
            reply = self._outbox.wrap(reply)
            ids = [*dict.fromkeys(group_ids)]
            results: dict[str, ErrorCode] = {}

            def finished(group_id: str, error: ErrorCode | None) -> None:
                results[group_id] = error or ErrorCode.NONE
                if len(results) == len(ids):
                    reply({each: results[each] for each in ids})

            if not ids:
                reply({})
            self._context.portions.begin(self._deletions.delete(ids, finished))

    # State

    def partition_of(self, group_id: str) -> int:
        """Return the partition of the internal topic that a group belongs to."""
        return self._table.partition_of(group_id)

    @property
    def is_loading(self) -> bool:
        """Whether groups may be missing because a partition is still being loaded."""
        return self._table.is_loading

    @property
    def pinned_bytes(self) -> int:
        """Approximate memory of groups, members and positions, updated with every change."""
        return self._table.pinned_bytes

    @property
    def group_count(self) -> int:
        return len(self._table.groups)

    # Helpers

    def _join_refusal(self, request: JoinGroup) -> ErrorCode | None:
        config = self.config
        timeout_ms = request.session_timeout_ms
        if not config.session_timeout_min_ms <= timeout_ms <= config.session_timeout_max_ms:
            return ErrorCode.INVALID_SESSION_TIMEOUT
        instance_id = request.instance_id
        if instance_id is not None and not 0 < len(instance_id) <= _INSTANCE_ID_CHARACTERS_MAX:
            return ErrorCode.INVALID_REQUEST
        if len(request.protocols) > config.member_protocols_max:
            return ErrorCode.INVALID_REQUEST
        offered_bytes = sum(len(name) + len(metadata) for name, metadata in request.protocols)
        if offered_bytes > config.member_metadata_bytes_max:
            return ErrorCode.INVALID_REQUEST
        is_full = self._table.bounded_bytes + offered_bytes > config.members_bytes_max
        if is_full and not self._is_member(request):
            self.counters.joins_put_off += 1
            return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        return None

    def _is_member(self, request: JoinGroup) -> bool:
        group = self._table.groups.get(request.group_id)
        known = group.members if isinstance(group, Group) else ()
        return request.member_id in (group.facts if isinstance(group, ConsumerGroup) else known)

    def _create_for_join(self, request: JoinGroup) -> tuple[Group | None, ErrorCode | None]:
        if request.member_id != NO_MEMBER_ID:
            return None, ErrorCode.UNKNOWN_MEMBER_ID
        if not request.protocol_type or not request.protocols:
            return None, ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        other = self._table.groups.get(request.group_id)
        if other is None:
            return self._table.create(request.group_id)
        if other.is_dead:
            return None, ErrorCode.COORDINATOR_NOT_AVAILABLE
        if not other.is_empty or isinstance(other, ShareGroup):
            return None, ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        group = self._table.new(request.group_id, Group)
        change_kind(self._context, self._table, other, group)
        return group, None


def _no_group(request: CommitOffsets) -> ErrorCode:
    """Return what a member of a group is told that does not exist (KIP-848)."""
    return ErrorCode.GROUP_ID_NOT_FOUND if request.is_by_epoch else ErrorCode.ILLEGAL_GENERATION


def _runtime_config(config: GroupConfig) -> CoordinatorConfig:
    return CoordinatorConfig(
        kind="groups",
        partition_count=config.partition_count,
        writes_in_flight_max=config.writes_in_flight_max,
        rewrite_after_bytes=config.rewrite_after_bytes,
        rewrite_after_pinned_bytes=config.rewrite_after_pinned_bytes,
        unread_bytes_max=config.unread_bytes_max,
    )
