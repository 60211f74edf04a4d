"""Messages on the link between a slave's process and its master's, one class each.

    slave ──► master   Hello ─ Begin ─ Acknowledge ─ Goodbye ─ ManifestWanted ─ BaseBytesWanted
    master ──► slave   HelloAnswer ─ Refused ─ LogRun ─ Manifest ─ BaseBytes
    both               KeepAlive

    Hello ─► HelloAnswer ─► (align, cut, durable) ─► Begin ─► LogRun… ◄─► Acknowledge…
                       └─► ManifestWanted ─► Manifest ─► (BaseBytesWanted ─► BaseBytes)… ─► Hello

One link carries all sets that the two processes share; every message but KeepAlive names its set
and its mastership. A link keeps messages in order, so a new Hello for a set supersedes all earlier
messages about that set. The link has authenticated the other end.

Source: RocketMQ controller mode (handshake, transfer header with confirm offset), KIP-101. Layouts:
docs/formats/ha-link.md, written and read by wire.py.
"""

from enum import IntEnum
from typing import NamedTuple

from penstock.base.ids import LeaderEpoch, Position, ReplicaId, ReplicaSetId
from penstock.base.ports import Buffer
from penstock.replication.alignment import LogShape

BASE_BYTES_MAX = 1 << 20
"""Of one BaseBytes. One is on its way at a time, so this is the memory that a copy takes."""

NOT_SAID = -1
"""A time that is not known: no keep-alive was read yet, or an earlier release sent it."""


class Reason(IntEnum):
    """Why a master refuses; the numbers are those on the wire."""

    STALE_EPOCH = 1
    """The slave follows an older mastership than the newest known here."""
    UNKNOWN_EPOCH = 2
    """The slave knows a newer mastership than this broker does: try again soon."""
    NOT_MASTER = 3
    """This broker does not lead the set (yet): try again soon."""
    UNKNOWN_REPLICA = 4
    """The controllers have not recorded this replica (yet) for the set: try again soon."""
    NO_SESSION = 5
    """The message must follow a Hello."""
    DIVERGED = 6
    """The slave's log is no prefix of this one: an operator has to decide."""
    NOT_READY = 7
    """The log cannot be read at the moment: try again soon."""


class Hello(NamedTuple):
    """A slave wants to follow. `replica_id` is the id recorded for its log, `incarnation` the name
    of its process as registered with the controllers.
    """

    replica_set_id: ReplicaSetId
    leader_epoch: LeaderEpoch
    replica_id: ReplicaId
    incarnation: str
    shape: LogShape


class HelloAnswer(NamedTuple):
    """The master's own log, for the slave to align with."""

    replica_set_id: ReplicaSetId
    leader_epoch: LeaderEpoch
    shape: LogShape


class Refused(NamedTuple):
    """The master refuses. `newest_epoch` is the newest mastership known to the sender."""

    replica_set_id: ReplicaSetId
    leader_epoch: LeaderEpoch
    reason: Reason
    newest_epoch: LeaderEpoch
    text: str = ""


class Begin(NamedTuple):
    """The slave's log is aligned, and durable up to `position`: send from there on."""

    replica_set_id: ReplicaSetId
    leader_epoch: LeaderEpoch
    position: Position
    whole_from: Position
    """From where on (inclusive) the slave has what the set keeps, over all its stores."""


class LogRun(NamedTuple):
    """Frames as they are in the master's log, or none, and the set's confirm position."""

    replica_set_id: ReplicaSetId
    leader_epoch: LeaderEpoch
    frames_epoch: LeaderEpoch
    """The epoch in the frames: older than the mastership's if an earlier master wrote them."""
    position: Position
    confirm_position: Position
    file_base: Position
    file_end: Position
    """The bounds [file_base, file_end) of the file that the run lies in: members of a set cut their
    logs into files at the same positions."""
    data: Buffer
    """In a decoded message a view: valid as long as its frame."""


class Acknowledge(NamedTuple):
    """The slave holds everything below `position` durably.

    `read_ms` is the `said_ms` of the newest KeepAlive that the slave has read on this link.
    """

    replica_set_id: ReplicaSetId
    leader_epoch: LeaderEpoch
    position: Position
    read_ms: int = NOT_SAID


class Goodbye(NamedTuple):
    """The slave does not follow this mastership any more."""

    replica_set_id: ReplicaSetId
    leader_epoch: LeaderEpoch


class ManifestWanted(NamedTuple):
    """The slave cannot go on from its own end: it asks for a base, the manifest first."""

    replica_set_id: ReplicaSetId
    leader_epoch: LeaderEpoch
    newest_only: bool


class Manifest(NamedTuple):
    """What the slave has to copy: storage's BaseManifest, encoded."""

    replica_set_id: ReplicaSetId
    leader_epoch: LeaderEpoch
    encoded: Buffer


class BaseBytesWanted(NamedTuple):
    """The slave asks for raw bytes of the base, up to `bytes_max` from `position` on."""

    replica_set_id: ReplicaSetId
    leader_epoch: LeaderEpoch
    position: int
    bytes_max: int


class BaseBytes(NamedTuple):
    """Raw bytes of the base that begin at `position`."""

    replica_set_id: ReplicaSetId
    leader_epoch: LeaderEpoch
    position: int
    data: Buffer


class KeepAlive(NamedTuple):
    """The process is alive; belongs to no set.

    `said_ms` is the sender's own clock, which the other end returns and does not interpret.
    """

    said_ms: int = NOT_SAID


HaMessage = (
    Hello
    | HelloAnswer
    | Refused
    | Begin
    | LogRun
    | Acknowledge
    | Goodbye
    | ManifestWanted
    | Manifest
    | BaseBytesWanted
    | BaseBytes
    | KeepAlive
)
