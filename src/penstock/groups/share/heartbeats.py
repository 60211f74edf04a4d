"""Heartbeats of share groups: who comes, goes and is lost, and who shares which partitions.

    heartbeat ─┬─ nothing to change ──────────────────────────────► answered at once
               └─► queue ─► batch ─► draft ─► one write ─► confirmed ─► answered (batches.py)

Nobody waits for another one to give partitions up: a member has its target as soon as it asks. What
a member held that has left, or was silent for too long, is released where the shares are.

Source: KIP-932; Kafka, GroupMetadataManager.shareGroupHeartbeat (order of the steps).
"""

from penstock.assignors.partitions import NOTHING, count_of
from penstock.coordinator.portions import POSITIONS, Steps
from penstock.groups.assigned.batches import Batches
from penstock.groups.assigned.messages import (
    JOIN_EPOCH,
    LEFT_EPOCH,
    HeartbeatCallback,
    HeartbeatReply,
    refused,
)
from penstock.groups.assigned.waiting import Asked
from penstock.groups.context import AssignedTimes
from penstock.groups.share.checks import member_refusal
from penstock.groups.share.draft import ShareDraft
from penstock.groups.share.group import ShareGroup
from penstock.groups.share.messages import ShareHeartbeat
from penstock.groups.share.records import ShareCurrent, ShareFacts
from penstock.groups.share.retarget import is_to_be_compared, retarget
from penstock.protocol.error_codes import ErrorCode

_NEW = ShareCurrent(JOIN_EPOCH, JOIN_EPOCH, NOTHING)


class ShareHeartbeats(Batches[ShareGroup, ShareDraft, ShareHeartbeat]):
    """Decides on heartbeats and deadlines of share groups."""

    def heartbeat(
        self, group: ShareGroup, request: ShareHeartbeat, reply: HeartbeatCallback
    ) -> None:
        """Answer a heartbeat that is valid in itself, perhaps when its changes are durable."""
        answer = self._at_once(group, request)
        if answer is not None:
            reply(answer)
            return
        refusal = member_refusal(ShareDraft(group), request)
        if refusal is None and request.member_id in group.facts:
            self.keep_alive(group, request.member_id)
        if refusal is not None and not group.is_changing:
            reply(refusal)
        elif group.is_held or self.is_busy(group):
            reply(refused(ErrorCode.COORDINATOR_NOT_AVAILABLE, "The group is busy; try again"))
        else:
            self._enqueue(group, Asked(request.member_id, request, reply))

    def times(self, group_id: str) -> AssignedTimes:
        """As in Batches."""
        return self._context.share_times(group_id)

    @property
    def _size_max(self) -> int:
        return self._context.config.share_group_size_max

    # Without a write

    def _at_once(self, group: ShareGroup, request: ShareHeartbeat) -> HeartbeatReply | None:
        """Return the answer if nothing is to change; None if a batch has to decide."""
        member_id = request.member_id
        facts, current = group.facts.get(member_id), group.currents.get(member_id)
        if facts is None or current is None or request.member_epoch != current.epoch:
            return None
        if group.is_late or any(each.member_id == member_id for each in group.batch):
            return None
        now_ms = self._context.clock.monotonic_ms()
        if is_to_be_compared(group, self._cluster, now_ms) or group.epoch != group.target_epoch:
            return None
        if current.epoch != group.target_epoch or _said(facts, request) != facts:
            return None
        self.keep_alive(group, member_id)
        return self._told(request, current, current)

    # Decisions

    def _new_draft(self, group: ShareGroup) -> ShareDraft:
        return ShareDraft(group)

    def _retarget(self, draft: ShareDraft, group: ShareGroup) -> Steps:
        return retarget(draft, group, self._cluster, self._context.clock)

    def _admit(
        self,
        draft: ShareDraft,
        group: ShareGroup,
        asked: Asked[ShareHeartbeat],
        request: ShareHeartbeat,
    ) -> Steps:
        asked.answer = self._admitted(draft, request)
        return iter(())

    def _admitted(self, draft: ShareDraft, request: ShareHeartbeat) -> HeartbeatReply | None:
        refusal = member_refusal(draft, request)
        if refusal is not None:
            return refusal
        if request.member_epoch == LEFT_EPOCH:
            draft.remove(request.member_id)
            return HeartbeatReply(
                error=ErrorCode.NONE, member_id=request.member_id, member_epoch=LEFT_EPOCH
            )
        before = draft.facts(request.member_id)
        if before is None and draft.member_count >= self._size_max:
            text = f"Group {request.group_id} has {self._size_max} members already,"
            return refused(ErrorCode.GROUP_MAX_SIZE_REACHED, f"{text} which is the limit")
        after = _said(before, request)
        if before is None or before.topics != after.topics:
            draft.is_bumped = True
        if before != after:
            draft.put_facts(request.member_id, after)
        return None

    def _settle(
        self,
        draft: ShareDraft,
        group: ShareGroup,
        asked: Asked[ShareHeartbeat],
        request: ShareHeartbeat,
    ) -> Steps:
        before = draft.current(request.member_id) or _NEW
        after = _reconciled(draft, group, request.member_id, before)
        cost = 2 + count_of(after.assigned) // POSITIONS
        yield cost
        if after != group.currents.get(request.member_id):
            draft.put_current(request.member_id, after)
        asked.answer = self._told(request, before, after)
        yield cost

    def _told(
        self, request: ShareHeartbeat, before: ShareCurrent, after: ShareCurrent
    ) -> HeartbeatReply:
        """Return the answer: the assignment is told to who joins, may not know it, or has news."""
        is_lost = request.member_epoch != before.epoch
        is_told = is_lost or before is _NEW or before.assigned != after.assigned
        return HeartbeatReply(
            error=ErrorCode.NONE,
            member_id=request.member_id,
            member_epoch=after.epoch,
            heartbeat_interval_ms=self.times(request.group_id).heartbeat_interval_ms,
            assignment=after.assigned if is_told else None,
        )

    def _count_rebalance(self) -> None:
        self._context.counters.share_rebalances += 1

    def _ended(self, group: ShareGroup) -> None:
        """Release what members held that are gone for good now, also of earlier assignments."""
        masters, partitions = self._cluster.share_masters, group.shared.partitions
        for member_id in group.leaving:
            if member_id not in group.facts:
                masters.leave(group.group_id, member_id, partitions)


def _reconciled(
    draft: ShareDraft, group: ShareGroup, member_id: str, before: ShareCurrent
) -> ShareCurrent:
    """Return what a member has next: all that it is to have, in the target's epoch."""
    epoch = max(draft.epoch, group.target_epoch)
    if before.epoch == epoch:
        return before
    target = draft.target(member_id)
    return ShareCurrent(epoch, before.epoch, NOTHING if target is None else target.partitions)


def _said(before: ShareFacts | None, request: ShareHeartbeat) -> ShareFacts:
    """Return what a member says of itself now; what it leaves out is as before."""
    topics = None if request.topics is None else tuple(sorted(set(request.topics)))
    had = ShareFacts(None, "", "", ()) if before is None else before
    return ShareFacts(
        rack_id=had.rack_id if request.rack_id is None else request.rack_id,
        client_id=request.client_id,
        client_host=request.client_host,
        topics=had.topics if topics is None else topics,
    )
