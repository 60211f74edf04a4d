"""Requests to the coordinator and its replies, independent of wire versions.

The handlers translate requests of any version into these, and these into answers of the same
version. Times are milliseconds; a `generation` of -1 means none; an empty member id means unknown.

Source: the fields of JoinGroup 0-9, SyncGroup 0-5, LeaveGroup 0-5, OffsetCommit 2-10,
TxnOffsetCommit 0-5, DescribeGroups 0-6 and ListGroups 0-5 of the Kafka protocol.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from penstock.coordinator.pending import Writer
from penstock.coordinator.records import JournalRecord
from penstock.groups.records import CommittedOffset, TopicKey
from penstock.protocol.error_codes import ErrorCode

NO_MEMBER_ID = ""
NO_GENERATION = -1


class OfferedProtocol(NamedTuple):
    """An assignor that a member supports, with the metadata that the leader gets for it."""

    name: str
    metadata: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinGroup:
    """A member asks to be in the next generation."""

    group_id: str
    member_id: str = NO_MEMBER_ID
    instance_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocol_type: str
    protocols: tuple[OfferedProtocol, ...]
    member_id_required: bool = False
    """JoinGroup 4+ (KIP-394): a new member gets an id first, and joins with it."""
    can_skip_assignment: bool = False
    """JoinGroup 9+ (KIP-814): a returning static leader may be told to assign nothing."""
    reason: str = ""
    is_gone: Callable[[], bool] = lambda: False
    """Returns whether the connection of the request is closed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinedMember:
    """A member as the leader sees it."""

    member_id: str
    instance_id: str | None
    metadata: bytes


class MembersTold(Protocol):
    """The members in a leader's answer; those of a large group are listed only when iterated."""

    def __len__(self) -> int: ...
    def __iter__(self) -> Iterator[JoinedMember]: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinReply:
    """The answer to JoinGroup; `members` is filled for the leader only."""

    error: ErrorCode
    member_id: str = NO_MEMBER_ID
    generation: int = NO_GENERATION
    protocol_type: str | None = None
    protocol_name: str | None = None
    leader_id: str = NO_MEMBER_ID
    skip_assignment: bool = False
    members: MembersTold = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncGroup:
    """A member asks for its assignment; the leader sends those of all members."""

    group_id: str
    generation: int
    member_id: str
    instance_id: str | None = None
    protocol_type: str | None = None
    protocol_name: str | None = None
    assignments: Mapping[str, bytes]


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncReply:
    """The answer to SyncGroup."""

    error: ErrorCode
    protocol_type: str | None = None
    protocol_name: str | None = None
    assignment: bytes = b""


@dataclass(frozen=True, slots=True, kw_only=True)
class Heartbeat:
    """A member shows that it is alive."""

    group_id: str
    generation: int
    member_id: str
    instance_id: str | None = None


class MemberIdentity(NamedTuple):
    """A member that is to leave: by member id, or by instance id alone (operators do this)."""

    member_id: str
    instance_id: str | None = None
    reason: str = ""


class LeftMember(NamedTuple):
    """The outcome for one member that was to leave."""

    identity: MemberIdentity
    error: ErrorCode


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaveReply:
    """The answer to LeaveGroup: an error for the group, or one per member."""

    error: ErrorCode
    members: tuple[LeftMember, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitOffsets:
    """Offsets to commit; without generation and member id the commit is from outside the group."""

    group_id: str
    generation: int = NO_GENERATION
    member_id: str = NO_MEMBER_ID
    instance_id: str | None = None
    is_by_epoch: bool = False
    """OffsetCommit 9+ (KIP-848): of a consumer group, `generation` is the member's epoch."""
    writer: Writer | None = None
    """TxnOffsetCommit: the offsets count once this producer's transaction is committed."""
    offsets: Mapping[TopicKey, CommittedOffset]
    records: Mapping[TopicKey, JournalRecord] = field(default_factory=dict)
    """Records of some of them that were encoded ahead: many positions take milliseconds."""


class FetchedOffset(NamedTuple):
    """One answer of OffsetFetch; `committed` is None if nothing is committed."""

    committed: CommittedOffset | None
    error: ErrorCode


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchReply:
    """The answer to OffsetFetch for one group."""

    error: ErrorCode
    offsets: Mapping[TopicKey, FetchedOffset]


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberDescription:
    """A member as administrators see it; metadata and assignment only of a stable group."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    metadata: bytes
    assignment: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupDescription:
    """A group as administrators see it."""

    error: ErrorCode
    group_id: str
    state: str = ""
    protocol_type: str = ""
    protocol_name: str = ""
    members: tuple[MemberDescription, ...] = ()


class GroupListing(NamedTuple):
    """One line of ListGroups."""

    group_id: str
    protocol_type: str
    state: str
    group_type: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ListReply:
    """The answer to ListGroups; an error can come with the groups that are known."""

    error: ErrorCode
    groups: tuple[GroupListing, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteOffsetsReply:
    """The answer to OffsetDelete: an error for the group, or one per partition."""

    error: ErrorCode
    partitions: Mapping[TopicKey, ErrorCode]


JoinCallback = Callable[[JoinReply], None]
SyncCallback = Callable[[SyncReply], None]
CommitCallback = Callable[[Mapping[TopicKey, ErrorCode]], None]
DeleteGroupsCallback = Callable[[Mapping[str, ErrorCode]], None]
DeleteOffsetsCallback = Callable[[DeleteOffsetsReply], None]
