"""How a group gets from one generation to the next.

    prepare    a member joined, left or timed out: all members are asked to join again
    complete   all have joined, or the time is up: members that did not join are removed, a leader
               and a protocol are chosen, every parked join is answered with the new generation
    (syncing.py then hands the leader's assignment to the members)

The first join of an empty group waits a little for others (initial rebalance delay), and once
more for each newcomer, but never beyond the rebalance timeout. A member's session does not run
while its join or sync is parked.

Source: Kafka, GroupCoordinator.scala (prepareRebalance, onCompleteJoin, DelayedJoin,
InitialDelayedJoin, onExpirePendingSync); KIP-62, KIP-134, KIP-345. Departures: the log names the
members that held up a rebalance, and a join that is replaced by another join of the same member is
answered instead of dropped.
"""

import logging
from collections.abc import Callable, Sequence
from functools import partial

from penstock.coordinator.portions import POSITIONS, TO_LOG, TO_TELL, Steps
from penstock.groups.classic.answering import Answering
from penstock.groups.classic.group import Group, GroupState
from penstock.groups.classic.member import Member, still_there
from penstock.groups.classic.roll import members_for_leader
from penstock.groups.classic.snapshot import record_parts
from penstock.groups.context import Context
from penstock.groups.counters import HoldUp
from penstock.groups.deadlines import DeadlineKey, DeadlineKind
from penstock.groups.messages import JoinCallback, JoinGroup, JoinReply, SyncReply
from penstock.protocol.error_codes import ErrorCode

_GONE = DeadlineKey(DeadlineKind.GONE)
GONE_CHECK_MS = 1_000
"""How often newcomers' connections are checked."""
NAMED_MAX = 20
"""Members that one rebalance logs as having held it up: a line of the log takes 15 us."""

_log = logging.getLogger("penstock.groups")


class Rebalances:
    """Moves groups through their rebalances."""

    __slots__ = ("_context", "answering")

    def __init__(self, context: Context, answering: Answering) -> None:
        self._context = context
        self.answering = answering

    def add(self, group: Group, member: Member, request: JoinGroup, reply: JoinCallback) -> None:
        """Add a new member and ask all members to join again."""
        self._cancel(DeadlineKind.PENDING_MEMBER, group, member.member_id)
        group.add(member, request.protocol_type)
        group.newcomer_during_delay = True
        self._context.newcomers[member] = group
        if self._context.deadlines.at(_GONE) is None:
            self._context.deadlines.set(_GONE, self._now_ms() + GONE_CHECK_MS)
        self._park_join(group, member, reply)
        self._rejoin(group, f"{member.describe()} joined reason={request.reason or '-'}")

    def update(self, group: Group, member: Member, request: JoinGroup, reply: JoinCallback) -> None:
        """Take a member's new join and ask all members to join again."""
        group.offer(member, request.protocols)
        member.session_timeout_ms = request.session_timeout_ms
        member.rebalance_timeout_ms = request.rebalance_timeout_ms
        member.is_gone = request.is_gone
        self._park_join(group, member, reply)
        self._rejoin(group, f"{member.describe()} rejoined reason={request.reason or '-'}")

    def remove(self, group: Group, member: Member, reason: str) -> None:
        """Remove a member and go on without it."""
        self._drop(group, member)
        if group.state is GroupState.PREPARING:
            _log.info("group=%s %s removed: %s", group.group_id, member.describe(), reason)
        self._rejoin(group, f"{member.describe()} removed: {reason}")

    def remove_pending(self, group: Group, member_id: str) -> None:
        """Forget a member id that was handed out and not used."""
        group.drop_pending(member_id)
        self._cancel(DeadlineKind.PENDING_MEMBER, group, member_id)
        self.complete_if_all_joined(group)

    def prepare(self, group: Group, reason: str) -> None:
        """Begin a rebalance; it completes at once if all members have joined."""
        context = self._context
        if group.state is GroupState.COMPLETING:
            self.answering.fail_syncs(group, ErrorCode.REBALANCE_IN_PROGRESS)
        was_empty = group.state is GroupState.EMPTY
        now_ms = self._now_ms()
        group.transition(GroupState.PREPARING, context.clock.wall_ms())
        group.awaiting_sync.clear()
        group.is_assignment_in_flight = False
        group.rebalance_started_ms = now_ms
        context.counters.rebalances_started += 1
        self._cancel(DeadlineKind.SYNC, group)
        _log.info("group=%s generation=%d rebalance: %s", group.group_id, group.generation, reason)
        wait_ms = timeout_ms = group.rebalance_timeout_ms
        if was_empty:
            wait_ms = min(context.config.initial_rebalance_delay_ms, timeout_ms)
            group.initial_delay_left_ms = timeout_ms - wait_ms if wait_ms else None
            group.newcomer_during_delay = False
        context.deadlines.set(DeadlineKey(DeadlineKind.JOIN, group.group_id), now_ms + wait_ms)
        self.complete_if_all_joined(group)

    def complete_if_all_joined(self, group: Group) -> None:
        """End the join phase if all members have joined."""
        if group.state is not GroupState.PREPARING or group.initial_delay_left_ms is not None:
            return
        if group.has_all_joined:
            self._complete(group)

    def on_join_deadline(self, group: Group) -> None:
        """End the join phase without the missing members, or wait once more for newcomers."""
        if group.state is not GroupState.PREPARING:
            return
        left_ms = group.initial_delay_left_ms
        if left_ms and group.newcomer_during_delay:
            delay_ms = min(self._context.config.initial_rebalance_delay_ms, left_ms)
            group.initial_delay_left_ms = left_ms - delay_ms
            group.newcomer_during_delay = False
            key = DeadlineKey(DeadlineKind.JOIN, group.group_id)
            self._context.deadlines.set(key, self._now_ms() + delay_ms)
            return
        self._complete(group)

    def on_sync_deadline(self, group: Group) -> None:
        """Remove members that joined and did not ask for their assignment in time."""
        if group.state not in (GroupState.COMPLETING, GroupState.STABLE):
            return
        laggards = [group.members[member_id] for member_id in group.awaiting_sync]
        self._name_hold_ups(group, laggards, "sync")
        if laggards:
            self.prepare(group, f"{len(laggards)} members did not sync in time")
            self._drop_silent(group, laggards, self.complete_if_all_joined)

    def on_session_expired(self, group: Group, member_id: str) -> None:
        """Remove a member that was silent for its session timeout."""
        member = group.members.get(member_id)
        if member is not None:
            self._context.counters.members_expired += 1
            self.remove(group, member, "session expired")

    def drop_the_gone(self) -> None:
        """Remove new members whose connection closed before their first join was answered."""
        self._context.portions.begin(self._drop_gone())

    def _drop_gone(self) -> Steps:
        newcomers = self._context.newcomers
        for number, member in enumerate([*newcomers]):
            group = newcomers.get(member)
            if group is not None and member.is_gone():
                self.remove(group, member, "its connection closed before it had joined")
                yield TO_TELL + TO_LOG
            elif number % POSITIONS == 0:
                yield 1
        if newcomers:
            self._context.deadlines.set(_GONE, self._now_ms() + GONE_CHECK_MS)

    def _park_join(self, group: Group, member: Member, reply: JoinCallback) -> None:
        group.joined[member.member_id] = None
        member.park_join(reply)
        self.answering.keep_alive(group, member)

    def _rejoin(self, group: Group, reason: str) -> None:
        if group.state is GroupState.PREPARING:
            self.complete_if_all_joined(group)
        elif group.state is not GroupState.DEAD:
            self.prepare(group, reason)

    def _drop(self, group: Group, member: Member) -> None:
        group.remove(member.member_id)
        self._context.newcomers.pop(member, None)
        self._cancel(DeadlineKind.SESSION, group, member.member_id)
        member.answer_join(JoinReply(error=ErrorCode.UNKNOWN_MEMBER_ID))
        member.answer_sync(SyncReply(error=ErrorCode.UNKNOWN_MEMBER_ID))

    def _complete(self, group: Group) -> None:
        """End the join phase; members that have not joined, maybe thousands, are removed."""
        laggards = [m for m in group.members.values() if m.member_id not in group.joined]
        self._name_hold_ups(group, laggards, "join")
        silent = [member for member in laggards if not member.is_static]
        if silent:
            self._drop_silent(group, silent, self._begin_generation)
        else:
            self._begin_generation(group)

    def _drop_silent(
        self, group: Group, laggards: list[Member], then: Callable[[Group], None]
    ) -> None:
        """Remove those that are still silent, then call `then` unless the rebalance is over."""
        generation = group.generation  # of now: there may be another one when this has its turn

        def is_over() -> bool:
            return group.state is not GroupState.PREPARING or group.generation != generation

        def steps() -> Steps:
            for member in laggards:
                if is_over():
                    return
                is_there = group.members.get(member.member_id) is member
                if is_there and member.member_id not in group.joined:
                    self._drop(group, member)
                yield TO_TELL
            if not is_over():
                then(group)

        self._context.portions.begin(steps())

    def _begin_generation(self, group: Group) -> None:
        group.initial_delay_left_ms = None
        if group.members and not group.elect_joined_leader():
            # Only silent static members are left: they stay until their sessions expire.
            at_ms = self._now_ms() + group.rebalance_timeout_ms
            self._context.deadlines.set(DeadlineKey(DeadlineKind.JOIN, group.group_id), at_ms)
            return
        self._cancel(DeadlineKind.JOIN, group)
        group.begin_generation(self._context.clock.wall_ms())
        self._context.counters.rebalances_completed += 1
        _log.info(
            "group=%s generation=%d members=%d leader=%s protocol=%s after_ms=%d",
            group.group_id,
            group.generation,
            len(group.members),
            group.leader_id or "-",
            group.protocol_name or "-",
            self._now_ms() - group.rebalance_started_ms,
        )
        if group.members:
            self._announce(group)
        else:
            self._journal_empty(group)

    def _announce(self, group: Group) -> None:
        """Answer every parked join with the new generation.

        The receivers are fixed here; requests that come meanwhile find the generation begun.
        """
        told: list[tuple[Member, JoinCallback]] = []
        for member_id in group.joined:
            member = group.members[member_id]
            reply = member.take_join()
            assert reply is not None, member_id
            member.is_new = False
            member.is_gone = still_there
            self._context.newcomers.pop(member, None)
            told.append((member, reply))
        group.awaiting_sync.update(group.joined)
        group.joined.clear()
        at_ms = self._now_ms() + group.rebalance_timeout_ms
        self._context.deadlines.set(DeadlineKey(DeadlineKind.SYNC, group.group_id), at_ms)
        self._context.portions.begin(self._tell_joined(group, told, joined_reply(group)))

    def _tell_joined(
        self,
        group: Group,
        told: list[tuple[Member, JoinCallback]],
        answer_to: Callable[[str], JoinReply],
    ) -> Steps:
        for member, reply in told:
            reply(answer_to(member.member_id))
            self.answering.keep_alive_if_there(group, member)
            yield TO_TELL

    def _journal_empty(self, group: Group) -> None:
        """Write that the group is empty, so that a restart does not restore its last members."""

        def done(error: ErrorCode | None) -> None:
            if error is not None:
                # Harmless: after a restart the former members are restored and time out again.
                _log.warning("group=%s empty state not journaled: %s", group.group_id, error.name)

        self._context.writer.write_group(group, record_parts(group, {}), done)

    def _name_hold_ups(self, group: Group, laggards: Sequence[Member], phase: str) -> None:
        for member in laggards[:NAMED_MAX]:
            self._name_hold_up(group, member, phase)
        more = len(laggards) - NAMED_MAX
        if more > 0:
            form = "group=%s generation=%d %s held up by %d members more"
            _log.warning(form, group.group_id, group.generation, phase, more)

    def _name_hold_up(self, group: Group, member: Member, phase: str) -> None:
        waited_ms = self._now_ms() - group.rebalance_started_ms
        self._context.counters.hold_up(
            HoldUp(
                group.group_id,
                group.generation,
                phase,
                member.member_id,
                member.instance_id,
                member.client_id,
                member.client_host,
                waited_ms,
            )
        )
        _log.warning(
            "group=%s generation=%d %s held up by %s waited_ms=%d",
            group.group_id,
            group.generation,
            phase,
            member.describe(),
            waited_ms,
        )

    def _cancel(self, kind: DeadlineKind, group: Group, member_id: str = "") -> None:
        self._context.deadlines.cancel(DeadlineKey(kind, group.group_id, member_id))

    def _now_ms(self) -> int:
        return self._context.clock.monotonic_ms()


def joined_reply(group: Group) -> Callable[[str], JoinReply]:
    """Return a function that makes a member's answer for the generation that is current now."""
    leader_id = group.leader_id or ""
    answer = partial(
        JoinReply,
        error=ErrorCode.NONE,
        generation=group.generation,
        protocol_type=group.protocol_type,
        protocol_name=group.protocol_name,
        leader_id=leader_id,
    )

    def answer_to(member_id: str) -> JoinReply:
        members = members_for_leader(group) if member_id == leader_id else ()
        return answer(member_id=member_id, members=members)

    return answer_to
