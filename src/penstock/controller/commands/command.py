"""Commands to the controller and the types of their answers, one class each.

`Command[R]` names the type of its answer, so that `submit(CreateTopics(...))` is known to give
`tuple[TopicOutcome, ...]`. A command for several topics answers one outcome for each, in order; a
refused topic has an error there and does not affect the others. Everything that is not refused
becomes one log entry: it is applied entirely or not at all.

Source: Kafka's CreateTopics, DeleteTopics, CreatePartitions, (Incremental)AlterConfigs requests;
RIP-44 for mastership and sync-state sets. Wire formats are not known here.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Generic, TypeVar

from penstock.base.ack_policy import AckPolicy
from penstock.base.endpoints import NamedEndpoint
from penstock.base.ids import (
    BrokerEpoch,
    BrokerId,
    LeaderEpoch,
    ProducerId,
    ReplicaId,
    ReplicaSetId,
    SyncStateSetEpoch,
    TopicId,
)
from penstock.controller.errors import MetadataError
from penstock.controller.metadata.causes import Cause

R_co = TypeVar("R_co", covariant=True)


class Command(Generic[R_co]):
    """Base of all commands; R_co is the answer's type."""

    __slots__ = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class NewTopic:
    """A topic to create. -1 takes the default; `assignments[p]` lists brokers, master first."""

    name: str
    partition_count: int = -1
    replication_factor: int = -1
    assignments: Mapping[int, tuple[BrokerId, ...]] = field(default_factory=dict)
    configs: Mapping[str, str | None] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicOutcome:
    """The outcome of one topic. The fields after `error` are unset if there is one."""

    name: str
    topic_id: TopicId | None = None
    error: MetadataError | None = None
    partition_count: int = -1
    replication_factor: int = -1
    configs: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateTopics(Command[tuple[TopicOutcome, ...]]):
    """Create topics. `internal` is for Penstock's own topics, whose names clients cannot use."""

    topics: tuple[NewTopic, ...]
    validate_only: bool = False
    internal: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicReference:
    """A topic by name or by id: exactly one of the two."""

    name: str | None = None
    topic_id: TopicId | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletedTopic:
    """The outcome of one deletion; name and id as far as they are known."""

    name: str | None
    topic_id: TopicId | None
    error: MetadataError | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteTopics(Command[tuple[DeletedTopic, ...]]):
    """Delete topics with all their records."""

    topics: tuple[TopicReference, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class MorePartitions:
    """`partition_count` is the new total; `assignments` are for the added ones, or None."""

    name: str
    partition_count: int
    assignments: tuple[tuple[BrokerId, ...], ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CreatePartitions(Command[tuple[TopicOutcome, ...]]):
    """Give topics more partitions."""

    topics: tuple[MorePartitions, ...]
    validate_only: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class PlaceInternal(Command[int]):
    """Have a partition of one of Penstock's own topics in a replica set: the answer is its number.

    The topic, or the partition, is made if it is missing.
    """

    topic: str
    replica_set_id: ReplicaSetId


class ConfigOperation(IntEnum):
    """The numbers are those of IncrementalAlterConfigs."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigEdit:
    """One change of one key. `operation` comes from the request and may be none of the four."""

    key: str
    operation: int
    value: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceEdits:
    """The changes of one resource; `resource_type` comes from the request unchecked."""

    resource_type: int
    resource_name: str
    edits: tuple[ConfigEdit, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigOutcome:
    """The outcome of the changes of one resource, which are applied all or none."""

    resource_type: int
    resource_name: str
    error: MetadataError | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterConfigs(Command[tuple[ConfigOutcome, ...]]):
    """Change configuration. With `replace` (AlterConfigs) all other overrides are removed."""

    resources: tuple[ResourceEdits, ...]
    replace: bool = False
    validate_only: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerIdBlock:
    """Producer ids `first_producer_id` (inclusive) to `next_producer_id` (exclusive)."""

    first_producer_id: ProducerId
    next_producer_id: ProducerId


@dataclass(frozen=True, slots=True, kw_only=True)
class AllocateProducerIds(Command[ProducerIdBlock]):
    """Take the next block of producer ids for a broker."""

    broker_id: BrokerId


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateCluster(Command[str]):
    """Create the cluster with this id unless it exists. Answers the id that it has."""

    cluster_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RegisterBroker(Command[int]):
    """Register a broker, or change its address. Answers its broker epoch.

    `identity` is kept in the data directory for life, `incarnation` is new in every process; both
    are empty on a node that is its own controller. A new incarnation leads no set until it is
    elected. Source: KIP-631; RocketMQ's APPLY_BROKER_ID (compare-and-set with a check code).
    """

    broker_id: BrokerId
    host: str
    port: int
    rack: str | None = None
    ha_host: str = ""
    ha_port: int = 0
    identity: str = ""
    incarnation: str = ""
    directory_count: int = 1
    listeners: tuple[NamedEndpoint, ...] = ()
    machine: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RegisterReplica(Command[int]):
    """Register a member's log of a set. Answers its replica id, a new one for a new log.

    A member with another log than the registered one has lost what it acknowledged: it leaves the
    sync-state set in the same entry. So only the broker's registered process may do this: another
    `incarnation` is refused (empty: not checked).
    """

    replica_set_id: ReplicaSetId
    broker_id: BrokerId
    log_id: str
    incarnation: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ForgetIdentity(Command[None]):
    """Let a broker with another identity take a fenced broker's id, whose disks are lost."""

    broker_id: BrokerId


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoveBroker(Command[None]):
    """Remove a broker that is not a member of any set."""

    broker_id: BrokerId


@dataclass(frozen=True, slots=True, kw_only=True)
class DrainBroker(Command[None]):
    """Drain a broker, or end its drain. The active controller moves the duties that it has."""

    broker_id: BrokerId
    is_draining: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaveSyncStateSets(Command[tuple[ReplicaSetId, ...]]):
    """Take a draining broker out of every sync-state set that can do without it.

    Answers the ids of the other sets: it is master there, or too few members would be left.
    """

    broker_id: BrokerId


@dataclass(frozen=True, slots=True, kw_only=True)
class NewMastership:
    """A mastership to begin; `master` -1: none for now, the sync-state set stays.

    `leader_epoch` and `sync_state_set_epoch` are those that the choice was based on.
    `sync_state_set` is the new set; None keeps the current one. `is_unclean` allows a master from
    outside the current set, and requires a new one: its members may hold what the master lacks.
    `detail` is for people.
    """

    replica_set_id: ReplicaSetId
    master: BrokerId
    leader_epoch: LeaderEpoch
    sync_state_set_epoch: SyncStateSetEpoch
    cause: Cause
    sync_state_set: tuple[BrokerId, ...] | None = None
    is_unclean: bool = False
    detail: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class BeginMasterships(Command[tuple[int, ...]]):
    """Begin masterships in one entry. Answers the new leader epochs, in order; all or none."""

    masterships: tuple[NewMastership, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class FenceBrokers(Command[tuple[int, ...]]):
    """Fence dead brokers and begin the masterships that follow, in one entry.

    A broker whose `broker_epoch` is not the current one has registered again meanwhile and is not
    fenced. Answers the new leader epochs of `masterships`, in order.
    """

    brokers: tuple[tuple[BrokerId, BrokerEpoch], ...]
    """(broker id, broker epoch)"""
    masterships: tuple[NewMastership, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateReplicaSet(Command[int]):
    """Create a set with these members, preferred master first, unless it exists with the same.

    Answers its id. -1 for `replica_set_id` takes the next free one, None for `policy` the cluster's
    default.
    """

    replica_set_id: ReplicaSetId
    replicas: tuple[BrokerId, ...]
    policy: AckPolicy | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateReplicaSets(Command[tuple[int, ...]]):
    """Create a set for each of these member lists in one entry. Answers the ids, in order.

    `set_count` is the number of sets that the decision was based on; with another one the command
    is refused, so that a repeated command creates nothing.
    """

    members: tuple[tuple[BrokerId, ...], ...]
    set_count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AddReplica(Command[None]):
    """Make a broker a member of a set. It counts in no election before it is in step."""

    replica_set_id: ReplicaSetId
    broker_id: BrokerId


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoveReplica(Command[None]):
    """Remove a member from a set. Refused for the master: move the mastership first."""

    replica_set_id: ReplicaSetId
    broker_id: BrokerId


@dataclass(frozen=True, slots=True, kw_only=True)
class SetAckPolicy(Command[None]):
    """Change the acknowledgement policy of a set."""

    replica_set_id: ReplicaSetId
    policy: AckPolicy


@dataclass(frozen=True, slots=True, kw_only=True)
class SetDefaultPolicy(Command[None]):
    """Change the policy that new sets get."""

    policy: AckPolicy


@dataclass(frozen=True, slots=True, kw_only=True)
class SetUncleanElection(Command[None]):
    """Allow or forbid that a set's master is elected from members that may lack records."""

    replica_set_id: ReplicaSetId
    is_allowed: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class SetFailover(Command[None]):
    """Switch the cluster between elections (on) and fixed masters (off)."""

    is_enabled: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeFeatureLevel(Command[int]):
    """Raise a feature's level, or lower it if `is_lowering`. Answers the level in force.

    `checked_brokers` are (id, broker epoch) of those that were found to read the level: all that
    are registered. One that has registered anew since may be of another release.
    """

    feature: str
    level: int
    is_lowering: bool = False
    checked_brokers: tuple[tuple[BrokerId, BrokerEpoch], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class BeginMastership(Command[int]):
    """Make a member of the sync-state set master. Answers the new leader epoch.

    For a node that is its own controller; elections use BeginMasterships.
    """

    replica_set_id: ReplicaSetId
    master: BrokerId


@dataclass(frozen=True, slots=True, kw_only=True)
class EndMastership(Command[int]):
    """End the mastership of a set, which then has no master. Answers the new leader epoch."""

    replica_set_id: ReplicaSetId


@dataclass(frozen=True, slots=True, kw_only=True)
class JoiningReplica:
    """A member to be added to the sync-state set, by the log and process that its master judged."""

    broker_id: BrokerId
    replica_id: ReplicaId
    broker_epoch: BrokerEpoch


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeSyncStateSet(Command[int]):
    """Change a sync-state set, by its master. Both epochs must be current; answers the next one.

    `joining` names each member that is added: a broker with another log or another process by now
    is not added for what the earlier one held. The current set may be requested, too: it gets a
    new epoch, which voids every earlier change that is still under way.

    Source: RIP-44, KIP-497 (AlterPartition) for the compare-and-set, KIP-903 for broker epochs.
    """

    replica_set_id: ReplicaSetId
    master: BrokerId
    leader_epoch: LeaderEpoch
    sync_state_set_epoch: SyncStateSetEpoch
    sync_state_set: tuple[BrokerId, ...]
    joining: tuple[JoiningReplica, ...] = ()
