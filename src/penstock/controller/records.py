"""Metadata records: everything that can happen to a cluster's metadata, one class each.

A record is a fact in the past tense and carries its result, never a calculation: replaying it needs
neither clock nor randomness nor settings. The records of one command travel as one log entry, so
that a topic never exists without its configuration.

    ClusterCreated ─ BrokerRegistered ─ ReplicaSetCreated ─ MastershipBegun ─ SyncStateSetChanged
    TopicCreated ─ PartitionsAdded ─ ConfigChanged ─ TopicDeleted
    ProducerIdBlockAllocated

Bytes: docs/formats/metadata-log.md, written and read by `record_codec`.
Source: KIP-500 and KIP-631 (metadata records of KRaft); RIP-44 for masters and sync-state sets.
It does not say who may emit a record: that is the handlers' business.
"""

from dataclasses import dataclass
from enum import IntEnum
from typing import ClassVar

from penstock.base.ids import TopicId


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
    """A broker is there, or its address changed. `rack` is None when it has none."""

    KIND: ClassVar = RecordKind.BROKER_REGISTERED
    broker_id: int
    host: str
    port: int
    rack: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaSetCreated:
    """A new set with these members (broker ids, preferred master first); all in step, no master.

    Where a member keeps the set's files is its own affair and not metadata of the cluster.
    """

    KIND: ClassVar = RecordKind.REPLICA_SET_CREATED
    replica_set_id: int
    replicas: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class MastershipBegun:
    """`master` leads the set from now on; every mastership has a larger `leader_epoch`.

    -1 for `master`: nobody does.
    """

    KIND: ClassVar = RecordKind.MASTERSHIP_BEGUN
    replica_set_id: int
    master: int
    leader_epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncStateSetChanged:
    """The members in step (broker ids, ascending); `sync_state_set_epoch` grows by each change."""

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
)
