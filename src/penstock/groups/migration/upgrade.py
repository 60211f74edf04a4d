"""A classic group becomes a consumer group when a member of KIP-848 joins it.

    join ─► may it? ─► all that members say is read ─► frozen ─► drafted ─► one write ─► confirmed
              │ no            │ malformed                                       │ refused
              └───────────────┴──► GROUP_ID_NOT_FOUND, the reason               └──► as it was

The members keep their ids, and what they had; their generation is their epoch and that of the
group. Then the join is decided as in any consumer group, and the new epoch makes them join again.
While the group is frozen it is Dead: requests for it are told to retry. Joins and syncs that are
open wait, and are told in the end to join again.

Source: Kafka, GroupMetadataManager (validateOnlineUpgrade, convertToConsumerGroup); KIP-848,
"Upgrade to KIP-848".
"""

import logging
from collections.abc import Callable, Generator

from penstock.assignors.partitions import NOTHING
from penstock.base.ids import MemberEpoch
from penstock.coordinator.errors import MalformedRecord
from penstock.coordinator.portions import TO_WRITE, Steps
from penstock.groups.assigned.currents import Current, MemberState
from penstock.groups.assigned.messages import HeartbeatCallback, HeartbeatReply, refused
from penstock.groups.assigned.names import Kind
from penstock.groups.assigned.targets import GroupEpoch, Target, TargetEpoch
from penstock.groups.classic.group import Group, GroupState
from penstock.groups.classic.letting_go import let_go
from penstock.groups.classic.member import Member
from penstock.groups.classic.rebalance import Rebalances
from penstock.groups.classic.subscription import CONSUMER_PROTOCOL_TYPE
from penstock.groups.cluster import Cluster
from penstock.groups.consumer.draft import Draft
from penstock.groups.consumer.group import ConsumerGroup
from penstock.groups.consumer.heartbeats import Heartbeats
from penstock.groups.consumer.records import ClassicFacts, MemberFacts
from penstock.groups.context import Context
from penstock.groups.deadlines import DeadlineKey, DeadlineKind
from penstock.groups.migration.claims import Claims, protocol_of, said_by, settled_members
from penstock.groups.migration.consumer_protocol import Subscription
from penstock.groups.migration.conversion import Conversion
from penstock.groups.table import GroupTable
from penstock.protocol.error_codes import ErrorCode

TO_READ = 3
"""Cost of reading what one member says, and of drafting its records (portions.py)."""
TO_DRAFT = 12

_log = logging.getLogger("penstock.groups")


class Upgrades:
    """Turns classic groups into consumer groups."""

    __slots__ = ("_cluster", "_context", "_heartbeats", "_rebalances", "_table")

    def __init__(
        self,
        context: Context,
        table: GroupTable,
        cluster: Cluster,
        heartbeats: Heartbeats,
        rebalances: Rebalances,
    ) -> None:
        self._context = context
        self._table = table
        self._cluster = cluster
        self._heartbeats = heartbeats
        self._rebalances = rebalances

    def begin(self, group: Group, reply: HeartbeatCallback, again: Callable[[], None]) -> None:
        """Convert a group with members, then ask `again`; or reply why it stays as it is."""
        reason = self._refusal(group)
        if reason is not None:
            reply(refused(ErrorCode.GROUP_ID_NOT_FOUND, _text(group, reason)))
            return
        self._context.portions.begin(self._upgraded(group, reply, again))

    def _refusal(self, group: Group) -> str | None:
        config = self._context.config
        if not config.migration_policy.allows_upgrades:
            return "online upgrade is disabled"
        if group.protocol_type != CONSUMER_PROTOCOL_TYPE:
            return "the group does not use the consumer embedded protocol"
        if len(group.members) >= config.group_size_max:
            return "the group size exceeds the consumer group maximum size"
        return None

    def _upgraded(self, group: Group, reply: HeartbeatCallback, again: Callable[[], None]) -> Steps:
        reason = yield from _unreadable(group)
        if group.is_dead or group.is_empty or not self._is_there(group):
            # Another join was first, or all have left: what is there now answers.
            again()
            return
        reason = reason or self._refusal(group)
        if reason is not None:
            reply(refused(ErrorCode.GROUP_ID_NOT_FOUND, _text(group, reason)))
            return
        frozen = _Frozen(group, self._context, self._rebalances)
        try:
            yield from self._frozen(frozen, reply, again)
        except MalformedRecord:
            self._thaw(frozen)
            reply(refused(ErrorCode.GROUP_ID_NOT_FOUND, _text(group, _MALFORMED)))
        except Exception:
            # A mistake of ours: it is logged by who runs this, and must not stop the group.
            self._thaw(frozen)
            reply(HeartbeatReply(error=ErrorCode.UNKNOWN_SERVER_ERROR))
            raise

    def _frozen(
        self, frozen: "_Frozen", reply: HeartbeatCallback, again: Callable[[], None]
    ) -> Steps:
        group = frozen.group
        new = self._table.new(group.group_id, ConsumerGroup)
        draft = yield from _drafted(group, new, frozen.protocol_name, self._cluster)
        yield from new.records.prepare(draft.changes)
        if not self._is_there(group):
            reply(HeartbeatReply(error=ErrorCode.NOT_COORDINATOR))
            return
        change = Conversion(
            table=self._table,
            old=group,
            new=new,
            gone=dict.fromkeys(group.metadata.keys()),
            made=draft.changes,
            wall_ms=self._context.clock.wall_ms,
            on_confirmed=lambda: self._take_over(group, new),
            on_refused=frozen.thaw,
        )

        def done(error: ErrorCode | None) -> None:
            if error is None:
                again()
                return
            if not change.is_begun:
                self._thaw(frozen)
            reply(_failed(group, error))

        self._context.writer.append(new, change, done)
        yield TO_WRITE + len(draft.changes)

    def _thaw(self, frozen: "_Frozen") -> None:
        """Let a group go on, unless its partition has moved away."""
        if self._is_there(frozen.group):
            frozen.thaw()

    def _is_there(self, group: Group) -> bool:
        return self._table.groups.get(group.group_id) is group

    def _take_over(self, group: Group, new: ConsumerGroup) -> None:
        """The conversion is durable: the members' sessions go on, and open requests are told."""
        self._context.counters.groups_upgraded += 1
        _log.info(
            "group=%s epoch=%d members=%d: classic group became a consumer group",
            new.group_id,
            new.epoch,
            new.member_count,
        )
        begin = self._context.portions.begin
        begin(new.records.let_go())
        begin(self._heartbeats.begin(new))
        error = ErrorCode.REBALANCE_IN_PROGRESS
        begin(let_go(self._context, group, error, stay=frozenset(new.facts)))


class _Frozen:
    """A classic group that does not change while it is converted."""

    def __init__(self, group: Group, context: Context, rebalances: Rebalances) -> None:
        self.group = group
        self.protocol_name = protocol_of(group)
        self._context = context
        self._rebalances = rebalances
        self._state, self._member_count = group.state, group.member_count
        group.die(context.clock.wall_ms())

    def thaw(self) -> None:
        """Let the group go on where it was; what came due meanwhile is made up for."""
        group, rebalances = self.group, self._rebalances
        if group.state is not GroupState.DEAD:
            return
        group.state = self._state
        if self._state is GroupState.PREPARING:
            key = DeadlineKey(DeadlineKind.JOIN, group.group_id)
            if self._context.deadlines.at(key) is None:
                at_ms = self._context.clock.monotonic_ms() + group.rebalance_timeout_ms
                self._context.deadlines.set(key, at_ms)
            rebalances.complete_if_all_joined(group)
        elif self._state is GroupState.COMPLETING or group.member_count != self._member_count:
            rebalances.prepare(group, "it was not converted")


_MALFORMED = "the embedded consumer protocol is malformed"
_CUSTOM = (
    "an unsupported custom assignor is in use. Please refer to the documentation or switch to a "
    "default assignor before re-attempting the upgrade"
)


def _text(group: Group, reason: str) -> str:
    return f"Cannot upgrade classic group {group.group_id} to consumer group because {reason}."


def _failed(group: Group, error: ErrorCode) -> HeartbeatReply:
    if error is ErrorCode.MESSAGE_TOO_LARGE:
        reason = "its records together are too large for one batch"
        return refused(ErrorCode.GROUP_ID_NOT_FOUND, _text(group, reason))
    return HeartbeatReply(error=error)


def _unreadable(group: Group) -> Generator[int, None, str | None]:
    """Return why the members can not be taken over, or None; the group may change meanwhile."""
    protocol_name = protocol_of(group)
    for member in settled_members(group):
        try:
            _, given = said_by(member, protocol_name)
        except MalformedRecord:
            # Not if another protocol was chosen while this went on: then all is read once more.
            return _MALFORMED if protocol_name == protocol_of(group) else None
        if given.has_user_data:
            return _CUSTOM
        yield TO_READ
    return None


def _drafted(
    group: Group, new: ConsumerGroup, protocol_name: str | None, cluster: Cluster
) -> Generator[int, None, Draft]:
    """Return the records of the new group. Raises MalformedRecord."""
    draft, claims = Draft(new), Claims(cluster)
    members, said = [*settled_members(group)], {}
    for member in members:
        said[member.member_id], given = said_by(member, protocol_name)
        claims.claim(member.member_id, given.partitions)
        yield TO_READ
    later_first = sorted(said.items(), key=lambda each: -each[1].generation)
    for member_id, subscription in later_first:
        claims.claim(member_id, subscription.owned)
        yield 1
    # Without a hash of topics: the next batch finds that they are others, and raises the epoch.
    epoch = MemberEpoch(group.generation)
    draft.put(Kind.GROUP, "", GroupEpoch(epoch))
    for member in members:
        member_id, had = member.member_id, claims.of(member.member_id)
        draft.put_facts(member_id, _facts(member, said[member_id]))
        draft.put(Kind.TARGET, member_id, Target(had))
        current = Current(epoch, epoch, MemberState.STABLE, had, NOTHING)
        draft.put_current(member_id, current)
        yield TO_DRAFT
    draft.put(Kind.TARGET_EPOCH, "", TargetEpoch(epoch))
    return draft


def _facts(member: Member, subscription: Subscription) -> MemberFacts:
    return MemberFacts(
        instance_id=member.instance_id,
        rack_id=subscription.rack_id,
        client_id=member.client_id,
        client_host=member.client_host,
        topics=subscription.topics,
        regex=None,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        assignor=None,
        classic=ClassicFacts(member.session_timeout_ms, member.protocols),
    )
