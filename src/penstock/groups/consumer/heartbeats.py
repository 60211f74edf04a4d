"""Heartbeats of consumer groups: who comes, goes and is lost, and who has which partitions.

    heartbeat ─┬─ nothing to change ──────────────────────────────► answered at once
               └─► queue ─► batch ─► draft ─► one write ─► confirmed ─► answered (batches.py)

A member that does not give partitions up within its rebalance timeout is removed, as one that is
silent for the session timeout.

Source: KIP-848; Kafka, GroupMetadataManager.consumerGroupHeartbeat (order of the steps).
"""

from dataclasses import replace
from functools import partial

from penstock.coordinator.portions import PORTION, POSITIONS, Steps
from penstock.groups.assigned.batches import Batches
from penstock.groups.assigned.messages import (
    JOIN_EPOCH,
    LEFT_EPOCH,
    HeartbeatCallback,
    HeartbeatReply,
    refused,
)
from penstock.groups.assigned.partitions import NOTHING, Partitions, count_of
from penstock.groups.assigned.waiting import Asked
from penstock.groups.consumer.checks import member_refusal, regex_refusal
from penstock.groups.consumer.draft import Draft
from penstock.groups.consumer.group import LEFT_STATIC_EPOCH, ConsumerGroup
from penstock.groups.consumer.members import apply_request, leave
from penstock.groups.consumer.messages import ConsumerHeartbeat
from penstock.groups.consumer.reconcile import NEW, both, reconcile, together
from penstock.groups.consumer.records import Current, MemberState
from penstock.groups.consumer.retarget import is_to_be_compared, retarget
from penstock.groups.context import AssignedTimes
from penstock.groups.deadlines import DeadlineKey, DeadlineKind
from penstock.protocol.error_codes import ErrorCode

WAITING_INTERVAL_MS = 500
"""How often a member is to ask that waits for partitions of others. Kafka lets it wait for its
whole interval."""


class Heartbeats(Batches[ConsumerGroup, Draft, ConsumerHeartbeat]):
    """Decides on heartbeats and deadlines of consumer groups."""

    def heartbeat(
        self, group: ConsumerGroup, request: ConsumerHeartbeat, reply: HeartbeatCallback
    ) -> None:
        """Answer a heartbeat that is valid in itself, perhaps when its changes are durable."""
        answer = self._at_once(group, request)
        if answer is not None:
            reply(answer)
            return
        refusal = member_refusal(Draft(group), request)
        if refusal is None and request.member_id in group.facts:
            self._keep_alive(group, request.member_id)
        kept = _of_its_own(group, request)
        if refusal is None and kept != request.owned and not _is_in_its_epoch(group, request):
            refusal = refused(ErrorCode.FENCED_MEMBER_EPOCH, "The member must join again")
        if refusal is not None and not group.is_changing:
            reply(refusal)
        elif group.is_late or self._is_without_room(group):
            reply(refused(ErrorCode.COORDINATOR_NOT_AVAILABLE, "The group is busy; try again"))
        else:
            self._enqueue(group, Asked(request.member_id, replace(request, owned=kept), reply))

    def times(self, group_id: str) -> AssignedTimes:
        """As in Batches."""
        return self._context.consumer_times(group_id)

    @property
    def _size_max(self) -> int:
        return self._context.config.group_size_max

    # Without a write

    def _at_once(self, group: ConsumerGroup, request: ConsumerHeartbeat) -> HeartbeatReply | None:
        """Return the answer if nothing is to change; None if a batch has to decide."""
        facts, current = group.facts.get(request.member_id), group.currents.get(request.member_id)
        if facts is None or current is None or request.member_epoch != current.epoch:
            return None
        if group.is_late or any(each.member_id == request.member_id for each in group.batch):
            return None
        is_quiet = group.epoch == group.target_epoch and not self._is_to_be_compared(group)
        draft = Draft(group)
        if not is_quiet or member_refusal(draft, request) is not None:
            return None
        if apply_request(draft, request) or self._reconciled(draft, group, request) is not current:
            return None
        self._keep_alive(group, request.member_id)
        return self._told(group, request, current, current)

    def _is_to_be_compared(self, group: ConsumerGroup) -> bool:
        return is_to_be_compared(group, self._cluster, self._context.clock.monotonic_ms())

    # Decisions

    def _new_draft(self, group: ConsumerGroup) -> Draft:
        return Draft(group)

    def _count_rebalance(self) -> None:
        self._context.counters.consumer_rebalances += 1

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

    def _settle(
        self,
        draft: Draft,
        group: ConsumerGroup,
        asked: Asked[ConsumerHeartbeat],
        request: ConsumerHeartbeat,
    ) -> Steps:
        before = draft.current(request.member_id) or NEW
        after = self._reconciled(draft, group, request)
        cost = 2 + count_of(after.assigned) // POSITIONS
        yield cost
        if after != group.currents.get(request.member_id):
            draft.put_current(request.member_id, after)
        asked.answer = self._told(group, request, before, after)
        yield cost

    def _reconciled(
        self, draft: Draft, group: ConsumerGroup, request: ConsumerHeartbeat
    ) -> Current:
        member_id = request.member_id
        target = draft.target(member_id)
        return reconcile(
            draft.current(member_id) or NEW,
            target_epoch=max(draft.epoch, group.target_epoch),
            target=NOTHING if target is None else target.partitions,
            owned=request.owned,
            free=partial(draft.free_for, member_id),
        )

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

    # Deadlines

    def _is_due(self, draft: Draft, due: DeadlineKey) -> bool:
        current = draft.current(due.member_id)
        return super()._is_due(draft, due) or _is_revoking(current)

    def _is_due_again(self, group: ConsumerGroup, due: DeadlineKey) -> bool:
        current = group.currents.get(due.member_id)
        return super()._is_due_again(group, due) or _is_revoking(current)

    def _watch(self, group: ConsumerGroup, member_id: str) -> None:
        """Give a member its rebalance timeout to give partitions up, once for each time."""
        current, facts = group.currents.get(member_id), group.facts.get(member_id)
        if current is None or facts is None or not _is_revoking(current):
            self._unwatch(group, member_id)
        elif group.watched.get(member_id) is not current:
            group.watched[member_id] = current
            at_ms = self._context.clock.monotonic_ms() + max(0, facts.rebalance_timeout_ms)
            self._context.deadlines.set(_revocation(group, member_id), at_ms)

    def _unwatch(self, group: ConsumerGroup, member_id: str) -> None:
        group.watched.pop(member_id, None)
        self._context.deadlines.cancel(_revocation(group, member_id))


def _revocation(group: ConsumerGroup, member_id: str) -> DeadlineKey:
    return DeadlineKey(DeadlineKind.REVOCATION, group.group_id, member_id)


def _is_revoking(current: Current | None) -> bool:
    return current is not None and current.state is MemberState.UNREVOKED


def _is_new(draft: Draft, request: ConsumerHeartbeat) -> bool:
    """Whether a join adds a member; a static one may come back under another id."""
    instance_id = request.instance_id
    is_back = instance_id is not None and draft.member_of(instance_id) is not None
    return draft.facts(request.member_id) is None and not is_back


def _of_its_own(group: ConsumerGroup, request: ConsumerHeartbeat) -> Partitions | None:
    """Return what a member owns of what it was given: no more has to be kept while it waits."""
    current = group.currents.get(request.member_id, NEW)
    held = together(current.assigned, current.revoking)
    return None if request.owned is None else both(request.owned, held)


def _is_in_its_epoch(group: ConsumerGroup, request: ConsumerHeartbeat) -> bool:
    current = group.currents.get(request.member_id)
    is_its_epoch = current is None or current.epoch == request.member_epoch
    return is_its_epoch or request.member_epoch <= JOIN_EPOCH
