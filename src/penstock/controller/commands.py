"""Commands: what the controller can be asked, and what it answers, one class each.

`Command[R]` names the type of its answer, so that `submit(CreateTopics(...))` is known to give
`tuple[TopicOutcome, ...]`. A command for several topics answers one outcome for each, in order;
what is refused stands there as an error and harms no neighbour. All that is not refused becomes one
log entry: it happens entirely or not at all.

Source: Kafka's CreateTopics, DeleteTopics, CreatePartitions, (Incremental)AlterConfigs requests;
RIP-44 for mastership and sync-state sets. Wire formats are not known here.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Generic, TypeVar

from penstock.base.ids import TopicId
from penstock.controller.errors import MetadataError

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
    assignments: Mapping[int, tuple[int, ...]] = field(default_factory=dict)
    configs: Mapping[str, str | None] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicOutcome:
    """What became of one topic. The fields after `error` are unset where there is one."""

    name: str
    topic_id: TopicId | None = None
    error: MetadataError | None = None
    partition_count: int = -1
    replication_factor: int = -1
    configs: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateTopics(Command[tuple[TopicOutcome, ...]]):
    """Create topics. `internal` is for Penstock's own topics, whose names clients can not take."""

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
    """What became of one deletion; name and id as far as they are known."""

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
    assignments: tuple[tuple[int, ...], ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CreatePartitions(Command[tuple[TopicOutcome, ...]]):
    """Give topics more partitions."""

    topics: tuple[MorePartitions, ...]
    validate_only: bool = False


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
    """What became of the changes of one resource: all of them or none."""

    resource_type: int
    resource_name: str
    error: MetadataError | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterConfigs(Command[tuple[ConfigOutcome, ...]]):
    """Change configuration. With `replace` the SETs are all that remains (AlterConfigs of old)."""

    resources: tuple[ResourceEdits, ...]
    replace: bool = False
    validate_only: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerIdBlock:
    """Ids from `first_producer_id` up to, without, `next_producer_id`; nobody else gets them."""

    first_producer_id: int
    next_producer_id: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AllocateProducerIds(Command[ProducerIdBlock]):
    """Take the next block of producer ids for a broker."""

    broker_id: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateCluster(Command[str]):
    """Found the cluster under this id unless it exists. Answers the id that holds."""

    cluster_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RegisterBroker(Command[None]):
    """Make a broker known, or change its address."""

    broker_id: int
    host: str
    port: int
    rack: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateReplicaSet(Command[None]):
    """Create a set with these members unless it exists with the same ones."""

    replica_set_id: int
    replicas: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class BeginMastership(Command[int]):
    """Make a member of the sync-state set master. Answers the new leader epoch."""

    replica_set_id: int
    master: int


@dataclass(frozen=True, slots=True, kw_only=True)
class EndMastership(Command[int]):
    """Leave a set without a master, until one begins again. Answers the new leader epoch."""

    replica_set_id: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeSyncStateSet(Command[int]):
    """The master reports who is in step. Both epochs must be the current ones; answers the next.

    Source: RIP-44, KIP-497 (AlterPartition) for the compare-and-set.
    """

    replica_set_id: int
    master: int
    leader_epoch: int
    sync_state_set_epoch: int
    sync_state_set: tuple[int, ...]
