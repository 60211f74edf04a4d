"""Requests of a group, decided a batch at a time on confirmed state alone (ADR 0087).

    request ─► queue ─► batch ─► draft ─► one write ─► confirmed ─► answered
                        members change; epoch; target; each member of the batch settled

One write of a group is under way at a time. What comes meanwhile waits, and is decided together: so
a thousand members that join at once cost some assignments and not a thousand, and decisions are
made on confirmed state alone. A draft is made in portions (portions.py), so that an assignment of
ten thousand partitions does not hold the event loop.

A member that is silent for the session timeout is removed: the deadline waits in the same queue.
What a kind of group decides is in its subclass.

Source: KIP-848; Kafka, GroupMetadataManager (consumerGroupHeartbeat, shareGroupHeartbeat).
"""

import logging
from abc import ABC, abstractmethod
from collections.abc import Generator, Iterable
from functools import partial
from typing import Any, Generic, TypeVar

from penstock.coordinator.portions import POSITIONS, TO_TELL, TO_WRITE, Steps
from penstock.groups.assigned.draft import AssignedDraft
from penstock.groups.assigned.group import NOT_COMPARED, AssignedGroup
from penstock.groups.assigned.messages import Beat, HeartbeatReply, refused
from penstock.groups.assigned.waiting import Asked
from penstock.groups.cluster import Cluster
from penstock.groups.context import AssignedTimes, Context
from penstock.groups.deadlines import DeadlineKey, DeadlineKind
from penstock.groups.journal import GroupChanges
from penstock.groups.table import GroupTable
from penstock.protocol.error_codes import ErrorCode

OVERDUE = {
    DeadlineKind.SESSION: "silent",
    DeadlineKind.REVOCATION: "gives nothing up",
    DeadlineKind.JOIN: "has not joined again",
    DeadlineKind.SYNC: "has not asked for what it got",
}
"""The deadlines of members, and what they have not done when these have passed."""
RETRY_MS = 1_000
"""When a removal is tried again whose write failed."""
QUEUE_PART = 2
"""Requests that may wait, as a multiple of the members that a group may have."""

_log = logging.getLogger("penstock.groups")

G = TypeVar("G", bound=AssignedGroup[Any, Any])
D = TypeVar("D", bound=AssignedDraft[Any, Any, Any])
R = TypeVar("R", bound=Beat)


class Batches(ABC, Generic[G, D, R]):
    """Decides on requests and deadlines of the groups of one kind."""

    def __init__(self, context: Context, table: GroupTable, cluster: Cluster) -> None:
        self._context = context
        self._table = table
        self._cluster = cluster

    # What a kind of group decides

    @abstractmethod
    def times(self, group_id: str) -> AssignedTimes:
        """Return session timeout and heartbeat interval of a group."""

    @property
    @abstractmethod
    def _size_max(self) -> int:
        """How many members a group may have."""

    @abstractmethod
    def _new_draft(self, group: G) -> D:
        """Return a draft without changes."""

    @abstractmethod
    def _admit(self, draft: D, group: G, asked: Asked[R], request: R) -> Steps:
        """Let a member come, change or go; a refusal becomes the answer."""

    @abstractmethod
    def _retarget(self, draft: D, group: G) -> Steps:
        """Compute the next target assignment, if anything has changed."""

    @abstractmethod
    def _settle(self, draft: D, group: G, asked: Asked[R], request: R) -> Steps:
        """Give a member what it has next, and set the answer."""

    def _is_converted(
        self, draft: D, group: G, batch: list[Asked[R]]
    ) -> Generator[int, None, bool]:
        """Write that the group becomes one of another kind, if the draft calls for that."""
        yield from ()
        return False

    def _ended(self, group: G) -> None:
        """A write has ended, whatever its outcome."""

    @abstractmethod
    def _count_rebalance(self) -> None:
        """Count a new target assignment."""

    def _is_due(self, draft: D, due: DeadlineKey) -> bool:
        """Whether a member is to be removed for a deadline of its own kind that has passed."""
        return due.kind is DeadlineKind.SESSION

    def _is_due_again(self, group: G, due: DeadlineKey) -> bool:
        """Whether a member is still to be removed whose removal was not written."""
        return due.kind is DeadlineKind.SESSION

    def _session_timeout_ms(self, group: G, member_id: str) -> int:
        del member_id
        return self.times(group.group_id).session_timeout_ms

    def _watch(self, group: G, member_id: str) -> None:
        """Set deadlines of a member besides that of its session."""

    def _unwatch(self, group: G, member_id: str) -> None:
        """Cancel them."""

    # Deadlines and loading

    def on_due(self, group: G, key: DeadlineKey) -> None:
        """Remove a member that was silent for too long.

        What the group has left that was there before is no deadline of a member, though it has the
        id that was handed out then.
        """
        if key.kind in OVERDUE and key.member_id in group.tables.facts:
            self._enqueue(group, Asked(key.member_id, None, lambda _: None, due=key))

    def begin(self, group: G) -> Steps:
        """Start the deadlines of a group that was loaded."""
        group.records.on_settled = partial(self._on_settled, group)
        for number, member_id in enumerate(group.member_ids):
            if self._context.deadlines.at(self._session(group, member_id)) is None:
                self.keep_alive(group, member_id)
            self._watch(group, member_id)
            if number % POSITIONS == 0:
                yield 1

    def let_go(self, group: G) -> Steps:
        """Answer what waits in a hidden group, and cancel its deadlines."""
        yield from _refuse(group.queue.take_all(), ErrorCode.NOT_COORDINATOR)
        for number, member_id in enumerate(group.member_ids):
            self._cancel(group, member_id)
            if number % POSITIONS == 0:
                yield 1

    # Batches

    def is_busy(self, group: G) -> bool:
        """Whether a write takes long, or too much waits: of this group, or of all together."""
        is_long = len(group.queue) >= QUEUE_PART * self._size_max
        bytes_max = self._context.config.members_bytes_max
        return group.is_late or is_long or self._table.bounded_bytes > bytes_max

    def _enqueue(self, group: G, asked: Asked[R]) -> None:
        before = group.queue.put(asked)
        if before is not None:
            text = "Another heartbeat of the member has come"
            before.reply(refused(ErrorCode.COORDINATOR_NOT_AVAILABLE, text))
        self._pump(group)

    def _on_settled(self, group: G) -> None:
        """The outcome of a write is known: its batch is over, the next one may begin."""
        batch, group.batch, group.is_late = group.batch, [], False
        self._context.portions.begin(group.records.let_go())
        if group.is_dead:
            return
        self._ended(group)
        for member_id in group.leaving:
            if member_id not in group.tables.facts:
                self._cancel(group, member_id)  # also of who has another id now
        group.leaving = ()
        if not group.member_count:
            group.state_since_ms = self._context.clock.wall_ms()
        for asked in batch:
            if asked.due is not None:
                self._try_again(group, asked.due)
            elif asked.request is not None:
                self._keep_watch(group, asked.member_id)
        self._pump(group)
        self._forget_if_void(group)

    def _pump(self, group: G) -> None:
        group.records.on_settled = partial(self._on_settled, group)
        if group.is_changing or not group.queue or group.is_dead:
            return
        group.batch = group.queue.take_batch()
        self._context.portions.begin(self._decide(group, group.batch))

    def _decide(self, group: G, batch: list[Asked[R]]) -> Steps:
        try:
            yield from self._decided(group, batch)
        except Exception:
            # A mistake of ours: it is logged by who runs this, and must not stop the group.
            group.batch = []
            self._end(group, batch, ErrorCode.UNKNOWN_SERVER_ERROR)
            self._pump(group)
            raise

    def _decided(self, group: G, batch: list[Asked[R]]) -> Steps:
        draft = self._new_draft(group)
        for asked in batch:
            if asked.request is not None:
                yield from self._admit(draft, group, asked, asked.request)
            elif asked.due is not None:
                self._remove_overdue(draft, asked, asked.due)
            yield 1
        if (yield from self._is_converted(draft, group, batch)):
            return
        yield from self._retarget(draft, group)
        for asked in batch:
            if asked.request is not None and asked.answer is None:
                yield from self._settle(draft, group, asked, asked.request)
        yield from group.records.prepare(draft.changes)
        if group.is_dead:
            self._end(group, batch, ErrorCode.NOT_COORDINATOR)
            return
        yield from self._write(group, draft, batch)

    def _write(self, group: G, draft: D, batch: list[Asked[R]]) -> Steps:
        if not draft.changes:
            self._end(group, batch, None)
            self._on_settled(group)
            return
        if draft.epoch > group.epoch:
            self._count_rebalance()
        group.leaving = draft.leaving
        changes = GroupChanges(metadata=draft.changes)
        before = group.metadata.change_count
        self._context.writer.write(group, changes, partial(self._written, group, batch))
        if group.metadata.change_count == before and group.batch is batch:
            # Refused before it was begun: nothing will be confirmed.
            self._on_settled(group)
        yield TO_WRITE + len(draft.changes) // POSITIONS

    def _written(self, group: G, batch: list[Asked[R]], error: ErrorCode | None) -> None:
        if error is not None and group.batch is batch and group.metadata.in_flight_count:
            group.is_late = True
            self._context.portions.begin(_refuse(group.queue.take_all(), error))
        self._end(group, batch, error)

    def _end(self, group: G, batch: list[Asked[R]], error: ErrorCode | None) -> None:
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

    def _keep_watch(self, group: G, member_id: str) -> None:
        """Set the deadlines of a member as it is now; cancel those of one that has gone."""
        if member_id not in group.tables.facts:
            self._cancel(group, member_id)
            return
        is_overdue = group.queue.has_due(member_id, DeadlineKind.SESSION)
        if self._context.deadlines.at(self._session(group, member_id)) is None and not is_overdue:
            self.keep_alive(group, member_id)
        self._watch(group, member_id)

    def _try_again(self, group: G, due: DeadlineKey) -> None:
        """See to it that a member whose removal was not written is removed soon."""
        if due.member_id not in group.tables.facts:
            self._cancel(group, due.member_id)
        elif self._context.deadlines.at(due) is None and self._is_due_again(group, due):
            at_ms = self._context.clock.monotonic_ms() + RETRY_MS
            self._context.deadlines.set(due, at_ms)

    def _forget_if_void(self, group: G) -> None:
        """Remove a group without any record: its first member was not written."""
        if group.is_idle and not group.metadata.values and not group.offsets.values:
            self._table.forget(group)

    def _remove_overdue(self, draft: D, asked: Asked[R], due: DeadlineKey) -> None:
        facts = draft.facts(asked.member_id)
        if facts is None or self._context.deadlines.at(due) is not None:
            return
        if not self._is_due(draft, due):
            return
        _log.info(
            "group=%s member=%s removed: %s client=%s host=%s",
            due.group_id,
            asked.member_id,
            OVERDUE[due.kind],
            facts.client_id,
            facts.client_host,
        )
        self._context.counters.members_expired += 1
        draft.remove(asked.member_id)

    # Deadlines

    def _session(self, group: G, member_id: str) -> DeadlineKey:
        return DeadlineKey(DeadlineKind.SESSION, group.group_id, member_id)

    def keep_alive(self, group: G, member_id: str) -> None:
        """Begin a member's session anew."""
        at_ms = self._context.clock.monotonic_ms() + self._session_timeout_ms(group, member_id)
        self._context.deadlines.set(self._session(group, member_id), at_ms)

    def _cancel(self, group: G, member_id: str) -> None:
        self._context.deadlines.cancel(self._session(group, member_id))
        self._unwatch(group, member_id)


def _refuse(waiting: Iterable[Asked[Any]], error: ErrorCode) -> Steps:
    for asked in waiting:
        asked.reply(HeartbeatReply(error=error))
        yield TO_TELL
