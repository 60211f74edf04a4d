"""State of one mastership: its slaves, the sync-state set, the lease.

    slave's Acknowledge ──► confirm position ──► purgatory          (ReplicaSetMember)
                       └──► sync-state set ──► change ──► controllers        (SyncStateKeeper)
                       └──► lease

Created when the mastership begins and dropped at its end: nothing here outlives its leader epoch.
The rules are in replication/sync_state.py, confirm.py and lease.py.

Source: Kafka's Partition while it leads, RocketMQ's AutoSwitchHAService.
"""

import logging
from collections.abc import Callable, Collection

from penstock.base.ids import BrokerId, LeaderEpoch, Position
from penstock.base.invariant import invariant
from penstock.base.ports import Clock
from penstock.frames.run import ColdRun, Run
from penstock.replica.handing_over import HandingOver
from penstock.replica.parts_of_logs import may_count
from penstock.replica.replica_set import ReplicaSetMember, Role
from penstock.replica.shape import shape_of
from penstock.replica.shared_run import SharedRun
from penstock.replica.slave_session import A_PART, SlaveSession
from penstock.replication.alignment import LogShape, consistent_point
from penstock.replication.config import ReplicationConfig
from penstock.replication.lease import Lease
from penstock.replication.messages import NOT_SAID, Reason
from penstock.replication.promise import Asker
from penstock.replication.sync_state import (
    Change,
    MasterView,
    Outcome,
    Process,
    ProcessOf,
    Recorded,
    SyncStateKeeper,
)
from penstock.storage.errors import StorageError

log = logging.getLogger(__name__)


class MasterSet:
    """A set that this broker leads, or is about to lead again after a restart.

    `submit(change)` must lead to exactly one call of `answered`. While `is_resuming`,
    `on_all_aligned` is called when the log of every other replica is a prefix of the own one.

    Between calls:
    - `sessions` has one session for each slave at most, the one that was greeted last.
    - Of a slave counts what it has acknowledged since it was greeted last.
    - While the member is master, it confirms by the membership of `keeper`: the recorded sync-state
      set, and those that were requested and may be recorded. Under a policy that needs a lease it
      asks `may_confirm` too.
    - One change at most is submitted and not answered yet.
    - While `is_resuming`, the member is not master: nothing is confirmed, no change is submitted.
    """

    def __init__(  # noqa: PLR0913  a mastership's parts
        self,
        member: ReplicaSetMember,
        recorded: Recorded,
        leader_epoch: LeaderEpoch,
        *,
        config: ReplicationConfig,
        clock: Clock,
        submit: Callable[["MasterSet", Change], None],
        is_resuming: bool = False,
    ) -> None:
        self.member = member
        self.leader_epoch = leader_epoch
        self.config = config
        self.is_resuming = is_resuming
        self.on_all_aligned: Callable[[], None] = _nothing
        self.on_progress: Callable[[], None] = _nothing
        """Called when a slave has acknowledged more; a transfer may wait for that."""
        self.unwanted: Callable[[], Collection[BrokerId]] = tuple
        self.dead: Callable[[], Collection[BrokerId]] = tuple
        self.is_promised: Callable[[], bool] = _no
        """Whether a promise forbids confirming: the log's end was reported for an election."""
        self.process_of: ProcessOf = _nobody
        """Returns the process that the controllers have registered as a broker."""
        self.handing_over = HandingOver(member)
        self.sessions: dict[BrokerId, SlaveSession] = {}
        self.on_doubt: Callable[[], None] = _nothing
        """Called when a slave wants another copy of the log: the last one may have been damaged."""
        self._copied: set[BrokerId] = set()
        self._shared = SharedRun(member.log, config.run_bytes)
        self._clock = clock
        self._submit = submit
        now_ms = clock.monotonic_ms()
        self.keeper = SyncStateKeeper(
            member.own_id, recorded, leader_epoch=leader_epoch, config=config, now_ms=now_ms
        )
        self.lease = Lease(
            member.own_id,
            lease_ms=config.lease_ms,
            is_wanted=config.is_lease_wanted,
        )
        self.is_over = False

    def begin(self) -> None:
        """Become master; the lease limits confirming from the start.

        Raises OutOfSpace, LogFenced: nothing has changed.
        """
        invariant(not self.is_over, "what has ended does not begin", epoch=self.leader_epoch)
        membership = self.keeper.membership
        self._follow_policy()
        try:
            self.member.become_master(self.leader_epoch, membership)
        except StorageError:
            self.member.may_confirm = self.member.may_read = None
            raise
        self.is_resuming = False
        for broker_id, session in self.sessions.items():
            if session.is_streaming:
                self.member.acknowledge(broker_id, session.acknowledged)

    def end(self, newest_epoch: LeaderEpoch) -> None:
        """End the mastership and all its sessions."""
        self.is_over = True
        for session in list(self.sessions.values()):
            session.refuse(Reason.NOT_MASTER, newest_epoch)
        self.sessions.clear()

    def may_confirm(self) -> bool:
        """Whether the lease and the promises to the controllers permit confirming now."""
        if self.is_promised():
            return False
        return self.lease.is_held(self.keeper.membership, self._clock.monotonic_ms())

    def go_on(self, asker: Asker) -> None:
        """Accept writes and confirm again: nothing that `asker` prepared can still take effect."""
        self.handing_over.end(asker)
        self.tick()

    def may_read(self) -> bool:
        """Whether the lease excludes that another master was elected since it was renewed."""
        return self.lease.covers_reads(
            self.keeper.membership,
            self._clock.monotonic_ms(),
            is_handing_over=self.handing_over.is_open,
        )

    # --- messages of slaves --------------------------------------------------------------------

    def greeted(self, session: SlaveSession) -> None:
        """Start a session after a handshake; forget the slave's earlier acknowledgements."""
        earlier = self.sessions.get(session.broker_id)
        if earlier is not None and earlier is not session:
            earlier.close()
        self.sessions[session.broker_id] = session
        session.greeted_ms = self._clock.monotonic_ms()
        self.member.confirm.forget(session.broker_id)
        self.keeper.greeted(session.broker_id)

    def may_greet(self, slave: LogShape) -> bool:
        """Whether a slave with that log may learn of the own log, by which it truncates or copies.

        While a restarted master resumes, no slave may truncate: it could have records that were
        confirmed without the master's own copy. Whether that is possible depends on the policy, and
        the metadata that this process started with may not have the newest policy. A slave
        truncates before it begins, so it must not learn of this log; the controllers will elect the
        longest log.
        """
        if slave.is_empty or not self.is_resuming:
            return True
        common = consistent_point(slave, shape_of(self.member))
        return common is not None and common.start_position == slave.end_position

    def can_begin(self, slave: LogShape, position: Position) -> bool:
        """Whether a slave may continue at `position`: below it, both logs are the same."""
        own = shape_of(self.member)
        if position == own.start_position and slave.is_empty:
            return True
        common = consistent_point(slave, own)
        if common is None:
            return position == own.start_position == 0
        return own.start_position <= position <= common.start_position

    def begun(self, session: SlaveSession) -> None:
        """Note that a slave's log is a prefix of the own one, durable up to where it begins."""
        is_newest = self.sessions.get(session.broker_id) is session
        invariant(is_newest, "the last session of a slave begins", slave=session.broker_id)
        own_log, now_ms = self.member.log, self._clock.monotonic_ms()
        self.keeper.connected(
            session.broker_id,
            replica_id=session.replica_id,
            incarnation=session.incarnation,
            whole_from=session.whole_from,
            position=session.acknowledged,
            log_end=own_log.end_position,
            now_ms=now_ms,
        )
        if self.is_resuming:
            self._maybe_resume()
            return
        self.acknowledged(session.broker_id, session.acknowledged, session.greeted_ms)

    def acknowledged(self, broker_id: BrokerId, position: Position, read_ms: int) -> None:
        """Note that a slave holds the log durably up to `position`, exclusive; else as `heard`.

        Membership of the sync-state set is judged by it even while the mastership is to be resumed.
        """
        if self.is_over:
            return
        log_end, now_ms = self.member.log.end_position, self._clock.monotonic_ms()
        self.keeper.acknowledged(broker_id, position, log_end, now_ms)
        if self.member.role is not Role.MASTER:
            return
        counted_by = self.member.leader_epoch
        invariant(counted_by == self.leader_epoch, "counts for its own epoch", epoch=counted_by)
        self.heard(broker_id, read_ms)
        self.member.acknowledge(broker_id, position)
        if not self.keeper.is_in_step(broker_id):
            self.judge()
        self.on_progress()

    def heard(self, broker_id: BrokerId, read_ms: int) -> None:
        """Note that a slave follows this mastership, which renews the lease.

        `read_ms`: when the newest message was sent to it that it had read by then, NOT_SAID if it
        has not told that, and keeps no lease.
        """
        if read_ms != NOT_SAID:
            self.lease.note_member(broker_id, read_ms)

    def read_run(self, session: SlaveSession) -> Run | ColdRun:
        """Return the run at the session's position. Raises as SetLog.read_run."""
        return self._shared.read(session, self.sessions.values())

    def base_wanted(self, broker_id: BrokerId) -> None:
        """Note that a slave starts to copy the log."""
        if broker_id in self._copied:
            self.on_doubt()
        self._copied.add(broker_id)

    def gone(self, session: SlaveSession) -> None:
        """Note that a session has ended."""
        if self.sessions.get(session.broker_id) is session:
            del self.sessions[session.broker_id]
            self.lease.forget_member(session.broker_id)
            self.keeper.disconnected(session.broker_id, self._clock.monotonic_ms())

    @property
    def has_other_in_step(self) -> bool:
        """Whether another member of the sync-state set follows now and so could lead."""
        committed = self.keeper.membership.committed
        return not self.is_resuming and any(
            broker_id in committed and session.is_streaming
            for broker_id, session in self.sessions.items()
        )

    def _maybe_resume(self) -> None:
        if self.is_resuming and not self.is_over and self._are_all_aligned():
            self.on_all_aligned()

    def _are_all_aligned(self) -> bool:
        others = [
            replica for replica in self.keeper.membership.replicas if replica != self.member.own_id
        ]
        return all(other in self.sessions and self.sessions[other].is_streaming for other in others)

    # --- input from controllers ----------------------------------------------------------------

    def recorded(self, recorded: Recorded) -> None:
        """Adopt a changed sync-state set, membership or policy of this mastership."""
        for broker_id in self.keeper.recorded(recorded, self._clock.monotonic_ms()):
            self.member.confirm.forget(broker_id)
        known = recorded.replica_ids
        for session in tuple(self.sessions.values()):
            if known.get(session.broker_id) != session.replica_id:
                session.refuse(Reason.UNKNOWN_REPLICA, self.leader_epoch)
        self._drop_parts()
        self._changed()

    def _drop_parts(self) -> None:
        """Let nothing count that parts of the log have acknowledged under another policy."""
        membership, kept_from = self.keeper.membership, self.member.log.reach.kept_from
        for broker_id, slave in self.keeper.slaves.items():
            whole_from = slave.whole_from
            if not may_count(membership, broker_id, whole_from=whole_from, kept_from=kept_from):
                self.member.confirm.forget(broker_id)
                session = self.sessions.get(broker_id)
                if session is not None and session.is_streaming:
                    session.refuse(Reason.NOT_READY, self.leader_epoch, A_PART)

    def answered(self, outcome: Outcome) -> None:
        """Process the answer to a requested change."""
        if not self.is_over:
            self.keeper.answered(outcome, self._clock.monotonic_ms())
            self._changed()

    def note_controller(self, sent_ms: int, *, is_caught_up: bool) -> None:
        """Note an answer of the active controller to what was sent to it at `sent_ms`.

        `is_caught_up`: the own image held all that the controller's did. Otherwise the answer
        grants no lease, though it renews one: the entries still to come may name another master.
        """
        if is_caught_up or self.may_read():
            self.lease.note_controller(sent_ms)

    def _changed(self) -> None:
        if self.member.role is Role.MASTER and not self.is_over:
            self._follow_policy()
            self.member.change_members(self.keeper.membership)

    def _follow_policy(self) -> None:
        policy = self.keeper.membership.policy
        self.member.may_confirm = self.may_confirm if policy.needs_lease else None
        self.member.may_read = self.may_read

    # --- time ----------------------------------------------------------------------------------

    def tick(self) -> None:
        """Check time-outs: which slaves fell behind, whether the lease was regained.

        Resumes a mastership for which the log had no space, as no further handshake would trigger
        it.
        """
        self._maybe_resume()
        if self.member.role is Role.MASTER and not self.is_over:
            self.member.confirm_reached()
            self.judge()

    def judge(self) -> None:
        """Request another sync-state set if one is due."""
        if self.is_resuming or self.is_over:
            return
        member, own_log = self.member, self.member.log
        view = MasterView(
            kept_from=own_log.reach.kept_from,
            log_end=own_log.end_position,
            confirm_position=member.confirm_position,
            epoch_start=member.epoch_start,
        )
        now_ms = self._clock.monotonic_ms()
        change = self.keeper.next_change(
            view,
            now_ms,
            unwanted=self.unwanted(),
            dead=self.dead(),
            process_of=self.process_of,
        )
        if change is None:
            return
        log.info(
            "set=%d epoch=%d asks for the sync-state set %s",
            member.replica_set_id,
            self.leader_epoch,
            change.sync_state_set,
        )
        self._changed()
        asked = change.sync_state_set
        is_counted = {*asked} <= {*self.keeper.membership.effective}
        invariant(is_counted, "what may be recorded counts before it is", asked=asked)
        self._submit(self, change)


def _nothing() -> None:
    """The callback while none is set."""


def _nobody(_: BrokerId) -> Process | None:
    """The look-up while none is set."""
    return None


def _no() -> bool:
    """The predicate while none is set."""
    return False
