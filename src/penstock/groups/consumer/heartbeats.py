"""Heartbeats of consumer groups: who comes, goes and is lost, and who has which partitions.

    heartbeat ─┬─ nothing to change ──────────────────────────────► answered at once
               └─► queue ─► batch ─► draft ─► one write ─► confirmed ─► answered
                            members change; epoch; target; each member of the batch reconciled

One write of a group is under way at a time. What comes meanwhile waits, and is decided together: so
a thousand members that join at once cost some assignments and not a thousand, and decisions are
made on confirmed state alone. A draft is made in portions (portions.py), so that an assignment of
ten thousand partitions does not hold the event loop.

A member that is silent for the session timeout, or does not give partitions up within its rebalance
timeout, is removed: the deadline waits in the same queue.

Source: KIP-848; Kafka, GroupMetadataManager.consumerGroupHeartbeat (order of the steps).
"""

import logging
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial

from penstock.coordinator.portions import PORTION, POSITIONS, TO_TELL, TO_WRITE, Steps
from penstock.groups.cluster import Cluster
from penstock.groups.consumer.checks import member_refusal, refused, regex_refusal
from penstock.groups.consumer.draft import Draft
from penstock.groups.consumer.group import (
    LEFT_EPOCH,
    LEFT_STATIC_EPOCH,
    NOT_COMPARED,
    ConsumerGroup,
)
from penstock.groups.consumer.members import apply_request, leave
from penstock.groups.consumer.messages import (
    JOIN_EPOCH,
    ConsumerHeartbeat,
    HeartbeatCallback,
    HeartbeatReply,
)
from penstock.groups.consumer.reconcile import NEW, both, reconcile, together
from penstock.groups.consumer.records import NOTHING, Current, MemberState, Partitions
from penstock.groups.consumer.retarget import is_to_be_compared, retarget
from penstock.groups.consumer.waiting import Asked
from penstock.groups.context import Context
from penstock.groups.deadlines import DeadlineKey, DeadlineKind
from penstock.groups.journal import GroupChanges
from penstock.groups.migration.conversion import Conversion
from penstock.groups.migration.downgrade import Downgrades
from penstock.groups.table import GroupTable
from penstock.protocol.error_codes import ErrorCode

RETRY_MS = 1_000
"""When a removal is tried again whose write failed."""
WAITING_INTERVAL_MS = 500
"""How often a member is to ask that waits for partitions of others. Kafka lets it wait for its
whole interval."""
QUEUE_PART = 2
"""Requests that may wait, as a multiple of the members that a group may have."""

NO_MEMBER = ""
_OVERDUE = {
    DeadlineKind.SESSION: "silent",
    DeadlineKind.REVOCATION: "gives nothing up",
    DeadlineKind.JOIN: "has not joined again",
    DeadlineKind.SYNC: "has not asked for what it got",
}
"""The deadlines of members, and what they have not done when these have passed."""

_log = logging.getLogger("penstock.groups")


class Heartbeats:
    """Decides on heartbeats and deadlines of consumer groups."""

    __slots__ = ("_cluster", "_context", "_downgrades", "_table")

    def __init__(
        self, context: Context, table: GroupTable, cluster: Cluster, downgrades: Downgrades
    ) -> None:
        self._context = context
        self._table = table
        self._cluster = cluster
        self._downgrades = downgrades

    def heartbeat(
        self,
        group: ConsumerGroup,
        request: ConsumerHeartbeat,
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
        refusal = member_refusal(Draft(group), request)
        if refusal is None and request.member_id in group.facts:
            self.keep_alive(group, request.member_id)
        kept = _of_its_own(group, request)
        if refusal is None and kept != request.owned and not _is_in_its_epoch(group, request):
            refusal = refused(ErrorCode.FENCED_MEMBER_EPOCH, "The member must join again")
        if refusal is not None and not group.is_changing:
            reply(refusal)
        elif self.is_busy(group):
            reply(refused(ErrorCode.COORDINATOR_NOT_AVAILABLE, "The group is busy; try again"))
        else:
            request = replace(request, owned=kept)
            self._enqueue(group, Asked(request.member_id, request, reply, again=again))

    def look_at_topics(self, group: ConsumerGroup) -> None:
        """Begin a batch if topics have changed, or the target is not of this epoch yet.

        Members of the classic protocol see changes of topics by this alone.
        """
        is_behind = group.epoch > group.target_epoch or self._is_to_be_compared(group)
        if is_behind and not self.is_busy(group):
            self._enqueue(group, Asked(NO_MEMBER, None, lambda _: None))

    def on_due(self, group: ConsumerGroup, key: DeadlineKey) -> None:
        """Remove a member that was silent, or gave nothing up, for too long."""
        if key.member_id in group.facts:
            self._enqueue(group, Asked(key.member_id, None, lambda _: None, due=key))

    def begin(self, group: ConsumerGroup) -> Steps:
        """Start the deadlines of a group that was loaded."""
        group.records.on_settled = partial(self._on_settled, group)
        for number, member_id in enumerate([*group.facts]):
            if self._context.deadlines.at(self._session(group, member_id)) is None:
                self.keep_alive(group, member_id)
            self._watch_revocation(group, member_id)
            if number % POSITIONS == 0:
                yield 1

    def let_go(self, group: ConsumerGroup) -> Steps:
        """Answer what waits in a hidden group, and cancel its deadlines."""
        yield from _refuse(group.queue.take_all(), ErrorCode.NOT_COORDINATOR)
        for number, member_id in enumerate([*group.facts]):
            self._cancel(group, member_id)
            if number % POSITIONS == 0:
                yield 1

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
        self.keep_alive(group, request.member_id)
        return self._told(group, request, current, current)

    def _is_to_be_compared(self, group: ConsumerGroup) -> bool:
        return is_to_be_compared(group, self._cluster, self._context.clock.monotonic_ms())

    # Batches

    def is_busy(self, group: ConsumerGroup) -> bool:
        """Whether a write takes long, or too much waits: of this group, or of all together."""
        config = self._context.config
        is_long = len(group.queue) >= QUEUE_PART * config.group_size_max
        return group.is_late or is_long or self._table.bounded_bytes > config.members_bytes_max

    def _enqueue(self, group: ConsumerGroup, asked: Asked) -> None:
        before = group.queue.put(asked)
        if before is not None:
            text = "Another heartbeat of the member has come"
            before.reply(refused(ErrorCode.COORDINATOR_NOT_AVAILABLE, text))
        self._pump(group)

    def _on_settled(self, group: ConsumerGroup) -> None:
        """The outcome of a write is known: its batch is over, the next one may begin."""
        batch, group.batch, group.is_late = group.batch, [], False
        self._context.portions.begin(group.records.let_go())
        if group.is_dead:
            return
        if not group.facts:
            group.state_since_ms = self._context.clock.wall_ms()
        for asked in batch:
            if asked.due is not None:
                self._try_again(group, asked.due)
            elif asked.request is not None:
                self._keep_watch(group, asked.member_id)
        self._pump(group)
        self._forget_if_void(group)

    def _pump(self, group: ConsumerGroup) -> None:
        if group.is_changing or not group.queue or group.is_dead:
            return
        group.batch = group.queue.take_batch()
        group.records.on_settled = partial(self._on_settled, group)
        self._context.portions.begin(self._decide(group, group.batch))

    def _decide(self, group: ConsumerGroup, batch: list[Asked]) -> Steps:
        try:
            yield from self._decided(group, batch)
        except Exception:
            # A mistake of ours: it is logged by who runs this, and must not stop the group.
            group.batch = []
            self._end(group, batch, ErrorCode.UNKNOWN_SERVER_ERROR)
            self._pump(group)
            raise

    def _decided(self, group: ConsumerGroup, batch: list[Asked]) -> Steps:
        draft = Draft(group)
        for asked in batch:
            yield from self._check_regex(draft, group, asked)
            self._admit(draft, asked)
            yield 1
        conversion = yield from self._downgrades.made(group, draft)
        if conversion is not None:
            yield from self._convert(group, conversion, batch)
            return
        yield from retarget(draft, group, self._cluster, self._context.clock)
        for asked in batch:
            if asked.request is not None and asked.answer is None:
                yield from self._settle_member(draft, group, asked.request, asked)
        yield from group.records.prepare(draft.changes)
        if group.is_dead:
            self._end(group, batch, ErrorCode.NOT_COORDINATOR)
            return
        yield from self._write(group, draft, batch)

    def _convert(self, group: ConsumerGroup, conversion: Conversion, batch: list[Asked]) -> Steps:
        """Write that the group becomes a classic one, of which requests are asked anew then."""
        yield from group.records.prepare(conversion.gone)
        if group.is_dead:
            self._end(group, batch, ErrorCode.NOT_COORDINATOR)
            return
        written = partial(self._written, group, batch)
        self._context.writer.append(conversion.new, conversion, written)
        if not conversion.is_begun:
            self._on_settled(group)
        yield TO_WRITE + len(conversion.records) // POSITIONS

    def _write(self, group: ConsumerGroup, draft: Draft, batch: list[Asked]) -> Steps:
        if not draft.changes:
            self._end(group, batch, None)
            self._on_settled(group)
            return
        if draft.epoch > group.epoch:
            self._context.counters.consumer_rebalances += 1
        changes = GroupChanges(metadata=draft.changes)
        before = group.metadata.change_count
        self._context.writer.write(group, changes, partial(self._written, group, batch))
        if group.metadata.change_count == before and group.batch is batch:
            # Refused before it was begun: nothing will be confirmed.
            self._on_settled(group)
        yield TO_WRITE + len(draft.changes) // POSITIONS

    def _written(self, group: ConsumerGroup, batch: list[Asked], error: ErrorCode | None) -> None:
        if error is not None and group.batch is batch and group.metadata.in_flight_count:
            group.is_late = True
            self._context.portions.begin(_refuse(group.queue.take_all(), error))
        self._end(group, batch, error)

    def _end(self, group: ConsumerGroup, batch: list[Asked], error: ErrorCode | None) -> None:
        """Answer requests; what has failed is decided anew when it is asked again."""
        if error is not None:
            group.topics_version = NOT_COMPARED
        for asked in batch:
            if error is not None and (asked.answer is None or not asked.answer.error):
                asked.answer = HeartbeatReply(error=error)
            if asked.answer is not None:
                asked.reply(asked.answer)
            elif asked.again is not None:
                asked.again()

    def _keep_watch(self, group: ConsumerGroup, member_id: str) -> None:
        """Set the deadlines of a member as it is now; cancel those of one that has gone."""
        if member_id not in group.facts:
            self._cancel(group, member_id)
            return
        is_overdue = group.queue.has_due(member_id, DeadlineKind.SESSION)
        if self._context.deadlines.at(self._session(group, member_id)) is None and not is_overdue:
            self.keep_alive(group, member_id)
        self._watch_revocation(group, member_id)

    def _try_again(self, group: ConsumerGroup, due: DeadlineKey) -> None:
        """See to it that a member whose removal was not written is removed soon."""
        current = group.currents.get(due.member_id)
        is_revoking = current is not None and current.state is MemberState.UNREVOKED
        if due.member_id not in group.facts:
            self._cancel(group, due.member_id)
        elif self._context.deadlines.at(due) is None and (
            due.kind is DeadlineKind.SESSION or is_revoking
        ):
            at_ms = self._context.clock.monotonic_ms() + RETRY_MS
            self._context.deadlines.set(due, at_ms)

    def _forget_if_void(self, group: ConsumerGroup) -> None:
        """Remove a group without any record: its first member was not written."""
        if group.is_idle and not group.metadata.values and not group.offsets.values:
            self._table.forget(group)

    # Decisions

    def _check_regex(self, draft: Draft, group: ConsumerGroup, asked: Asked) -> Steps:
        """Refuse an expression that is not one. Each new one is compiled in a turn of its own."""
        regex = None if asked.request is None else asked.request.regex
        if regex and regex not in group.resolved:
            asked.answer = regex_refusal(group, draft, regex)
            yield PORTION

    def _admit(self, draft: Draft, asked: Asked) -> None:
        """Let a member come, change or go; a refusal becomes the answer."""
        request = asked.request
        if request is None:
            if asked.due is not None:
                self._remove_overdue(draft, asked, asked.due)
            return
        if asked.answer is not None:
            return
        asked.answer = member_refusal(draft, request)
        if asked.answer is not None:
            return
        if request.member_epoch in (LEFT_EPOCH, LEFT_STATIC_EPOCH):
            leave(draft, request)
            asked.answer = HeartbeatReply(
                error=ErrorCode.NONE,
                member_id=request.member_id,
                member_epoch=request.member_epoch,
            )
            return
        if _is_new(draft, request) and draft.member_count >= self._context.config.group_size_max:
            limit = self._context.config.group_size_max
            text = f"Group {request.group_id} has {limit} members already, which is the limit"
            asked.answer = refused(ErrorCode.GROUP_MAX_SIZE_REACHED, text)
            return
        apply_request(draft, request)

    def _remove_overdue(self, draft: Draft, asked: Asked, due: DeadlineKey) -> None:
        facts, current = draft.facts(asked.member_id), draft.current(asked.member_id) or NEW
        if facts is None or self._context.deadlines.at(due) is not None:
            return
        if due.kind is DeadlineKind.REVOCATION and current.state is not MemberState.UNREVOKED:
            return
        is_settled = current.epoch == draft.epoch and current.state is MemberState.STABLE
        if due.kind is DeadlineKind.JOIN and is_settled:
            return
        _log.info(
            "group=%s member=%s removed: %s client=%s host=%s",
            due.group_id,
            asked.member_id,
            _OVERDUE[due.kind],
            facts.client_id,
            facts.client_host,
        )
        self._context.counters.members_expired += 1
        draft.remove(asked.member_id)

    def _settle_member(
        self, draft: Draft, group: ConsumerGroup, request: ConsumerHeartbeat, asked: Asked
    ) -> Steps:
        before = draft.current(request.member_id) or NEW
        after = self._reconciled(draft, group, request)
        cost = 2 + sum(map(len, after.assigned.values())) // POSITIONS
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
        interval_ms = self._context.consumer_times(group.group_id).heartbeat_interval_ms
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

    def _session(self, group: ConsumerGroup, member_id: str) -> DeadlineKey:
        return DeadlineKey(DeadlineKind.SESSION, group.group_id, member_id)

    def keep_alive(self, group: ConsumerGroup, member_id: str) -> None:
        """Begin a member's session anew. One of the classic protocol has said how long it is."""
        facts = group.facts.get(member_id)
        if facts is None or facts.classic is None:
            timeout_ms = self._context.consumer_times(group.group_id).session_timeout_ms
        else:
            timeout_ms = facts.classic.session_timeout_ms
        at_ms = self._context.clock.monotonic_ms() + timeout_ms
        self._context.deadlines.set(self._session(group, member_id), at_ms)

    def _watch_revocation(self, group: ConsumerGroup, member_id: str) -> None:
        """Give a member its rebalance timeout to give partitions up, once for each time."""
        key = DeadlineKey(DeadlineKind.REVOCATION, group.group_id, member_id)
        current, facts = group.currents.get(member_id), group.facts.get(member_id)
        if current is None or facts is None or current.state is not MemberState.UNREVOKED:
            self._context.deadlines.cancel(key)
            group.watched.pop(member_id, None)
        elif group.watched.get(member_id) is not current:
            group.watched[member_id] = current
            timeout_ms = max(0, facts.rebalance_timeout_ms)
            self._context.deadlines.set(key, self._context.clock.monotonic_ms() + timeout_ms)

    def _cancel(self, group: ConsumerGroup, member_id: str) -> None:
        group.watched.pop(member_id, None)
        for kind in _OVERDUE:
            self._context.deadlines.cancel(DeadlineKey(kind, group.group_id, member_id))


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


def _refuse(waiting: Iterable[Asked], error: ErrorCode) -> Steps:
    for asked in waiting:
        asked.reply(HeartbeatReply(error=error))
        yield TO_TELL
