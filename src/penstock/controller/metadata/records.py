"""Metadata records: everything that can happen to a cluster's metadata, one class each.

A record is a fact in the past tense and carries its result, never a calculation: replaying it needs
neither clock nor randomness nor settings. The records of one command travel as one log entry, so
that a topic never exists without its configuration.

    ClusterCreated ─ DefaultPolicyChanged ─ FailoverChanged
    BrokerRegistered ─ BrokerFenced ─ BrokerDrained ─ BrokerRemoved
    ReplicaSetCreated ─ ReplicaRegistered ─ ReplicasChanged
    AckPolicyChanged ─ CopiesFloorChanged ─ UncleanElectionChanged
    MastershipBegun ─ SyncStateSetChanged
    TopicCreated ─ PartitionsAdded ─ ConfigChanged ─ TopicDeleted
    ProducerIdBlockAllocated

Bytes: docs/formats/metadata-log.md, written and read by `record_codec`.
Source: KIP-500 and KIP-631 (metadata records of KRaft); RIP-44 for masters and sync-state sets.
It does not say who may emit a record: that is the handlers' business.

A field with a default has been added in version 2 of its kind, or where it is said in version 3: in
records that an older release wrote it has that default.
"""

from dataclasses import dataclass
from enum import IntEnum
from typing import ClassVar

from penstock.base.ack_policy import PolicyKind
from penstock.base.endpoints import NamedEndpoint
from penstock.base.ids import TopicId
from penstock.controller.metadata.causes import Cause


class RecordKind(IntEnum):
    """The `kind` field of the envelope. Numbers are for ever: never reuse one."""

    CLUSTER_CREATED = 1
    BROKER_REGISTERED = 2
    REPLICA_SET_CREATED = 3
    MASTERSHIP_BEGUN = 4
    SYNC_STATE_SET_CHANGED = 5
    TOPIC_CREATED = 6
    PARTITIONS_ADDED = 7
    TOPIC_DELETED = 8
    CONFIG_CHANGED = 9
    PRODUCER_ID_BLOCK_ALLOCATED = 10
    BROKER_FENCED = 11
    BROKER_DRAINED = 12
    BROKER_REMOVED = 13
    REPLICA_REGISTERED = 14
    REPLICAS_CHANGED = 15
    ACK_POLICY_CHANGED = 16
    UNCLEAN_ELECTION_CHANGED = 17
    DEFAULT_POLICY_CHANGED = 18
    FAILOVER_CHANGED = 19
    COPIES_FLOOR_CHANGED = 20


class ResourceType(IntEnum):
    """What a configuration belongs to; the numbers are Kafka's ConfigResource types."""

    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterCreated:
    """The first record of every log. `cluster_id` is what clients see, 22 characters."""

    KIND: ClassVar = RecordKind.CLUSTER_CREATED
    cluster_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerRegistered:
    """A broker is there, or its address changed. `rack` is None when it has none.

    `broker_epoch` is larger than that of every registration before. A registered broker is not
    fenced. `is_draining` stays what it was; it stands here for snapshots. `listeners` are those for
    clients beside `host` and `port`.
    """

    KIND: ClassVar = RecordKind.BROKER_REGISTERED
    broker_id: int
    host: str
    port: int
    rack: str | None
    ha_host: str = ""
    ha_port: int = 0
    identity: str = ""
    incarnation: str = ""
    broker_epoch: int = 0
    directory_count: int = 1
    is_draining: bool = False
    listeners: tuple[NamedEndpoint, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaSetCreated:
    """A new set with these members (broker ids, preferred master first); all in step, no master.

    Where a member keeps the set's files is its own affair and not metadata of the cluster.
    """

    KIND: ClassVar = RecordKind.REPLICA_SET_CREATED
    replica_set_id: int
    replicas: tuple[int, ...]
    policy_kind: str = PolicyKind.ALL.value
    policy_required: int = 1
    policy_minimum: int = 1
    next_replica_id: int = 1
    """The first id that no replica had yet; larger than 1 in snapshots only."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MastershipBegun:
    """`master` leads the set from now on; every mastership has a larger `leader_epoch`.

    -1 for `master`: nobody does. `detail` is for people, `at_ms` wall time, `last_master` whoever
    was master last (`master` itself where there is one), -1 where nobody ever was.
    `unclean_epoch` is the leader epoch of the newest mastership, this one included, whose master
    may have lacked confirmed records; -1: there was none, or an older release has written this.
    `detail` and `unclean_epoch` have been added in version 3.
    """

    KIND: ClassVar = RecordKind.MASTERSHIP_BEGUN
    replica_set_id: int
    master: int
    leader_epoch: int
    cause: Cause = Cause.UNKNOWN
    at_ms: int = 0
    last_master: int = -1
    detail: str = ""
    unclean_epoch: int = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncStateSetChanged:
    """The members in step (broker ids, ascending); `sync_state_set_epoch` grows by each change.

    Empty only where the set has no master: its last member in step has lost its log.
    """

    KIND: ClassVar = RecordKind.SYNC_STATE_SET_CHANGED
    replica_set_id: int
    sync_state_set: tuple[int, ...]
    sync_state_set_epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicCreated:
    """`replica_set_ids[p]` is the set that hosts partition p."""

    KIND: ClassVar = RecordKind.TOPIC_CREATED
    name: str
    topic_id: TopicId
    replica_set_ids: tuple[int, ...]
    internal: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionsAdded:
    """Partitions `first_partition`, `first_partition + 1`, ... with the sets that host them."""

    KIND: ClassVar = RecordKind.PARTITIONS_ADDED
    topic_id: TopicId
    first_partition: int
    replica_set_ids: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicDeleted:
    """The topic is gone with its configuration; its id never comes back, its name may."""

    KIND: ClassVar = RecordKind.TOPIC_DELETED
    topic_id: TopicId


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigChanged:
    """One override is set, or taken away where `value` is None."""

    KIND: ClassVar = RecordKind.CONFIG_CHANGED
    resource_type: int
    resource_name: str
    key: str
    value: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerIdBlockAllocated:
    """`broker_id` owns the ids from `first_producer_id` up to, without, `next_producer_id`."""

    KIND: ClassVar = RecordKind.PRODUCER_ID_BLOCK_ALLOCATED
    broker_id: int
    first_producer_id: int
    next_producer_id: int


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerFenced:
    """The broker counts as dead until it registers again."""

    KIND: ClassVar = RecordKind.BROKER_FENCED
    broker_id: int


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerDrained:
    """The broker shall have no duties, or may have some again."""

    KIND: ClassVar = RecordKind.BROKER_DRAINED
    broker_id: int
    is_draining: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerRemoved:
    """The broker is forgotten; it was member of no set."""

    KIND: ClassVar = RecordKind.BROKER_REMOVED
    broker_id: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaRegistered:
    """The member's log is `log_id`; `replica_id` is that log's in this set, given out once."""

    KIND: ClassVar = RecordKind.REPLICA_REGISTERED
    replica_set_id: int
    broker_id: int
    replica_id: int
    log_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicasChanged:
    """The set's members are these now, preferred master first; a removed one's id is forgotten."""

    KIND: ClassVar = RecordKind.REPLICAS_CHANGED
    replica_set_id: int
    replicas: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class AckPolicyChanged:
    """How many copies the set's acknowledgement stands for from now on."""

    KIND: ClassVar = RecordKind.ACK_POLICY_CHANGED
    replica_set_id: int
    policy_kind: str
    policy_required: int
    policy_minimum: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CopiesFloorChanged:
    """Some confirmed records may be on `copies_floor` of the members only; -1: that is over.

    It is so after members were taken away, lost their log or are counted in another way, until
    the master has shown that enough of the present ones hold everything.
    """

    KIND: ClassVar = RecordKind.COPIES_FLOOR_CHANGED
    replica_set_id: int
    copies_floor: int


@dataclass(frozen=True, slots=True, kw_only=True)
class UncleanElectionChanged:
    """Whether a member that may lack records may become master by itself."""

    KIND: ClassVar = RecordKind.UNCLEAN_ELECTION_CHANGED
    replica_set_id: int
    is_allowed: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class DefaultPolicyChanged:
    """What sets get that are created without a policy."""

    KIND: ClassVar = RecordKind.DEFAULT_POLICY_CHANGED
    policy_kind: str
    policy_required: int
    policy_minimum: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FailoverChanged:
    """Whether masters are elected; if not, each stays where it is."""

    KIND: ClassVar = RecordKind.FAILOVER_CHANGED
    is_enabled: bool


MetadataRecord = (
    ClusterCreated
    | BrokerRegistered
    | ReplicaSetCreated
    | MastershipBegun
    | SyncStateSetChanged
    | TopicCreated
    | PartitionsAdded
    | TopicDeleted
    | ConfigChanged
    | ProducerIdBlockAllocated
    | BrokerFenced
    | BrokerDrained
    | BrokerRemoved
    | ReplicaRegistered
    | ReplicasChanged
    | AckPolicyChanged
    | CopiesFloorChanged
    | UncleanElectionChanged
    | DefaultPolicyChanged
    | FailoverChanged
)
