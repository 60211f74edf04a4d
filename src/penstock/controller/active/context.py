"""What the duties of the active controller share: ports, sessions, reports, counters.

Source: our own. It makes no decisions: `elections`, `transfers` and `controller` do.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from penstock.base.ids import BrokerId, ControllerEpoch, ReplicaSetId, RequestId
from penstock.base.ports import Clock, Scheduler
from penstock.controller.active.liveness import Liveness
from penstock.controller.commands.command import BeginMasterships, Command
from penstock.controller.config import ControllerConfig
from penstock.controller.errors import MetadataError, MetadataTimeout, NotActiveController
from penstock.controller.metadata.causes import Cause
from penstock.controller.metadata.image import BrokerImage, ClusterImage, ReplicaSetImage
from penstock.controller.session import FAILED, NO_CONTROLLER_EPOCH, FromController, SetReport

SubmitDone = Callable[[Any], None]
"""Receives the command's answer, or the MetadataError it failed with. Called exactly once."""

Submit = Callable[[Command[Any], SubmitDone], None]
"""Submits to the controller of this process; `done` is called later, never within the call."""

Send = Callable[[BrokerId, FromController], None]
"""Sends to a broker's newest session; does nothing if it has none."""


class Reported(NamedTuple):
    """A member's last report and when it arrived (monotonic ms)."""

    report: SetReport
    at_ms: int


NO_REQUEST = RequestId(0)


@dataclass(slots=True, kw_only=True)
class ActiveStats:
    """Counters for metrics, since the process started."""

    masterships: dict[str, int] = field(default_factory=dict)
    """Begun masterships by their cause."""
    evictions: int = 0
    elections_without_winner: int = 0
    transfers_failed: int = 0
    elect_ms_max: int = 0
    """Longest time from detecting that a set needs a master to the commit of its election."""
    elect_ms_total: int = 0

    def count_mastership(self, cause: Cause) -> None:
        """Count a mastership that has begun."""
        self.masterships[cause.value] = self.masterships.get(cause.value, 0) + 1

    def note_election(self, took_ms: int) -> None:
        """Record how long the election of one set took."""
        self.elect_ms_max = max(self.elect_ms_max, took_ms)
        self.elect_ms_total += took_ms


@dataclass(slots=True, kw_only=True)
class ActiveContext:
    """Ports and state of one controller process, active or not."""

    own_id: BrokerId
    image: ClusterImage
    config: ControllerConfig
    clock: Clock
    scheduler: Scheduler
    submit: Submit
    send: Send
    liveness: Liveness
    reports: dict[BrokerId, dict[ReplicaSetId, Reported]] = field(default_factory=dict)
    """By broker id, then by set id."""
    stopping: dict[BrokerId, str] = field(default_factory=dict)
    """Incarnations of brokers that are shutting down, by broker id."""
    stats: ActiveStats = field(default_factory=ActiveStats)
    is_active: bool = False
    """Whether this controller leads, by the last change of leadership."""
    controller_epoch: ControllerEpoch = NO_CONTROLLER_EPOCH
    """Term of this controller while it is active."""
    last_request_id: RequestId = NO_REQUEST

    @property
    def now_ms(self) -> int:
        """Monotonic time."""
        return self.clock.monotonic_ms()

    def next_request_id(self) -> RequestId:
        """Return a request id that this process has not used yet."""
        self.last_request_id = RequestId(self.last_request_id + 1)
        return self.last_request_id

    def submit_to_the_end(self, command: Command[Any], done: SubmitDone) -> None:
        """Submit; where the answer leaves the outcome open, call `done` once it is settled.

        Commands are processed in order: once an empty command behind this one is answered, its
        entry has been applied or was never proposed. A controller that is replaced meanwhile calls
        `done` at once: its successor starts with everything that was committed.
        """
        term = self.controller_epoch
        barrier = BeginMasterships(masterships=())

        def on_answer(answer: object) -> None:
            on_outcome(answer, isinstance(answer, MetadataTimeout | NotActiveController))

        def on_outcome(answer: object, is_open: bool) -> None:
            if not is_open or not self.is_active or self.controller_epoch != term:
                done(answer)
                return
            self.scheduler.call_later(self.config.election_retry_ms, lambda: ask_again(answer))

        def ask_again(answer: object) -> None:
            self.submit(barrier, lambda later: on_outcome(answer, isinstance(later, MetadataError)))

        self.submit(command, on_answer)

    def is_dead(self, broker: BrokerImage) -> bool:
        """Whether the registered process is gone and the broker is not fenced yet."""
        if broker.is_fenced:
            return False
        if not self.liveness.is_live(broker.broker_id, self.now_ms):
            return True
        return self._is_other_process(broker)

    def is_able(self, broker_id: BrokerId) -> bool:
        """Whether the broker can take duties: not fenced, and its registered process is alive."""
        broker = self.image.brokers.get(broker_id)
        if broker is None or broker.is_fenced:
            return False
        is_connected = self.liveness.is_connected(broker_id, self.now_ms)
        is_known = bool(self.liveness.incarnation(broker_id)) or not broker.incarnation
        return is_connected and is_known and not self._is_other_process(broker)

    def _is_other_process(self, broker: BrokerImage) -> bool:
        heard = self.liveness.incarnation(broker.broker_id)
        return bool(heard) and heard != broker.incarnation

    def is_draining(self, broker_id: BrokerId) -> bool:
        """Whether the broker must get no duties: an operator drains it, or it is shutting down."""
        broker = self.image.brokers.get(broker_id)
        return broker is not None and (broker.is_draining or self.is_stopping(broker_id))

    def is_stopping(self, broker_id: BrokerId) -> bool:
        """Whether the registered process is shutting down."""
        broker = self.image.brokers.get(broker_id)
        incarnation = self.stopping.get(broker_id)
        return broker is not None and incarnation is not None and broker.incarnation == incarnation

    def has_live_master(self, replica_set: ReplicaSetImage) -> bool:
        """Whether the set has a master that is neither known to be dead nor has a failed log."""
        broker = self.image.brokers.get(replica_set.master)
        if self.has_failed_master(replica_set):
            return False
        return broker is not None and not broker.is_fenced and not self.is_dead(broker)

    def has_failed(self, broker_id: BrokerId, replica_set_id: ReplicaSetId) -> bool:
        """Whether the member last reported that its log has failed."""
        known = self.reports.get(broker_id, {}).get(replica_set_id)
        return known is not None and known.report.role == FAILED

    def has_failed_master(self, replica_set: ReplicaSetImage) -> bool:
        """Whether the master has reported in its current mastership that its log has failed.

        An older report is from an earlier process, or was superseded by an election.
        """
        set_id, master = replica_set.replica_set_id, replica_set.master
        if not self.has_failed(master, set_id):
            return False
        return self.reports[master][set_id].report.leader_epoch == replica_set.leader_epoch

    def static_master(self, replica_set: ReplicaSetImage) -> BrokerId:
        """Return the only broker that may lead the set while failover is off."""
        if replica_set.last_master in replica_set.replicas:
            return replica_set.last_master
        return replica_set.replicas[0]
