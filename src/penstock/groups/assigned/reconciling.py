"""Groups in which a member gives up what it is not to have before others get it.

    heartbeat ─┬─ nothing to change ──────────────────────────────► answered at once
               └─► queue ─► batch ─► draft ─► one write ─► confirmed ─► answered (batches.py)

A member that does not give up what it has to within its rebalance timeout is removed, as one that
is silent for the session timeout.

Source: KIP-848, KIP-1071; Kafka, GroupMetadataManager (consumerGroupHeartbeat,
streamsGroupHeartbeat) for the order of the steps.
"""

from abc import abstractmethod
from collections.abc import Callable
from functools import partial
from typing import Any, Generic, TypeVar

from penstock.assignors.partitions import NOTHING, Partitions, count_of
from penstock.base.ids import MemberEpoch
from penstock.coordinator.portions import POSITIONS, Steps
from penstock.groups.assigned.batches import Batches
from penstock.groups.assigned.currents import NEW, Current, MemberState
from penstock.groups.assigned.messages import (
    JOIN_EPOCH,
    HeartbeatCallback,
    HeartbeatReply,
    refused,
)
from penstock.groups.assigned.reconcile import both, reconcile, together
from penstock.groups.assigned.reconciled import OwningBeat, OwningDraft, ReconciledGroup
from penstock.groups.assigned.waiting import Asked
from penstock.groups.deadlines import DeadlineKey, DeadlineKind
from penstock.protocol.error_codes import ErrorCode

WAITING_INTERVAL_MS = 500
"""How often a member is to ask that waits for what others have. Kafka lets it wait for its whole
interval."""


G = TypeVar("G", bound=ReconciledGroup[Any, Any])
D = TypeVar("D", bound=OwningDraft[Any, Any])
R = TypeVar("R", bound=OwningBeat)


class Reconciling(Batches[G, D, R], Generic[G, D, R]):
    """Decides on heartbeats and deadlines of such groups."""

    def heartbeat(
        self,
        group: G,
        request: R,
        reply: HeartbeatCallback,
        again: Callable[[], None] | None = None,
    ) -> None:
        """Answer a heartbeat that is valid in itself, perhaps when its changes are durable.

        `again` asks anew, if the group becomes one of another kind meanwhile.
        """
        answer = self._at_once(group, request)
        if answer is not None:
            reply(answer)
            return
        refusal = self._member_refusal(self._new_draft(group), request)
        if refusal is None and request.member_id in group.tables.facts:
            self.keep_alive(group, request.member_id)
        kept = _of_its_own(group, request)
        if refusal is None and kept != request.owned and not _is_in_its_epoch(group, request):
            refusal = refused(ErrorCode.FENCED_MEMBER_EPOCH, "The member must join again")
        if refusal is not None and not group.is_changing:
            reply(refusal)
        elif self.is_busy(group):
            reply(refused(ErrorCode.COORDINATOR_NOT_AVAILABLE, "The group is busy; try again"))
        else:
            request = request.with_owned(kept)
            self._enqueue(group, Asked(request.member_id, request, reply, again=again))

    # What a kind of group decides

    @abstractmethod
    def _member_refusal(self, draft: D, request: R) -> HeartbeatReply | None:
        """Return why a request may not act for its member, or None."""

    @abstractmethod
    def _applied(self, draft: D, request: R) -> bool:
        """Note what a member says of itself; return whether that is news."""

    @abstractmethod
    def _is_to_be_compared(self, group: G) -> bool:
        """Whether the cluster's topics have changed since the group was compared with them."""

    @abstractmethod
    def _told(self, group: G, request: R, before: Current, after: Current) -> HeartbeatReply:
        """Return the answer to a member that had something and has something else now."""

    def _goal(self, draft: D, group: G, member_id: str) -> tuple[MemberEpoch, Partitions]:
        """Return the epoch that members are on their way to, and what this one is to have."""
        target = draft.target(member_id)
        epoch = max(draft.epoch, group.target_epoch)
        return epoch, NOTHING if target is None else target.partitions

    def _is_quiet(self, group: G) -> bool:
        """Whether the target assignment is the one that the group needs."""
        return group.epoch == group.target_epoch and not self._is_to_be_compared(group)

    # Without a write

    def _at_once(self, group: G, request: R) -> HeartbeatReply | None:
        """Return the answer if nothing is to change; None if a batch has to decide."""
        facts = group.tables.facts.get(request.member_id)
        current = group.currents.get(request.member_id)
        if facts is None or current is None or request.member_epoch != current.epoch:
            return None
        if group.is_late or any(each.member_id == request.member_id for each in group.batch):
            return None
        draft = self._new_draft(group)
        if not self._is_quiet(group) or self._member_refusal(draft, request) is not None:
            return None
        after = None if self._applied(draft, request) else self._reconciled(draft, group, request)
        if after is not current:
            return None
        self.keep_alive(group, request.member_id)
        return self._told(group, request, current, current)

    # Decisions

    def _settle(self, draft: D, group: G, asked: Asked[R], request: R) -> Steps:
        before = draft.current(request.member_id) or NEW
        after = self._reconciled(draft, group, request)
        cost = 2 + count_of(after.assigned) // POSITIONS
        yield cost
        if after != group.currents.get(request.member_id):
            draft.put_current(request.member_id, after)
        asked.answer = self._told(group, request, before, after)
        yield cost

    def _reconciled(self, draft: D, group: G, request: R) -> Current:
        member_id = request.member_id
        epoch, target = self._goal(draft, group, member_id)
        return reconcile(
            draft.current(member_id) or NEW,
            target_epoch=epoch,
            target=target,
            owned=request.owned,
            free=partial(draft.free_for, member_id),
        )

    # Deadlines

    def _is_due(self, draft: D, due: DeadlineKey) -> bool:
        return super()._is_due(draft, due) or is_revoking(draft.current(due.member_id))

    def _is_due_again(self, group: G, due: DeadlineKey) -> bool:
        return super()._is_due_again(group, due) or is_revoking(group.currents.get(due.member_id))

    def _watch(self, group: G, member_id: str) -> None:
        """Give a member its rebalance timeout to give things up, once for each time."""
        current, facts = group.currents.get(member_id), group.tables.facts.get(member_id)
        if current is None or facts is None or not is_revoking(current):
            self._unwatch(group, member_id)
        elif group.watched.get(member_id) is not current:
            group.watched[member_id] = current
            at_ms = self._context.clock.monotonic_ms() + max(0, facts.rebalance_timeout_ms)
            self._context.deadlines.set(_revocation(group, member_id), at_ms)

    def _unwatch(self, group: G, member_id: str) -> None:
        group.watched.pop(member_id, None)
        self._context.deadlines.cancel(_revocation(group, member_id))


def is_revoking(current: Current | None) -> bool:
    """Whether a member has something that it was told to give up."""
    return current is not None and current.state is MemberState.UNREVOKED


def _revocation(group: ReconciledGroup[Any, Any], member_id: str) -> DeadlineKey:
    return DeadlineKey(DeadlineKind.REVOCATION, group.group_id, member_id)


def _of_its_own(group: ReconciledGroup[Any, Any], request: OwningBeat) -> Partitions | None:
    """Return what a member owns of what it was given: no more has to be kept while it waits."""
    current = group.currents.get(request.member_id, NEW)
    held = together(current.assigned, current.revoking)
    return None if request.owned is None else both(request.owned, held)


def _is_in_its_epoch(group: ReconciledGroup[Any, Any], request: OwningBeat) -> bool:
    current = group.currents.get(request.member_id)
    is_its_epoch = current is None or current.epoch == request.member_epoch
    return is_its_epoch or request.member_epoch <= JOIN_EPOCH
