"""The messages of sessions with their numbers on the wire, and those that belong to the runtime.

What the messages mean is in controller/session.py, their encoding in peer_codec.py, and the table
again in docs/formats/peer-links.md. A number is never reused.
"""

from dataclasses import dataclass

from penstock.base.ids import PeerId, RequestId
from penstock.controller import session as s
from penstock.controller.metadata.record_codec import ENTRY_BYTES_MAX
from penstock.controller.replicated_log import NO_ENTRY, MachineIndex
from penstock.raft.ids import NO_DIRECTORY, DirectoryId
from penstock.runtime.long_message import Bounds
from penstock.runtime.peer_codec import MessageCodec

PURPOSE = b"session"
SESSION_VERSION = 1

FRAME_BYTES_MAX = ENTRY_BYTES_MAX + (1 << 20)
"""Largest message of a session: a command that just fits an entry, or a status of that size."""
SETS_MAX = 2_000
"""Sets in one message: a broker is in at most `controller.sets_per_broker_max` of them, which is
1,000 at most, and in those where operators have put it. A longer heartbeat is cut."""
HEARTBEAT_SETS = 200
"""Sets in one heartbeat; with 32 members each they take 0.8 MB."""
_REPORTS_BYTES_MAX = 1 << 20
_SHORT_BYTES_MAX = 64 << 10


@dataclass(frozen=True, slots=True, kw_only=True)
class SubmitOutcome:
    """Answers Submit, with the log index at which the command was answered.

    The asking broker waits until its own image holds that entry, so that the answer agrees with
    what it sees. `error` is written by `encode_error`, or empty. `is_fate_open`: the controller
    was replaced while the entry was in flight, and the next one decides whether it is committed; or
    a part of a long command is committed, and another one failed.
    """

    request_id: RequestId
    applied_index: MachineIndex = NO_ENTRY
    answer: bytes = b""
    error: bytes = b""
    is_fate_open: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeControllers:
    """Change the voters or the leader of the metadata log; answered by an OperationAnswer.

    `action` is "add" (peer_id and address), "remove" or "transfer" (leadership to peer_id). With a
    `directory_id` the peer must run with it (add), or vote with it (remove).
    """

    request_id: RequestId
    action: str
    peer_id: PeerId
    address: str = ""
    directory_id: DirectoryId = NO_DIRECTORY


@dataclass(frozen=True, slots=True, kw_only=True)
class QuorumRequest:
    """Request the voters and how far each one's log is. The OperationAnswer's text is JSON.

    Any controller answers with voters and addresses; only the active one knows how far each is.
    """

    request_id: RequestId


@dataclass(frozen=True, slots=True, kw_only=True)
class FeaturesRequest:
    """Request the finalised levels and those each process reads. The OperationAnswer is JSON."""

    request_id: RequestId


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeFeature:
    """Set a feature's level; answered by an OperationAnswer.

    `level` 0 stands for the newest of the active controller's release, or with `is_lowering` for
    the level below the present one. `is_trial`: nothing is changed, and the answer says what would
    be.
    """

    request_id: RequestId
    feature: str
    level: int = 0
    is_lowering: bool = False
    is_trial: bool = False


ByService = ChangeControllers | FeaturesRequest | ChangeFeature
"""Requests served by the active controller's process and not by ActiveController."""

Operation = QuorumRequest | s.ElectRequest | s.TransferRequest | s.DrainRequest | ByService
"""Operators' requests to the active controller; each gets an OperationAnswer."""

Question = s.Submit | s.StatusRequest | Operation
Answer = SubmitOutcome | s.OperationAnswer | s.StatusAnswer
ToController = s.Heartbeat | s.ProbeAnswer | s.TransferReady | Question
ToBroker = s.HeartbeatAnswer | s.ProbeSets | s.PrepareTransfer | s.ReleasePromises | Answer
SessionMessage = ToController | ToBroker

_SHORT = Bounds(_SHORT_BYTES_MAX)
_BOUNDS: dict[type, Bounds] = {
    s.Heartbeat: Bounds(_REPORTS_BYTES_MAX, {"sets": SETS_MAX}),
    s.ProbeAnswer: Bounds(_REPORTS_BYTES_MAX, {"reports": SETS_MAX}),
    s.ProbeSets: Bounds(_REPORTS_BYTES_MAX, {"sets": SETS_MAX}),
    s.ReleasePromises: Bounds(_REPORTS_BYTES_MAX, {"sets": SETS_MAX}),
    s.StatusAnswer: Bounds(FRAME_BYTES_MAX, {"brokers": 10_000, "sets": 100_000}),
    s.TransferReady: _SHORT,
    s.PrepareTransfer: _SHORT,
    s.HeartbeatAnswer: _SHORT,
    s.ElectRequest: _SHORT,
    s.TransferRequest: _SHORT,
    s.DrainRequest: _SHORT,
    s.StatusRequest: _SHORT,
    ChangeControllers: _SHORT,
    QuorumRequest: _SHORT,
}

SESSION_CODEC = MessageCodec[SessionMessage](
    {
        1: s.Heartbeat,
        2: s.ProbeAnswer,
        3: s.TransferReady,
        4: s.Submit,
        5: s.ElectRequest,
        6: s.TransferRequest,
        7: s.DrainRequest,
        8: s.StatusRequest,
        9: ChangeControllers,
        10: QuorumRequest,
        11: FeaturesRequest,
        12: ChangeFeature,
        65: s.HeartbeatAnswer,
        66: s.ProbeSets,
        67: s.PrepareTransfer,
        68: SubmitOutcome,
        69: s.OperationAnswer,
        70: s.StatusAnswer,
        71: s.ReleasePromises,
    },
    version=SESSION_VERSION,
    bounds=_BOUNDS,
)
