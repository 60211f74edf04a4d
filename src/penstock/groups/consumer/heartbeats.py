"""Heartbeats of consumer groups: who comes, goes and is lost, and who has which partitions.

What is common to groups whose members give up before others get is in assigned/reconciling.py.

Source: KIP-848; Kafka, GroupMetadataManager.consumerGroupHeartbeat (order of the steps).
"""

from collections.abc import Generator
from functools import partial

from penstock.coordinator.portions import PORTION, POSITIONS, TO_WRITE, Steps
from penstock.groups.assigned.currents import NEW, Current, MemberState
from penstock.groups.assigned.messages import LEFT_EPOCH, HeartbeatReply, refused
from penstock.groups.assigned.reconciling import WAITING_INTERVAL_MS, Reconciling
from penstock.groups.assigned.waiting import Asked
from penstock.groups.cluster import Cluster
from penstock.groups.consumer.checks import member_refusal, regex_refusal
from penstock.groups.consumer.draft import Draft
from penstock.groups.consumer.group import LEFT_STATIC_EPOCH, ConsumerGroup
from penstock.groups.consumer.members import apply_request, leave
from penstock.groups.consumer.messages import ConsumerHeartbeat
from penstock.groups.consumer.retarget import is_to_be_compared, retarget
from penstock.groups.consumer.tables import is_classic
from penstock.groups.context import AssignedTimes, Context
from penstock.groups.deadlines import DeadlineKey, DeadlineKind
from penstock.groups.migration.downgrade import Downgrades
from penstock.groups.table import GroupTable
from penstock.protocol.error_codes import ErrorCode

NO_MEMBER = ""


class Heartbeats(Reconciling[ConsumerGroup, Draft, ConsumerHeartbeat]):
    """Decides on heartbeats and deadlines of consumer groups."""

    def __init__(
        self, context: Context, table: GroupTable, cluster: Cluster, downgrades: Downgrades
    ) -> None:
        super().__init__(context, table, cluster)
        self._downgrades = downgrades

    def look_at_topics(self, group: ConsumerGroup) -> None:
        """Begin a batch if topics have changed, or the target is not of this epoch yet.

        Members of the classic protocol see changes of topics by this alone.
        """
        if not self._is_quiet(group) and not self.is_busy(group):
            self._enqueue(group, Asked(NO_MEMBER, None, lambda _: None))

    def times(self, group_id: str) -> AssignedTimes:
        """As in Batches."""
        return self._context.consumer_times(group_id)

    @property
    def _size_max(self) -> int:
        return self._context.config.group_size_max

    def _is_to_be_compared(self, group: ConsumerGroup) -> bool:
        return is_to_be_compared(group, self._cluster, self._context.clock.monotonic_ms())

    def _new_draft(self, group: ConsumerGroup) -> Draft:
        return Draft(group)

    def _count_rebalance(self) -> None:
        self._context.counters.consumer_rebalances += 1

    def _member_refusal(self, draft: Draft, request: ConsumerHeartbeat) -> HeartbeatReply | None:
        return member_refusal(draft, request)

    def _applied(self, draft: Draft, request: ConsumerHeartbeat) -> bool:
        return apply_request(draft, request)

    def _retarget(self, draft: Draft, group: ConsumerGroup) -> Steps:
        return retarget(draft, group, self._cluster, self._context.clock)

    def _admit(
        self,
        draft: Draft,
        group: ConsumerGroup,
        asked: Asked[ConsumerHeartbeat],
        request: ConsumerHeartbeat,
    ) -> Steps:
        """Refuse an expression that is not one: each new one is compiled in a turn of its own."""
        if request.regex and request.regex not in group.resolved:
            asked.answer = regex_refusal(group, draft, request.regex)
            yield PORTION
        if asked.answer is None:
            asked.answer = self._admitted(draft, request)
        if asked.answer is None and request.regex:
            group.sights[request.regex] = request.may_see

    def _admitted(self, draft: Draft, request: ConsumerHeartbeat) -> HeartbeatReply | None:
        refusal = member_refusal(draft, request)
        if refusal is not None:
            return refusal
        if request.member_epoch in (LEFT_EPOCH, LEFT_STATIC_EPOCH):
            leave(draft, request)
            return HeartbeatReply(
                error=ErrorCode.NONE,
                member_id=request.member_id,
                member_epoch=request.member_epoch,
            )
        if _is_new(draft, request) and draft.member_count >= self._size_max:
            text = f"Group {request.group_id} has {self._size_max} members already,"
            return refused(ErrorCode.GROUP_MAX_SIZE_REACHED, f"{text} which is the limit")
        apply_request(draft, request)
        return None

    def _is_converted(
        self, draft: Draft, group: ConsumerGroup, batch: list[Asked[ConsumerHeartbeat]]
    ) -> Generator[int, None, bool]:
        """Write that the group becomes a classic one, of which requests are asked anew then."""
        conversion = yield from self._downgrades.made(group, draft)
        if conversion is None:
            return False
        yield from group.records.prepare(conversion.gone)
        if group.is_dead:
            self._end(group, batch, ErrorCode.NOT_COORDINATOR)
            return True
        written = partial(self._written, group, batch)
        self._context.writer.append(conversion.new, conversion, written)
        if not conversion.is_begun:
            self._on_settled(group)
        yield TO_WRITE + len(conversion.records) // POSITIONS
        return True

    # Deadlines

    def _is_due(self, draft: Draft, due: DeadlineKey) -> bool:
        is_of_classic = due.kind in {DeadlineKind.JOIN, DeadlineKind.SYNC}
        if is_of_classic and not is_classic(draft.facts(due.member_id)):
            return False  # it has gone over to KIP-848 since
        if due.kind is DeadlineKind.JOIN:
            current = draft.current(due.member_id) or NEW
            return current.epoch != draft.epoch or current.state is not MemberState.STABLE
        return due.kind is DeadlineKind.SYNC or super()._is_due(draft, due)

    def _session_timeout_ms(self, group: ConsumerGroup, member_id: str) -> int:
        """One of the classic protocol has said how long its session is."""
        facts = group.facts.get(member_id)
        if facts is None or facts.classic is None:
            return super()._session_timeout_ms(group, member_id)
        return facts.classic.session_timeout_ms

    def _cancel(self, group: ConsumerGroup, member_id: str) -> None:
        super()._cancel(group, member_id)
        for kind in (DeadlineKind.JOIN, DeadlineKind.SYNC):
            self._context.deadlines.cancel(DeadlineKey(kind, group.group_id, member_id))

    # Answers

    def _told(
        self, group: ConsumerGroup, request: ConsumerHeartbeat, before: Current, after: Current
    ) -> HeartbeatReply:
        interval_ms = self.times(group.group_id).heartbeat_interval_ms
        if after.state is MemberState.UNRELEASED:
            interval_ms = min(interval_ms, WAITING_INTERVAL_MS)
        is_lost = request.member_epoch != before.epoch
        is_told = is_lost or request.is_full or before.assigned != after.assigned
        return HeartbeatReply(
            error=ErrorCode.NONE,
            member_id=request.member_id,
            member_epoch=after.epoch,
            heartbeat_interval_ms=interval_ms,
            assignment=after.assigned if is_told else None,
        )


def _is_new(draft: Draft, request: ConsumerHeartbeat) -> bool:
    """Whether a join adds a member; a static one may come back under another id."""
    instance_id = request.instance_id
    is_back = instance_id is not None and draft.member_of(instance_id) is not None
    return draft.facts(request.member_id) is None and not is_back
