"""Metadata records: the changes of a cluster's metadata, one class each.

A record states a fact in the past tense and contains its result, never a calculation: replaying it
needs neither clock nor randomness nor settings. The records of one command are one log entry, so
that a topic never exists without its configuration.

    ClusterCreated ─ DefaultPolicyChanged ─ FailoverChanged
    BrokerRegistered ─ BrokerFenced ─ BrokerDrained ─ BrokerRemoved
    ReplicaSetCreated ─ ReplicaRegistered ─ ReplicasChanged
    AckPolicyChanged ─ CopiesFloorChanged ─ UncleanElectionChanged
    MastershipBegun ─ SyncStateSetChanged
    TopicCreated ─ PartitionsAdded ─ ConfigChanged ─ TopicDeleted
    ProducerIdBlockAllocated
    FeatureLevelChanged and configuration other than of topics: config_records.py

Bytes: docs/formats/metadata-log.md, written and read by `record_codec`.
Source: KIP-500 and KIP-631 (metadata records of KRaft); RIP-44 for masters and sync-state sets.
Which records a command makes is decided by its handler.

`since` names the version of the kind that added a field: in records of an older version it has its
default. docs/adding.md describes how to add a record or a field.
"""

from dataclasses import dataclass
from typing import Any, ClassVar

from penstock.base.ack_policy import PolicyKind
from penstock.base.endpoints import NamedEndpoint
from penstock.base.ids import (
    BrokerEpoch,
    BrokerId,
    LeaderEpoch,
    PartitionId,
    ProducerId,
    ReplicaId,
    ReplicaSetId,
    SyncStateSetEpoch,
    TopicId,
)
from penstock.controller.metadata.causes import Cause, read_old
from penstock.controller.metadata.config_records import (
    CONFIGURATION_LEVEL,
    CarriedRecord,
    ConfigurationRecord,
    FeatureLevelChanged,
)
from penstock.controller.metadata.declare import OlderForm, read_str, since
from penstock.controller.metadata.kinds import RecordKind, ResourceType
from penstock.controller.metadata.levels import FIRST_LEVEL, MACHINES_LEVEL
from penstock.controller.topic_config.table import OVERRIDES_LEVEL, needs_level_2

__all__ = ["CarriedRecord", "FeatureLevelChanged", "RecordKind", "ResourceType"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterCreated:
    """The first record of every log. `cluster_id` is what clients see, 22 characters."""

    KIND: ClassVar = RecordKind.CLUSTER_CREATED
    cluster_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerRegistered:
    """A broker has registered, or its address changed. `rack` is None when it has none.

    `broker_epoch` is larger than that of every registration before. A registered broker is not
    fenced. `is_draining` is not changed by a registration; it is here for snapshots. `listeners`
    are those for clients in addition to `host` and `port`. `machine` names the computer, empty if
    unknown.
    """

    KIND: ClassVar = RecordKind.BROKER_REGISTERED
    broker_id: BrokerId
    host: str
    port: int
    rack: str | None
    ha_host: str = since(2, "")
    ha_port: int = since(2, 0)
    identity: str = since(2, "")
    incarnation: str = since(2, "")
    broker_epoch: BrokerEpoch = since(2, BrokerEpoch(0))
    directory_count: int = since(2, 1)
    is_draining: bool = since(2, False)
    listeners: tuple[NamedEndpoint, ...] = since(3, (), is_sparse=True)
    machine: str = since(4, "", level=MACHINES_LEVEL, is_sparse=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaSetCreated:
    """A new set with these members (broker ids, preferred master first); all in step, no master.

    In which data directory a member keeps the set's files is not metadata of the cluster.
    """

    KIND: ClassVar = RecordKind.REPLICA_SET_CREATED
    replica_set_id: ReplicaSetId
    replicas: tuple[BrokerId, ...]
    policy_kind: str = since(2, PolicyKind.ALL.value)
    policy_required: int = since(2, 1)
    policy_minimum: int = since(2, 1)
    next_replica_id: ReplicaId = since(2, ReplicaId(1))
    """The lowest id that no replica has had yet; larger than 1 in snapshots only."""


def _with_cause_apart(values: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of a mastership whose cause and detail were one text."""
    cause, detail = read_old(values["cause"])
    found: dict[str, Any] = {"cause": cause, "detail": detail}
    if cause is Cause.UNCLEAN:
        found["unclean_epoch"] = values["leader_epoch"]
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class MastershipBegun:
    """`master` leads the set from now on; every mastership has a larger `leader_epoch`.

    `master` -1: the set has none. `detail` is for people, `at_ms` wall time, `last_master` the last
    master (`master` itself if there is one), -1 if the set never had one.
    `unclean_epoch` is the leader epoch of the newest mastership, this one included, whose master
    may have lacked confirmed records; -1: there was none, or an older release wrote the record.
    """

    KIND: ClassVar = RecordKind.MASTERSHIP_BEGUN
    OLDER: ClassVar = {2: OlderForm({"cause": read_str}, _with_cause_apart)}
    replica_set_id: ReplicaSetId
    master: BrokerId
    leader_epoch: LeaderEpoch
    cause: Cause = since(2, Cause.UNKNOWN)
    at_ms: int = since(2, 0)
    last_master: BrokerId = since(2, BrokerId(-1))
    detail: str = since(3, "")
    unclean_epoch: LeaderEpoch = since(3, LeaderEpoch(-1))


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncStateSetChanged:
    """The members in step (broker ids, ascending); `sync_state_set_epoch` grows by each change.

    Empty only where the set has no master: its last member in step has lost its log.
    """

    KIND: ClassVar = RecordKind.SYNC_STATE_SET_CHANGED
    replica_set_id: ReplicaSetId
    sync_state_set: tuple[BrokerId, ...]
    sync_state_set_epoch: SyncStateSetEpoch


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicCreated:
    """`replica_set_ids[p]` is the set that hosts partition p."""

    KIND: ClassVar = RecordKind.TOPIC_CREATED
    name: str
    topic_id: TopicId
    replica_set_ids: tuple[ReplicaSetId, ...]
    internal: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionsAdded:
    """Partitions `first_partition`, `first_partition + 1`, ... with the sets that host them."""

    KIND: ClassVar = RecordKind.PARTITIONS_ADDED
    topic_id: TopicId
    first_partition: PartitionId
    replica_set_ids: tuple[ReplicaSetId, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicDeleted:
    """The topic is deleted with its configuration; its id is never reused, its name may be."""

    KIND: ClassVar = RecordKind.TOPIC_DELETED
    topic_id: TopicId


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigChanged:
    """One override is set, or removed if `value` is None.

    Overrides of topics exist at every level, those of other KEPT_RESOURCES from level 2 on.
    """

    KIND: ClassVar = RecordKind.CONFIG_CHANGED
    resource_type: int
    resource_name: str
    key: str
    value: str | None

    @property
    def needs(self) -> int:
        """The metadata level that this one needs."""
        if self.resource_type != ResourceType.TOPIC:
            return CONFIGURATION_LEVEL
        is_new = self.value is not None and needs_level_2(self.key, self.value)
        return OVERRIDES_LEVEL if is_new else FIRST_LEVEL


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerIdBlockAllocated:
    """The broker owns the ids `first_producer_id` (inclusive) to `next_producer_id` (exclusive)."""

    KIND: ClassVar = RecordKind.PRODUCER_ID_BLOCK_ALLOCATED
    broker_id: BrokerId
    first_producer_id: ProducerId
    next_producer_id: ProducerId


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerFenced:
    """The broker counts as dead until it registers again."""

    KIND: ClassVar = RecordKind.BROKER_FENCED
    broker_id: BrokerId


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerDrained:
    """The broker is being drained, or its drain has ended."""

    KIND: ClassVar = RecordKind.BROKER_DRAINED
    broker_id: BrokerId
    is_draining: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerRemoved:
    """The broker is removed; it was not a member of any set."""

    KIND: ClassVar = RecordKind.BROKER_REMOVED
    broker_id: BrokerId


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaRegistered:
    """The member's log is `log_id`; `replica_id` is its id in this set, given out once."""

    KIND: ClassVar = RecordKind.REPLICA_REGISTERED
    replica_set_id: ReplicaSetId
    broker_id: BrokerId
    replica_id: ReplicaId
    log_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicasChanged:
    """The set has these members, preferred master first; a removed one's replica id is dropped."""

    KIND: ClassVar = RecordKind.REPLICAS_CHANGED
    replica_set_id: ReplicaSetId
    replicas: tuple[BrokerId, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class AckPolicyChanged:
    """The set has this acknowledgement policy from now on."""

    KIND: ClassVar = RecordKind.ACK_POLICY_CHANGED
    replica_set_id: ReplicaSetId
    policy_kind: str
    policy_required: int
    policy_minimum: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CopiesFloorChanged:
    """Some confirmed records may be on only `copies_floor` of the members; -1: no longer.

    This follows a removal of members, a lost log or a change of policy, until the master has shown
    that enough of the current members hold every confirmed record.
    """

    KIND: ClassVar = RecordKind.COPIES_FLOOR_CHANGED
    replica_set_id: ReplicaSetId
    copies_floor: int


@dataclass(frozen=True, slots=True, kw_only=True)
class UncleanElectionChanged:
    """Whether a member that may lack records can be elected without an operator."""

    KIND: ClassVar = RecordKind.UNCLEAN_ELECTION_CHANGED
    replica_set_id: ReplicaSetId
    is_allowed: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class DefaultPolicyChanged:
    """The policy of sets that are created without one."""

    KIND: ClassVar = RecordKind.DEFAULT_POLICY_CHANGED
    policy_kind: str
    policy_required: int
    policy_minimum: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FailoverChanged:
    """Whether masters are elected; if not, each set keeps its master."""

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
    | ConfigurationRecord
)
