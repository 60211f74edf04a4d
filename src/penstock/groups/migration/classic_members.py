"""Members of the classic protocol in a consumer group: JoinGroup, SyncGroup, Heartbeat, LeaveGroup.

    JoinGroup   decided like a heartbeat that joins, in the same batches; its metadata says what the
                member reads. Answer: its epoch as the generation, and a leader that is nobody
    SyncGroup   what the member has, in the encoding of the consumer protocol
    Heartbeat   REBALANCE_IN_PROGRESS while the member has to join again

    has to join again:  it is behind the group's epoch, or has to give partitions up, or all that it
                        waits for is free

A member that is told so has its rebalance timeout to join, and the same time to ask for what it got
then. One that reads incrementally gives partitions up before it takes the target's epoch, as
members of KIP-848 do; one that gives all up before it joins owns nothing then.

Source: Kafka, GroupMetadataManager (classicGroupJoinToConsumerGroup and the same for
Sync, Heartbeat and Leave); KIP-848.
"""

from collections.abc import Callable
from functools import partial

from penstock.coordinator.errors import MalformedRecord
from penstock.groups.assigned.currents import Current, MemberState
from penstock.groups.assigned.messages import JOIN_EPOCH, LEFT_EPOCH, HeartbeatReply
from penstock.groups.classic.subscription import CONSUMER_PROTOCOL_TYPE
from penstock.groups.cluster import Cluster
from penstock.groups.consumer.group import ConsumerGroup
from penstock.groups.consumer.heartbeats import Heartbeats
from penstock.groups.consumer.messages import ClassicJoin, ConsumerHeartbeat
from penstock.groups.consumer.owners import of_others
from penstock.groups.consumer.records import ClassicFacts, MemberFacts
from penstock.groups.context import Context
from penstock.groups.deadlines import DeadlineKey, DeadlineKind
from penstock.groups.messages import (
    NO_MEMBER_ID,
    Heartbeat,
    JoinCallback,
    JoinGroup,
    JoinReply,
    LeaveReply,
    LeftMember,
    MemberIdentity,
    SyncGroup,
    SyncReply,
)
from penstock.groups.migration.claims import names_of, with_ids, with_names
from penstock.groups.migration.consumer_protocol import (
    Subscription,
    encode_assignment,
    read_subscription,
    version_of,
)
from penstock.protocol.error_codes import ErrorCode

NOBODY = ""
"""The leader of a generation in which the coordinator assigns."""


class ClassicMembers:
    """Answers requests of the classic protocol for consumer groups."""

    __slots__ = ("_cluster", "_context", "_heartbeats")

    def __init__(self, context: Context, cluster: Cluster, heartbeats: Heartbeats) -> None:
        self._context = context
        self._cluster = cluster
        self._heartbeats = heartbeats

    def join(
        self,
        group: ConsumerGroup,
        request: JoinGroup,
        reply: JoinCallback,
        again: Callable[[], None],
    ) -> None:
        """Answer a join once it is durable. `again` asks the group that this one may become."""
        subscription = _subscription(group, request)
        if subscription is None:
            error = ErrorCode.INCONSISTENT_GROUP_PROTOCOL
            reply(JoinReply(error=error, member_id=request.member_id))
            return
        member_id, is_known = request.member_id, request.member_id != NO_MEMBER_ID
        if not is_known:
            member_id = self._context.new_member_id(request.client_id, request.instance_id)
            if request.member_id_required and request.instance_id is None:
                # Nothing is kept of it: any id may join that this group has not seen.
                reply(JoinReply(error=ErrorCode.MEMBER_ID_REQUIRED, member_id=member_id))
                return
        beat = ConsumerHeartbeat(
            group_id=group.group_id,
            member_id=member_id,
            member_epoch=JOIN_EPOCH,
            instance_id=request.instance_id,
            rack_id=subscription.rack_id,
            rebalance_timeout_ms=max(0, request.rebalance_timeout_ms),
            topics=subscription.topics,
            regex="",
            owned=with_ids(subscription.owned, self._cluster),
            client_id=request.client_id,
            client_host=request.client_host,
            classic=ClassicJoin(
                ClassicFacts(request.session_timeout_ms, request.protocols), is_known
            ),
        )

        def told(answer: HeartbeatReply) -> None:
            if answer.error:
                reply(JoinReply(error=answer.error, member_id=request.member_id))
                return
            self._expect_sync(group, member_id, request.rebalance_timeout_ms)
            reply(
                JoinReply(
                    error=ErrorCode.NONE,
                    member_id=member_id,
                    generation=answer.member_epoch,
                    protocol_type=CONSUMER_PROTOCOL_TYPE,
                    protocol_name=request.protocols[0].name,
                    leader_id=NOBODY,
                )
            )

        self._heartbeats.heartbeat(group, beat, told, again)

    def sync(self, group: ConsumerGroup, request: SyncGroup) -> SyncReply:
        """Return what a member has been given, unless it has to join again first."""
        error = _refusal(group, request.member_id, request.instance_id, request.generation)
        if error is not None:
            return SyncReply(error=error)
        facts, current = group.facts[request.member_id], group.currents[request.member_id]
        protocol_name = _offered(facts).protocols[0].name
        if request.protocol_type not in (None, CONSUMER_PROTOCOL_TYPE) or (
            request.protocol_name not in (None, protocol_name)
        ):
            return SyncReply(error=ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
        if group.epoch > current.epoch and current.state is not MemberState.UNREVOKED:
            self._expect_join(group, request.member_id, facts)
            return SyncReply(error=ErrorCode.REBALANCE_IN_PROGRESS)
        self._context.deadlines.cancel(_key(DeadlineKind.SYNC, group, request.member_id))
        self._heartbeats.keep_alive(group, request.member_id)
        named = with_names(current.assigned, names_of(facts.topics, self._cluster))
        return SyncReply(
            error=ErrorCode.NONE,
            protocol_type=CONSUMER_PROTOCOL_TYPE,
            protocol_name=protocol_name,
            assignment=encode_assignment(_version(facts), named),
        )

    def heartbeat(self, group: ConsumerGroup, request: Heartbeat) -> ErrorCode:
        """Keep a member alive, and tell it when it has to join again."""
        error = _refusal(group, request.member_id, request.instance_id, request.generation)
        if error is not None:
            return error
        self._heartbeats.keep_alive(group, request.member_id)
        if has_to_rejoin(group, request.member_id):
            self._expect_join(group, request.member_id, group.facts[request.member_id])
            return ErrorCode.REBALANCE_IN_PROGRESS
        self._heartbeats.look_at_topics(group)
        return ErrorCode.NONE

    def leave(
        self,
        group: ConsumerGroup,
        identities: tuple[MemberIdentity, ...],
        again: Callable[[MemberIdentity], None],
    ) -> LeaveReply:
        """Let members go. As in a classic group, that is not durable yet when it is answered.

        `again` lets one go from the group that this one may become meanwhile.
        """
        if group.is_dead or self._heartbeats.is_busy(group):
            return LeaveReply(error=ErrorCode.COORDINATOR_NOT_AVAILABLE)
        return LeaveReply(
            error=ErrorCode.NONE,
            members=tuple(
                LeftMember(each, self._leave_one(group, each, again)) for each in identities
            ),
        )

    def _leave_one(
        self,
        group: ConsumerGroup,
        identity: MemberIdentity,
        again: Callable[[MemberIdentity], None],
    ) -> ErrorCode:
        member_id = identity.member_id
        if identity.instance_id is not None:
            owner = group.static_members.get(identity.instance_id)
            if owner is None:
                return ErrorCode.UNKNOWN_MEMBER_ID
            if member_id not in (NO_MEMBER_ID, owner):
                return ErrorCode.FENCED_INSTANCE_ID
            member_id = owner
        facts = group.facts.get(member_id)
        if facts is None or facts.classic is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        going = ConsumerHeartbeat(
            group_id=group.group_id, member_id=member_id, member_epoch=LEFT_EPOCH
        )
        self._heartbeats.heartbeat(group, going, lambda _: None, partial(again, identity))
        return ErrorCode.NONE

    # Deadlines

    def _expect_join(self, group: ConsumerGroup, member_id: str, facts: MemberFacts) -> None:
        """Give a member its rebalance timeout to join again, once for each time."""
        key = _key(DeadlineKind.JOIN, group, member_id)
        if self._context.deadlines.at(key) is None:
            self._set(key, facts.rebalance_timeout_ms)

    def _expect_sync(self, group: ConsumerGroup, member_id: str, timeout_ms: int) -> None:
        """It has joined: give it the same time to ask for what it got."""
        self._context.deadlines.cancel(_key(DeadlineKind.JOIN, group, member_id))
        self._set(_key(DeadlineKind.SYNC, group, member_id), timeout_ms)
        self._heartbeats.keep_alive(group, member_id)

    def _set(self, key: DeadlineKey, timeout_ms: int) -> None:
        at_ms = self._context.clock.monotonic_ms() + max(0, timeout_ms)
        self._context.deadlines.set(key, at_ms)


def has_to_rejoin(group: ConsumerGroup, member_id: str) -> bool:
    """Whether a member of the classic protocol is to join again: see the module."""
    current = group.currents[member_id]
    if current.epoch < group.epoch or current.state is MemberState.UNREVOKED:
        return True
    return current.state is MemberState.UNRELEASED and _is_all_free(group, member_id, current)


def _is_all_free(group: ConsumerGroup, member_id: str, current: Current) -> bool:
    """Whether no partition that a member is to get is still had by another one."""
    target = group.targets.get(member_id)
    wanted = {} if target is None else target.partitions
    return not any(
        of_others(
            group.owners.get(topic_id, {}),
            member_id,
            numbers - current.assigned.get(topic_id, frozenset()),
        )
        for topic_id, numbers in wanted.items()
    )


def _refusal(
    group: ConsumerGroup, member_id: str, instance_id: str | None, generation: int
) -> ErrorCode | None:
    """Return why a request may not act for a member of this generation, or None."""
    if group.is_dead:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    if instance_id is not None:
        owner = group.static_members.get(instance_id)
        if owner is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        if owner != member_id:
            return ErrorCode.FENCED_INSTANCE_ID
    facts, current = group.facts.get(member_id), group.currents.get(member_id)
    if facts is None or current is None or facts.classic is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    return None if generation == current.epoch else ErrorCode.ILLEGAL_GENERATION


def _subscription(group: ConsumerGroup, request: JoinGroup) -> Subscription | None:
    """Return what a member asks for by its first protocol; None if it can not be a member."""
    if request.protocol_type != CONSUMER_PROTOCOL_TYPE or not request.protocols:
        return None
    if not _has_common_protocol(group, request):
        return None
    try:
        return read_subscription(request.protocols[0].metadata)
    except MalformedRecord:
        return None


def _has_common_protocol(group: ConsumerGroup, request: JoinGroup) -> bool:
    """Whether all members of the classic protocol offer one that the newcomer offers too."""
    common = {protocol.name for protocol in request.protocols}
    if not group.tables.classic_count:
        return True
    for facts in group.facts.values():
        if facts.classic is not None:
            common.intersection_update(name for name, _ in facts.classic.protocols)
            if not common:
                return False
    return True


def _offered(facts: MemberFacts) -> ClassicFacts:
    assert facts.classic is not None, "the member uses the classic protocol"
    return facts.classic


def _version(facts: MemberFacts) -> int:
    return version_of(_offered(facts).protocols[0].metadata)


def _key(kind: DeadlineKind, group: ConsumerGroup, member_id: str) -> DeadlineKey:
    return DeadlineKey(kind, group.group_id, member_id)
