"""Messages between a broker's session and the controllers: plain values, one class each.

Every broker keeps a session with every controller and sends heartbeats to each, so that the one
that becomes active already knows which brokers are alive. Only the active controller probes,
transfers and takes commands; the others answer with its id.

    broker ──► controller   Heartbeat ─ ProbeAnswer ─ TransferReady ─ Submit
                            ElectRequest ─ TransferRequest ─ DrainRequest ─ StatusRequest
    controller ──► broker   HeartbeatAnswer ─ ProbeSets ─ PrepareTransfer ─ ReleasePromises
                            SubmitAnswer ─ OperationAnswer ─ StatusAnswer

Commands, answers and errors travel as bytes written by commands/codec.py, so that every field here
is a number, a text, bytes, or a tuple of such dataclasses. Members are named by broker id.
Positions are bytes of the set's commit log, ends exclusive; -1 in a position means: not known. An
empty `error` means that there is none. Request ids count from 1 within one session; an answer
carries that of its request.

Source: RIP-44 and RocketMQ's broker heartbeat (epoch, offset, confirm offset to all controllers);
KIP-631 (registration apart from heartbeats). Framing, order and authentication are the link's.
"""

from dataclasses import dataclass

from penstock.base.ids import (
    BrokerEpoch,
    BrokerId,
    ControllerEpoch,
    LeaderEpoch,
    PeerId,
    ReplicaId,
    ReplicaSetId,
    RequestId,
    SessionId,
    SyncStateSetEpoch,
)
from penstock.controller.replicated_log import NO_ENTRY, MachineIndex

NO_CONTROLLER_EPOCH = ControllerEpoch(0)
"""None yet; the epoch in a message of a release that did not tell it."""
NO_HEARTBEAT = -2
"""In an answer: it is news of who is active, and answers no heartbeat."""
NOT_TOLD = -1
"""An earlier release sent it, and does not tell the time."""
NOT_PROMISED = ControllerEpoch(-1)
ANY_BROKER = BrokerId(-1)

FAILED = "failed"
"""Role of a member whose log takes no writes until its process is restarted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SlaveReport:
    """A slave as its master sees it; `caught_up_ms_ago` is -1 if never in this mastership."""

    broker_id: BrokerId
    acknowledged_position: int
    lag_bytes: int
    caught_up_ms_ago: int
    is_connected: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class SetReport:
    """One member's own state: in a heartbeat for status, in a ProbeAnswer for an election.

    `log_id` is the random name that the log was made with: a member whose `log_id` is not the
    registered one has lost what it acknowledged. `last_log_epoch` is the leader epoch of the last
    mastership in the log, -1 for an empty log. `log_end_position` counts durable bytes only.
    `slaves` is filled in by masters. A member whose log has failed says so as its role, and names
    the newest mastership that it has heard of; alone in its set it stays "master", for reads.
    """

    replica_set_id: ReplicaSetId
    log_id: str
    role: str
    """"master", "slave", "idle" or "failed"."""
    leader_epoch: LeaderEpoch
    """The mastership that the member leads or follows, -1 for none; see above for "failed"."""
    last_log_epoch: LeaderEpoch
    log_start_position: int
    log_end_position: int
    confirm_position: int
    slaves: tuple[SlaveReport, ...] = ()
    promised_to: ControllerEpoch = NOT_PROMISED
    """Controller epoch of the last one that probed the member or asked it to hand over, until it is
    released; see ProbeSets and PrepareTransfer. -1 if nothing is open."""
    whole_from: int = 0
    """From that position on (inclusive) the log has what its set keeps. Above 0 it was copied from
    its master's newest segment on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Heartbeat:
    """A sign of life. Sent every `heartbeat_interval_ms`, and at once when a session opens.

    `incarnation` is the process's, as in its registration, and `identity` that of its data
    directory: another process under the same id is not taken for the broker. `sets` may be left
    out (empty) in most heartbeats, or spread over several; the last report of each holds.
    `is_stopping`: the process is shutting down, and waits for a bounded time until its masterships
    are taken over.
    """

    session_id: SessionId
    broker_id: BrokerId
    incarnation: str
    sets: tuple[SetReport, ...] = ()
    identity: str = ""
    is_stopping: bool = False
    metadata_levels: int = 0
    """The metadata levels that the process reads, packed by `LevelRange`; 0: not told."""
    sent_ms: int = NOT_TOLD
    """When it was sent, by the broker's own clock: the answer returns it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HeartbeatAnswer:
    """`active_id` is -1 while no controller is known to be active.

    `is_registration_wanted`: the active controller does not know this incarnation, or has fenced
    it: send RegisterBroker and RegisterReplica again. `applied_index` is the metadata entry up to
    which the controller's image goes. `sent_ms` is that of the heartbeat which is answered.
    """

    active_id: PeerId
    controller_epoch: ControllerEpoch
    is_registration_wanted: bool = False
    applied_index: MachineIndex = NO_ENTRY
    sent_ms: int = NOT_TOLD


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbedSet:
    """A set that is about to elect; `leader_epoch` is its newest one in the controller's image.

    `is_promise_wanted`: its policy lets a master confirm without all others
    (`AckPolicy.needs_lease`).
    """

    replica_set_id: ReplicaSetId
    leader_epoch: LeaderEpoch
    is_promise_wanted: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeSets:
    """Ask a member for the state of its logs of these sets; the answer leaves out unknown sets.

    Where `is_promise_wanted`, the answer is a promise: the member acknowledges nothing more to a
    master of `leader_epoch` or less, and confirms nothing more as one. Without it a cut-off master
    could have a write confirmed by a member that had answered already. The promise ends with a
    newer mastership or with ReleasePromises of the same or a newer controller, never by time: the
    election's decision may be recorded at any later time.
    """

    request_id: RequestId
    controller_epoch: ControllerEpoch
    sets: tuple[ProbedSet, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeAnswer:
    """Durable state at the time of the answer; the reports leave `slaves` out."""

    request_id: RequestId
    reports: tuple[SetReport, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleasePromises:
    """Release a member: no decision based on its earlier answers can be recorded any more.

    It ends promises made to older controllers, and to this one up to `request_id` (inclusive), and
    the transfers that they prepared.
    """

    controller_epoch: ControllerEpoch
    request_id: RequestId
    sets: tuple[ProbedSet, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PrepareTransfer:
    """Ask the master to stop taking writes and to answer once `target` holds its whole log.

    After `timeout_ms`, or if `leader_epoch` is not its own, it resumes writes and answers that it
    is not ready. Once ready it takes no writes until it learns of the next mastership, or another
    `timeout_ms` have passed. Where `is_promise_wanted`, the ready answer is a promise as in
    ProbeSets: what it writes afterwards is not confirmed before it is released.
    """

    request_id: RequestId
    replica_set_id: ReplicaSetId
    leader_epoch: LeaderEpoch
    target: BrokerId
    timeout_ms: int
    controller_epoch: ControllerEpoch = NO_CONTROLLER_EPOCH
    is_promise_wanted: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class TransferReady:
    """`is_ready`: `target` holds every byte up to `log_end_position` durably."""

    request_id: RequestId
    is_ready: bool
    log_end_position: int = -1
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Submit:
    """A command for the active controller, as `encode_command` writes it."""

    request_id: RequestId
    command: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class SubmitAnswer:
    """`answer` as `encode_answer` writes it, or `error` as `encode_error` does.

    NotActiveController names the controller to ask instead.
    """

    request_id: RequestId
    answer: bytes = b""
    error: bytes = b""


@dataclass(frozen=True, slots=True, kw_only=True)
class ElectRequest:
    """Elect a master for a set now. `master` -1 lets the election choose.

    `is_unclean`: any live member may win, also one that lacks acknowledged records.
    """

    request_id: RequestId
    replica_set_id: ReplicaSetId
    master: BrokerId = ANY_BROKER
    is_unclean: bool = False
    is_repeated: bool = False
    """Whether another controller had begun it before it lost the lead: a master that fits is the
    end of it, and no reason to refuse."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TransferRequest:
    """Move a mastership on purpose, without loss. `target` -1 is the preferred master."""

    request_id: RequestId
    replica_set_id: ReplicaSetId
    target: BrokerId = ANY_BROKER


@dataclass(frozen=True, slots=True, kw_only=True)
class DrainRequest:
    """Drain a broker (masterships, then places in sync-state sets), or end its drain."""

    request_id: RequestId
    broker_id: BrokerId
    is_draining: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class OperationAnswer:
    """Outcome of ElectRequest, TransferRequest, DrainRequest: `text` for people, or an error."""

    request_id: RequestId
    text: str = ""
    error: bytes = b""
    is_begun: bool = False
    """Whether an election or transfer had begun before the error."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StatusRequest:
    """Ask for the cluster's status. Any controller answers; the active one knows most."""

    request_id: RequestId


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerStatus:
    """A registered broker. `heard_ms_ago` is -1 if this controller never had a heartbeat of it."""

    broker_id: BrokerId
    host: str
    port: int
    ha_host: str
    ha_port: int
    rack: str
    broker_epoch: BrokerEpoch
    is_live: bool
    is_fenced: bool
    is_draining: bool
    heard_ms_ago: int
    master_count: int
    replica_count: int
    machine: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberStatus:
    """A member as it last reported; -1 and "" where it never did to this controller."""

    broker_id: BrokerId
    replica_id: ReplicaId
    is_live: bool
    is_in_sync: bool
    role: str
    leader_epoch: LeaderEpoch
    last_log_epoch: LeaderEpoch
    log_start_position: int
    log_end_position: int
    confirm_position: int
    lag_bytes: int
    """Behind the master's reported end; 0 for the master."""
    caught_up_ms_ago: int
    reported_ms_ago: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SetStatus:
    """A set. `cause` is why `master` leads, or no member does; `since_ms` is its wall time."""

    replica_set_id: ReplicaSetId
    policy_kind: str
    policy_required: int
    policy_minimum: int
    master: BrokerId
    leader_epoch: LeaderEpoch
    cause: str
    since_ms: int
    preferred_master: BrokerId
    sync_state_set: tuple[BrokerId, ...]
    sync_state_set_epoch: SyncStateSetEpoch
    partition_count: int
    is_unclean_allowed: bool
    is_electing: bool
    reason: str
    """Why the set has no master, for people; empty if it has one."""
    members: tuple[MemberStatus, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerStatus:
    """The leader of the metadata log, as the answering controller knows it."""

    answered_by: int
    active_id: PeerId
    controller_epoch: ControllerEpoch
    is_failover_enabled: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class StatusAnswer:
    """The content of `cluster status`, brokers and sets by ascending id."""

    request_id: RequestId
    cluster_id: str
    controller: ControllerStatus
    brokers: tuple[BrokerStatus, ...]
    sets: tuple[SetStatus, ...]
    error: bytes = b""


FromController = (
    HeartbeatAnswer
    | ProbeSets
    | PrepareTransfer
    | ReleasePromises
    | SubmitAnswer
    | OperationAnswer
    | StatusAnswer
)
