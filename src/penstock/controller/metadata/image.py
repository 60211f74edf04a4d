"""The image: the cluster's metadata after all records replayed so far, as brokers read it.

Topics, brokers and sets are immutable; a change puts a new object in their place. The dictionaries
are changed in place, by `replay` alone and between two turns of the event loop, so that a request
sees one state; every look-up of the hot path is one dictionary access. After each log entry
`publish` gives the listeners the changes of the whole entry.

Source: KRaft's MetadataImage and MetadataDelta; ours is mutated in place since all readers run on
the loop that replays. It does not contain which brokers are alive: that comes from heartbeats
(active/liveness.py), and only fencing is recorded here.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from penstock.base.ack_policy import AckPolicy, PolicyKind
from penstock.base.endpoints import FIRST_LISTENER, NamedEndpoint
from penstock.base.ids import (
    BrokerEpoch,
    BrokerId,
    LeaderEpoch,
    PartitionId,
    PeerId,
    ProducerId,
    ReplicaId,
    ReplicaSetId,
    SyncStateSetEpoch,
    TopicId,
)
from penstock.controller.commands.topic_names import metric_name
from penstock.controller.metadata.causes import Cause
from penstock.controller.metadata.config_records import AclAdded
from penstock.controller.metadata.configuration import Configuration
from penstock.controller.metadata.levels import FIRST_LEVEL, METADATA
from penstock.controller.metadata.partition_images import PartitionImages
from penstock.controller.topic_config.table import TopicSettings
from penstock.quotas.entities import QuotaEntity

FIRST_PRODUCER = ProducerId(0)
NO_MASTER = BrokerId(-1)
NO_EPOCH = LeaderEpoch(-1)
NO_CONTROLLER = PeerId(-1)
NO_FLOOR = -1
UNREGISTERED = BrokerEpoch(0)
FIRST_REPLICA = ReplicaId(1)


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicImage:
    """A topic. `configs` holds the overrides; `settings` is these combined with the defaults."""

    name: str
    topic_id: TopicId
    partitions: PartitionImages
    configs: Mapping[str, str]
    settings: TopicSettings
    internal: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerImage:
    """A registered broker, where clients (`host`) and other brokers (`ha_host`) reach it.

    `identity` is its data directory's, `incarnation` its process's. `is_fenced`: it was found dead
    and has not registered since. `directory_count`: sets that it is preferred master of. `machine`
    names the computer that it runs on, empty where that is not known.
    """

    broker_id: BrokerId
    host: str
    port: int
    rack: str | None
    ha_host: str = ""
    ha_port: int = 0
    identity: str = ""
    incarnation: str = ""
    broker_epoch: BrokerEpoch = UNREGISTERED
    directory_count: int = 1
    is_fenced: bool = False
    is_draining: bool = False
    listeners: tuple[NamedEndpoint, ...] = ()
    machine: str = ""

    def endpoint(self, listener: str) -> tuple[str, int] | None:
        """Where clients of a listener reach the broker; None where it has none of that name."""
        if listener == FIRST_LISTENER:
            return self.host, self.port
        named = (one for one in self.listeners if one.name == listener)
        return next(((one.host, one.port) for one in named), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaSetImage:
    """A replica set. `master` and `leader_epoch` are -1 until the first mastership.

    Members stand as broker ids, `replicas[0]` is the preferred master. `replica_ids` and `log_ids`
    hold the members that have registered their log. `last_cause`, `last_detail`, `last_change_ms`
    (wall time) and `last_master` describe the last mastership, also while `master` is -1 again.

    `unclean_epoch` is -1, or the newest leader epoch whose master may have lacked confirmed
    records: a log that ends in an older epoch may hold records that the set has lost.

    `copies_floor` is -1, or how many members at least hold each record that was confirmed before
    the last change of members or policy; see election.py.
    """

    replica_set_id: ReplicaSetId
    master: BrokerId
    leader_epoch: LeaderEpoch
    replicas: tuple[BrokerId, ...]
    sync_state_set: tuple[BrokerId, ...]
    sync_state_set_epoch: SyncStateSetEpoch
    policy: AckPolicy = field(default_factory=AckPolicy)
    replica_ids: Mapping[BrokerId, ReplicaId] = field(default_factory=dict)
    log_ids: Mapping[BrokerId, str] = field(default_factory=dict)
    next_replica_id: ReplicaId = FIRST_REPLICA
    copies_floor: int = NO_FLOOR
    last_cause: Cause = Cause.UNKNOWN
    last_detail: str = ""
    last_change_ms: int = 0
    last_master: BrokerId = NO_MASTER
    is_unclean_allowed: bool = False
    unclean_epoch: LeaderEpoch = NO_EPOCH

    @property
    def copies_needed(self) -> int:
        """How many members hold a record once it is confirmed, by the policy alone."""
        return self.policy.copies_needed(len(self.replicas), len(self.sync_state_set))

    @property
    def copies_held(self) -> int:
        """How many of `candidates` at least hold any confirmed record.

        The adaptive policy may ask for more copies than there are members in step: what was
        confirmed before it did is on all of them and no more.
        """
        held = min(self.copies_needed, len(self.candidates))
        return held if self.copies_floor == NO_FLOOR else min(held, self.copies_floor)

    @property
    def candidates(self) -> tuple[BrokerId, ...]:
        """Members that may become master without loss, in order of preference."""
        if self.policy.counts_replicas:
            return self.replicas
        return tuple(replica for replica in self.replicas if replica in self.sync_state_set)

    def must_be_whole(self, broker_id: BrokerId) -> bool:
        """Whether this member's copies count, and it may be elected, before anybody has judged
        that its log has all that the set keeps.
        """
        return self.policy.counts_replicas and broker_id not in self.sync_state_set

    def may_have_lost(self, log_epoch: LeaderEpoch) -> bool:
        """Whether a log that ends in that leader epoch may hold records that the set has lost.

        After an unclean election this holds for every log without its mastership, however many
        ordinary ones followed.
        """
        may_lose = self.policy.kind is PolicyKind.ASYNC or self.is_unclean_allowed
        return may_lose or log_epoch < self.unclean_epoch


class AddedPartitions(NamedTuple):
    """A topic that has more partitions: from `first_partition` to the end of its tuple."""

    topic: TopicImage
    first_partition: PartitionId


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterDelta:
    """The changes of one log entry, or of a snapshot; every image in it is the newest one."""

    created_topics: tuple[TopicImage, ...] = ()
    deleted_topics: tuple[TopicImage, ...] = ()
    added_partitions: tuple[AddedPartitions, ...] = ()
    changed_configs: tuple[TopicImage, ...] = ()
    changed_replica_sets: tuple[ReplicaSetImage, ...] = ()
    changed_brokers: tuple[BrokerImage, ...] = ()
    removed_brokers: tuple[BrokerImage, ...] = ()
    added_acls: tuple[AclAdded, ...] = ()
    removed_acls: tuple[AclAdded, ...] = ()
    changed_quotas: tuple[QuotaEntity, ...] = ()


Listener = Callable[[ClusterDelta], None]


@dataclass(slots=True, kw_only=True)
class ClusterImage:
    """The whole image. `controller_id` comes from consensus and `defaults` from the process: its
    settings and what is configured over them at run time. All other fields come from records.
    """

    controller_id: PeerId = NO_CONTROLLER
    defaults: TopicSettings = field(default_factory=TopicSettings)
    cluster_id: str = ""
    topics_by_name: dict[str, TopicImage] = field(default_factory=dict)
    topics_by_id: dict[TopicId, TopicImage] = field(default_factory=dict)
    names_by_metric: dict[str, str] = field(default_factory=dict)
    brokers: dict[BrokerId, BrokerImage] = field(default_factory=dict)
    replica_sets: dict[ReplicaSetId, ReplicaSetImage] = field(default_factory=dict)
    partition_counts: dict[ReplicaSetId, int] = field(default_factory=dict)
    """Partitions per replica set, by which placement balances."""
    next_producer_id: ProducerId = FIRST_PRODUCER
    default_policy: AckPolicy = field(default_factory=AckPolicy)
    """Policy of new sets that are created without one."""
    is_failover_enabled: bool = True
    """Whether masters are elected; if not, each stays where it is (a static layout)."""
    features: dict[str, int] = field(default_factory=dict)
    """Levels of features by name; a missing one is at its first level."""
    features_epoch: int = 0
    """Grows with each change of a level; 0 while the log contains none."""
    configuration: Configuration = field(default_factory=Configuration)
    """Configuration of everything but topics."""
    _listeners: list[Listener] = field(default_factory=list, compare=False, repr=False)

    @property
    def metadata_level(self) -> int:
        """Level that decides which records may be written, see levels.py."""
        return self.features.get(METADATA, FIRST_LEVEL)

    def subscribe(self, on_delta: Listener) -> None:
        """Call `on_delta` after every entry that changes something, in order of subscription."""
        self._listeners.append(on_delta)

    def publish(self, delta: ClusterDelta) -> None:
        """Call the listeners. To be called after the last record of an entry is replayed."""
        for listener in self._listeners:
            listener(delta)

    def colliding_name(self, name: str) -> str | None:
        """Return the topic whose name equals `name` if '.' and '_' are the same, or None."""
        return self.names_by_metric.get(metric_name(name))

    def partitions_of_broker(self, broker_id: BrokerId) -> int:
        """Return the number of partition replicas of a broker."""
        return sum(
            count
            for set_id, count in self.partition_counts.items()
            if broker_id in self.replica_sets[set_id].replicas
        )
