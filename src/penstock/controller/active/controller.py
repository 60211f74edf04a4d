"""The active controller: decides what has to be done about brokers and replica sets.

It is level-triggered: every input (a session, a heartbeat, a committed entry, a timer, an answer)
leads to one evaluation of the image and the sessions, `_look`, which starts what is missing:

    dead brokers          probe the members of their sets, then fence and elect in one entry
    sets without master   probe and elect, retried with a bounded backoff
    masters without log   the same, if a master reports a failed log; it stays master until then
    missing sets          create them once enough brokers are registered
    drained brokers       transfer their masterships, then remove them from the sync-state sets
    reassigned sets       add and remove their members, one at a time
    expired tokens        remove them
    preferred masters     give them their sets back by a planned transfer, after a delay

No intended action is stored, so none can get lost: a controller that becomes active evaluates the
image and finds what its predecessor left undone. A controller that is not active keeps sessions
too, so that it knows which brokers are alive when it becomes active.

With failover off no broker is fenced and no mastership moves; a set whose fixed master restarted
gets the same master again (the static layout).

Source: RIP-44 (active controller, triggers), KRaft's QuorumController (deferred actions), KIP-966
and KIP-491 for preferred masters. It knows neither links nor consensus: ports and inputs only. All
inputs come on one loop.
"""

from penstock.base.ids import (
    BrokerEpoch,
    BrokerId,
    ControllerEpoch,
    ReplicaSetId,
    RequestId,
    SessionId,
)
from penstock.base.ports import Cancellable, Clock, Scheduler
from penstock.controller.active.context import ActiveContext, ActiveStats, Reported, Send, Submit
from penstock.controller.active.drains import Drains
from penstock.controller.active.elections import Elections
from penstock.controller.active.liveness import Liveness
from penstock.controller.active.operations import Operation, Operations, OperatorAnswered
from penstock.controller.active.own_pauses import OwnPauses
from penstock.controller.active.promises import Promises
from penstock.controller.active.reassignments import Reassignments
from penstock.controller.active.status import status_answer
from penstock.controller.active.token_expiry import TokenExpiry
from penstock.controller.active.transfers import Transfers
from penstock.controller.commands.command import CreateReplicaSets
from penstock.controller.commands.set_plan import plan_sets
from penstock.controller.config import ControllerConfig
from penstock.controller.errors import MetadataError, NotActiveController
from penstock.controller.metadata.causes import Cause
from penstock.controller.metadata.image import (
    NO_EPOCH,
    NO_MASTER,
    ClusterDelta,
    ClusterImage,
    ReplicaSetImage,
)
from penstock.controller.replicated_log import NO_LEADER, Leadership
from penstock.controller.session import (
    FAILED,
    Heartbeat,
    HeartbeatAnswer,
    ProbeAnswer,
    StatusAnswer,
    TransferReady,
)

_KEPT_CAUSES = (Cause.TRANSFER, Cause.OPERATOR)
"""Causes of masterships that stay where an operator put them: no move to the preferred master."""


class ActiveController:
    """One per controller process. Takes inputs after `start`; acts while its process leads."""

    def __init__(
        self,
        *,
        own_id: BrokerId,
        image: ClusterImage,
        config: ControllerConfig,
        clock: Clock,
        scheduler: Scheduler,
        ports: tuple[Submit, Send],
    ) -> None:
        """Args:
        own_id: peer id of this process.
        image: the process's image; this object subscribes to it.
        config: the controller's settings.
        clock: monotonic time.
        scheduler: runs evaluations and timers on the loop.
        ports: `submit(command, done)` and `send(broker_id, message)`.
        """
        submit, send = ports
        self._own_pauses = OwnPauses(config.session_timeout_ms)
        self._context = ActiveContext(
            own_id=own_id,
            image=image,
            config=config,
            clock=clock,
            scheduler=scheduler,
            submit=submit,
            send=send,
            liveness=Liveness(config.session_timeout_ms, self._own_pauses),
        )
        self._leadership = Leadership(NO_LEADER, ControllerEpoch(0), is_leader=False)
        self._promises = Promises(self._context, self._is_deciding)
        release = self._promises.release
        self._elections = Elections(self._context, self._look_soon, release)
        self._transfers = Transfers(self._context, self._look_soon, release)
        self._drains = Drains(self._context, self._transfers, self._look_soon)
        self._reassignments = Reassignments(self._context, self._transfers)
        self._token_expiry = TokenExpiry(self._context)
        self._operations = Operations(self._context, self._elections, self._transfers, self._drains)
        self._tick_interval_ms = min(
            config.heartbeat_interval_ms, max(10, config.session_timeout_ms // 10)
        )
        self._timer: Cancellable | None = None
        self._is_look_due = False
        self._is_creating = False
        self._create_not_before_ms = 0
        self._new_since_ms: dict[int, int] = {}
        self._away_since_ms: dict[int, int] = {}
        image.subscribe(self._on_delta)

    @property
    def is_active(self) -> bool:
        """Whether this process leads the metadata log."""
        return self._leadership.is_leader

    @property
    def stats(self) -> ActiveStats:
        """Figures for metrics."""
        return self._context.stats

    def _is_deciding(self, set_id: ReplicaSetId) -> bool:
        """Whether an election or a transfer of this set is under way."""
        return self._elections.is_electing(set_id) or self._transfers.is_moving(set_id)

    def start(self) -> None:
        """Start the timer. A controller that is not active needs it too, for its sessions."""
        self._tick()

    def stop(self) -> None:
        """Stop the timer and drop everything under way."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self.on_leadership(self._leadership._replace(is_leader=False))

    def on_leadership(self, leadership: Leadership) -> None:
        """Note a change of leadership: start to act, or drop everything under way."""
        was_active, self._leadership = self.is_active, leadership
        self._context.is_active = leadership.is_leader
        if leadership.is_leader:
            self._activate(leadership.term)
        elif was_active:
            self._forget()

    def _activate(self, term: ControllerEpoch) -> None:
        self._forget()
        context = self._context
        context.controller_epoch = term
        for broker_id in context.image.brokers:
            context.liveness.expect(broker_id, context.now_ms)
        self._look_soon()

    def _forget(self) -> None:
        error = NotActiveController(self._leadership.leader_id)
        self._elections.forget(error)
        self._transfers.forget(error)
        self._drains.forget(error)
        self._token_expiry.forget()
        self._is_creating = False
        self._create_not_before_ms = 0
        self._new_since_ms.clear()
        self._away_since_ms.clear()

    def on_session_opened(self, broker_id: BrokerId, session_id: SessionId) -> None:
        """Note a new session of a broker; requests sent over an older one stay unanswered."""
        self._context.liveness.opened(broker_id, session_id, self._context.now_ms)
        self._lose(broker_id)

    def on_session_closed(self, broker_id: BrokerId, session_id: SessionId) -> None:
        """Note that a session is closed; the close of an older session is ignored."""
        if self._context.liveness.closed(broker_id, session_id):
            self._lose(broker_id)

    def is_awaited(self, broker_id: BrokerId) -> bool:
        """Whether this controller is active and has had no session of the broker yet."""
        return self.is_active and self._context.liveness.is_awaited(broker_id)

    def is_owner(self, broker_id: BrokerId, identity: str) -> bool:
        """Whether the broker id is free, or registered for that data directory's identity."""
        known = self._context.image.brokers.get(broker_id)
        return known is None or not identity or known.identity in {"", identity}

    def on_refused(self, broker_id: BrokerId) -> None:
        """Note that a connection to the broker's address was refused."""
        self._context.liveness.refused(broker_id)
        self._look_soon()

    def _lose(self, broker_id: BrokerId) -> None:
        self._elections.on_lost(broker_id)
        self._transfers.on_lost(broker_id)
        self._look_soon()

    def on_heartbeat(self, broker_id: BrokerId, heartbeat: Heartbeat) -> HeartbeatAnswer | None:
        """Record a heartbeat and return the answer; None for one of an older session.

        After a pause of this process the answer names no active controller: masters keep their
        leases by the active controller's answers, and this one may have been replaced meanwhile.
        """
        context = self._context
        known = context.liveness.incarnation(broker_id)
        session = context.liveness.heard(
            broker_id, heartbeat.session_id, heartbeat.incarnation, context.now_ms
        )
        if session is None:
            return None
        sets, now_ms = context.image.replica_sets, context.now_ms
        named = {
            report.replica_set_id: Reported(report, now_ms)
            for report in heartbeat.sets
            if report.replica_set_id in sets
        }
        has_opened = session.names_first(named)
        context.reports.setdefault(broker_id, {}).update(named)
        if self.is_active:
            self._promises.on_reports(broker_id, heartbeat.sets)
        if any(report.role == FAILED for report in heartbeat.sets):
            self._look_soon()
        if heartbeat.is_stopping and broker_id not in context.stopping:
            self._look_soon()
        if heartbeat.is_stopping:
            context.stopping[broker_id] = heartbeat.incarnation
        else:
            context.stopping.pop(broker_id, None)
        if known != heartbeat.incarnation or not known or has_opened:
            self._elections.hurry()
            self._look_soon()
        if self._own_pauses.was_asleep(context.now_ms):
            return HeartbeatAnswer(active_id=NO_LEADER, controller_epoch=self._leadership.term)
        return HeartbeatAnswer(
            active_id=self._leadership.leader_id,
            controller_epoch=self._leadership.term,
            is_registration_wanted=self._is_unknown(broker_id, heartbeat.incarnation),
        )

    def _is_unknown(self, broker_id: BrokerId, incarnation: str) -> bool:
        """Whether a broker should register; only the active controller can tell."""
        broker = self._context.image.brokers.get(broker_id)
        is_known = broker is not None and not broker.is_fenced and broker.incarnation == incarnation
        return self.is_active and not is_known

    def on_answer(self, broker_id: BrokerId, answer: ProbeAnswer | TransferReady) -> None:
        """Pass on a member's report for an election, or a master's answer in a transfer."""
        match answer:
            case ProbeAnswer():
                self._elections.on_probe_answer(broker_id, answer)
            case TransferReady():
                self._transfers.on_ready(broker_id, answer)

    def on_operation(self, request: Operation, answered: OperatorAnswered) -> None:
        """Begin an operator's request; `answered` is called once, now or later."""
        if self.is_active:
            self._operations.begin(request, answered)
            self._look_soon()
        else:
            error = NotActiveController(self._leadership.leader_id)
            self._operations.refuse(request, answered, error)

    def status(self, request_id: RequestId) -> StatusAnswer:
        """Return everything that `cluster status` shows."""
        return status_answer(self._context, self._elections, self._leadership, request_id)

    def _on_delta(self, delta: ClusterDelta) -> None:
        """Note an applied entry: a set may be waiting for a broker that has just registered."""
        context = self._context
        for broker in delta.removed_brokers:
            context.liveness.forget(broker.broker_id)
            context.reports.pop(broker.broker_id, None)
            context.stopping.pop(broker.broker_id, None)
        if not self.is_active:
            return
        for broker in delta.changed_brokers:
            context.liveness.expect(broker.broker_id, context.now_ms)
        if delta.changed_brokers or delta.changed_replica_sets:
            self._elections.hurry()
        self._look_soon()

    def _tick(self) -> None:
        context = self._context
        now_ms = context.now_ms
        if paused_ms := self._own_pauses.tick(now_ms, self._tick_interval_ms):
            context.liveness.excuse(paused_ms, now_ms)
        self._timer = context.scheduler.call_later(self._tick_interval_ms, self._tick)
        self._look()

    def _look_soon(self) -> None:
        """Evaluate once, after all inputs of this turn of the loop."""
        if self.is_active and not self._is_look_due:
            self._is_look_due = True
            self._context.scheduler.call_soon(self._on_look_due)

    def _on_look_due(self) -> None:
        self._is_look_due = False
        self._look()

    def _look(self) -> None:
        if not self.is_active:
            return
        self._fail_over()
        self._create_sets()
        self._drains.look()
        self._reassignments.look()
        self._token_expiry.look()
        self._prefer()

    def _fail_over(self) -> None:
        """Fence dead brokers, and elect where a master is missing: one round each."""
        context, elections = self._context, self._elections
        if elections.is_held:
            return
        free = [
            one
            for _, one in sorted(context.image.replica_sets.items())
            if not elections.is_electing(one.replica_set_id)
        ]
        dead = self._dead()
        if dead:
            ids = {broker_id for broker_id, _ in dead}
            orphans = tuple(one.replica_set_id for one in free if one.master in ids)
            elections.start(orphans, dead=dead)
        masterless = tuple(one.replica_set_id for one in free if self._is_waiting(one))
        if masterless:
            elections.start(masterless)

    def _dead(self) -> tuple[tuple[BrokerId, BrokerEpoch], ...]:
        context = self._context
        if not context.image.is_failover_enabled:
            return ()
        return tuple(
            (broker_id, broker.broker_epoch)
            for broker_id, broker in sorted(context.image.brokers.items())
            if context.is_dead(broker) and not self._elections.is_evicting(broker_id)
        )

    def _is_waiting(self, replica_set: ReplicaSetImage) -> bool:
        """Whether a set without a master, or whose master's log failed, is due for an election."""
        set_id, context = replica_set.replica_set_id, self._context
        if not self._elections.is_due(set_id) or self._elections.is_electing(set_id):
            return False
        if replica_set.master != NO_MASTER:
            return context.image.is_failover_enabled and context.has_failed_master(replica_set)
        return replica_set.leader_epoch != NO_EPOCH or self._is_complete(replica_set)

    def _is_complete(self, replica_set: ReplicaSetImage) -> bool:
        """Whether all members of a new set have registered their logs, or have had time to."""
        context = self._context
        since_ms = self._new_since_ms.setdefault(replica_set.replica_set_id, context.now_ms)
        there = [
            replica
            for replica in replica_set.replicas
            if replica in replica_set.log_ids and context.is_able(replica)
        ]
        if len(there) == len(replica_set.replicas):
            return True
        return bool(there) and context.now_ms - since_ms >= context.config.session_timeout_ms

    def _create_sets(self) -> None:
        context = self._context
        if self._is_creating or context.now_ms < self._create_not_before_ms:
            return
        members = plan_sets(context.image, context.config.default_replication_factor)
        if not members:
            return
        self._is_creating = True
        command = CreateReplicaSets(members=members, set_count=len(context.image.replica_sets))
        context.submit(command, self._on_created)

    def _on_created(self, answer: object) -> None:
        self._is_creating = False
        if isinstance(answer, MetadataError):
            wait_ms = self._context.config.election_retry_ms
            self._create_not_before_ms = self._context.now_ms + wait_ms
        self._look_soon()

    def _prefer(self) -> None:
        """Return sets to preferred masters that have been able to lead for the configured delay."""
        context = self._context
        delay_ms = context.config.preferred_master_delay_ms
        if delay_ms < 0 or not context.image.is_failover_enabled:
            return
        for set_id, replica_set in sorted(context.image.replica_sets.items()):
            if not self._is_away(replica_set):
                self._away_since_ms.pop(set_id, None)
                continue
            since_ms = self._away_since_ms.setdefault(set_id, context.now_ms)
            if context.now_ms - since_ms >= delay_ms and self._transfers.is_due(set_id):
                self._transfers.start(set_id, replica_set.replicas[0], cause=Cause.PREFERRED)

    def _is_away(self, replica_set: ReplicaSetImage) -> bool:
        """Whether another member leads the set although its preferred master could lead it now."""
        set_id, preferred = replica_set.replica_set_id, replica_set.replicas[0]
        if replica_set.master in {NO_MASTER, preferred}:
            return False
        is_kept = replica_set.last_cause in _KEPT_CAUSES or self._reassignments.is_under_way(set_id)
        if is_kept or self._context.is_draining(preferred) or self._elections.is_electing(set_id):
            return False
        return not self._transfers.refusal(set_id, preferred)
