"""Replay: the only code that changes a ClusterImage.

One small function per record kind. Replay checks nothing that a command was checked for; what it
checks are the safety properties that every reader of the log relies on (epochs grow, ids are handed
out once, what is named exists), and a breach of them is corrupt state: InvariantViolation.

Source: KRaft's *Image / *Delta replay methods. It emits no records and answers nobody.
"""

from collections.abc import Callable, Iterable
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from penstock.base.ids import TopicId
from penstock.base.invariant import invariant
from penstock.controller import records as r
from penstock.controller.errors import InvalidConfig, UnsupportedMetadata
from penstock.controller.image import (
    NO_EPOCH,
    NO_MASTER,
    AddedPartitions,
    BrokerImage,
    ClusterDelta,
    ClusterImage,
    PartitionImage,
    ReplicaSetImage,
    TopicImage,
)
from penstock.controller.topic_config import resolve
from penstock.controller.topic_names import metric_name

_NO_OVERRIDES: MappingProxyType[str, str] = MappingProxyType({})


class _Touched:
    """What an entry has touched so far; dictionaries keep the order of first touch."""

    __slots__ = ("brokers", "configs", "created", "deleted", "grown", "replica_sets")

    def __init__(self) -> None:
        self.created: dict[TopicId, None] = {}
        self.deleted: dict[TopicId, TopicImage] = {}
        self.grown: dict[TopicId, int] = {}
        self.configs: dict[TopicId, None] = {}
        self.replica_sets: dict[int, None] = {}
        self.brokers: dict[int, None] = {}

    def delta(self, image: ClusterImage) -> ClusterDelta:
        """A topic created in this entry is only that, whatever else happened to it."""
        topics = image.topics_by_id
        return ClusterDelta(
            created_topics=tuple(topics[key] for key in self.created if key in topics),
            deleted_topics=tuple(
                topic for key, topic in self.deleted.items() if key not in self.created
            ),
            added_partitions=tuple(
                AddedPartitions(topics[key], first)
                for key, first in self.grown.items()
                if key in topics and key not in self.created
            ),
            changed_configs=tuple(
                topics[key] for key in self.configs if key in topics and key not in self.created
            ),
            changed_replica_sets=tuple(image.replica_sets[key] for key in self.replica_sets),
            changed_brokers=tuple(image.brokers[key] for key in self.brokers),
        )


def replay(image: ClusterImage, records: Iterable[r.MetadataRecord]) -> ClusterDelta:
    """Apply the records of one entry, or of a snapshot, and return what they changed.

    Raises:
        InvariantViolation: a record contradicts the ones before it.
        UnsupportedMetadata: a configuration that this release does not know.
    """
    touched = _Touched()
    for record in records:
        _REPLAY[type(record)](image, record, touched)
    return touched.delta(image)


def _cluster_created(image: ClusterImage, record: r.ClusterCreated, _: _Touched) -> None:
    invariant(not image.cluster_id, "a cluster is created once", is_already=image.cluster_id)
    image.cluster_id = record.cluster_id


def _broker_registered(image: ClusterImage, record: r.BrokerRegistered, touched: _Touched) -> None:
    image.brokers[record.broker_id] = BrokerImage(
        broker_id=record.broker_id, host=record.host, port=record.port, rack=record.rack
    )
    touched.brokers[record.broker_id] = None


def _replica_set_created(
    image: ClusterImage, record: r.ReplicaSetCreated, touched: _Touched
) -> None:
    set_id = record.replica_set_id
    invariant(set_id not in image.replica_sets, "a replica set is created once", set_id=set_id)
    image.replica_sets[set_id] = ReplicaSetImage(
        replica_set_id=set_id,
        master=NO_MASTER,
        leader_epoch=NO_EPOCH,
        replicas=record.replicas,
        sync_state_set=tuple(sorted(record.replicas)),
        sync_state_set_epoch=0,
    )
    image.partition_counts[set_id] = 0
    touched.replica_sets[set_id] = None


def _mastership_begun(image: ClusterImage, record: r.MastershipBegun, touched: _Touched) -> None:
    before = _replica_set(image, record.replica_set_id)
    invariant(
        record.leader_epoch > before.leader_epoch,
        "every mastership has a larger leader epoch",
        before=before.leader_epoch,
        after=record.leader_epoch,
    )
    is_one = record.master == NO_MASTER or record.master in before.replicas
    invariant(is_one, "a master is a member", master=record.master)
    image.replica_sets[before.replica_set_id] = replace(
        before, master=record.master, leader_epoch=record.leader_epoch
    )
    touched.replica_sets[before.replica_set_id] = None


def _sync_state_set_changed(
    image: ClusterImage, record: r.SyncStateSetChanged, touched: _Touched
) -> None:
    before = _replica_set(image, record.replica_set_id)
    invariant(
        record.sync_state_set_epoch > before.sync_state_set_epoch,
        "every sync-state set has a larger epoch",
        before=before.sync_state_set_epoch,
        after=record.sync_state_set_epoch,
    )
    invariant(bool(record.sync_state_set), "a sync-state set is never empty")
    invariant(
        all(member in before.replicas for member in record.sync_state_set),
        "a sync-state set holds members",
        members=record.sync_state_set,
    )
    image.replica_sets[before.replica_set_id] = replace(
        before,
        sync_state_set=record.sync_state_set,
        sync_state_set_epoch=record.sync_state_set_epoch,
    )
    touched.replica_sets[before.replica_set_id] = None


def _topic_created(image: ClusterImage, record: r.TopicCreated, touched: _Touched) -> None:
    invariant(record.name not in image.topics_by_name, "a topic name is there once")
    invariant(record.topic_id not in image.topics_by_id, "a topic id is there once")
    invariant(bool(record.replica_set_ids), "a topic has a partition", name=record.name)
    topic = TopicImage(
        name=record.name,
        topic_id=record.topic_id,
        partitions=_place(image, 0, record.replica_set_ids),
        configs=_NO_OVERRIDES,
        settings=image.defaults,
        internal=record.internal,
    )
    image.names_by_metric[metric_name(topic.name)] = topic.name
    _put_topic(image, topic)
    touched.created[topic.topic_id] = None


def _partitions_added(image: ClusterImage, record: r.PartitionsAdded, touched: _Touched) -> None:
    topic = _topic(image, record.topic_id)
    invariant(
        record.first_partition == len(topic.partitions),
        "partitions are added behind the last one",
        first=record.first_partition,
        count=len(topic.partitions),
    )
    added = _place(image, record.first_partition, record.replica_set_ids)
    _put_topic(image, replace(topic, partitions=topic.partitions + added))
    touched.grown.setdefault(topic.topic_id, record.first_partition)


def _topic_deleted(image: ClusterImage, record: r.TopicDeleted, touched: _Touched) -> None:
    topic = _topic(image, record.topic_id)
    del image.topics_by_id[topic.topic_id]
    del image.topics_by_name[topic.name]
    del image.names_by_metric[metric_name(topic.name)]
    for placed in topic.partitions:
        image.partition_counts[placed.replica_set_id] -= 1
    touched.deleted[topic.topic_id] = topic


def _config_changed(image: ClusterImage, record: r.ConfigChanged, touched: _Touched) -> None:
    invariant(
        record.resource_type == r.ResourceType.TOPIC,
        "only topics have configuration in the log",
        resource_type=record.resource_type,
    )
    topic = image.topics_by_name.get(record.resource_name)
    invariant(topic is not None, "the topic is there", name=record.resource_name)
    assert topic is not None
    configs = dict(topic.configs)
    if record.value is None:
        configs.pop(record.key, None)
    else:
        configs[record.key] = record.value
    try:
        settings = resolve(configs, image.defaults)
    except InvalidConfig as error:
        raise UnsupportedMetadata(f"topic {topic.name}: {error}") from error
    _put_topic(image, replace(topic, configs=MappingProxyType(configs), settings=settings))
    touched.configs[topic.topic_id] = None


def _producer_ids_allocated(
    image: ClusterImage, record: r.ProducerIdBlockAllocated, _: _Touched
) -> None:
    invariant(
        image.next_producer_id <= record.first_producer_id < record.next_producer_id,
        "producer ids are handed out once",
        next_free=image.next_producer_id,
        first=record.first_producer_id,
    )
    image.next_producer_id = record.next_producer_id


def _replica_set(image: ClusterImage, set_id: int) -> ReplicaSetImage:
    invariant(set_id in image.replica_sets, "the replica set is there", set_id=set_id)
    return image.replica_sets[set_id]


def _topic(image: ClusterImage, topic_id: TopicId) -> TopicImage:
    invariant(topic_id in image.topics_by_id, "the topic is there", topic_id=topic_id.hex())
    return image.topics_by_id[topic_id]


def _put_topic(image: ClusterImage, topic: TopicImage) -> None:
    image.topics_by_name[topic.name] = topic
    image.topics_by_id[topic.topic_id] = topic


def _place(
    image: ClusterImage, first_partition: int, set_ids: tuple[int, ...]
) -> tuple[PartitionImage, ...]:
    for set_id in set_ids:
        invariant(set_id in image.partition_counts, "the replica set is there", set_id=set_id)
        image.partition_counts[set_id] += 1
    return tuple(PartitionImage(first_partition + at, set_id) for at, set_id in enumerate(set_ids))


_REPLAY: dict[type[Any], Callable[[ClusterImage, Any, _Touched], None]] = {
    r.ClusterCreated: _cluster_created,
    r.BrokerRegistered: _broker_registered,
    r.ReplicaSetCreated: _replica_set_created,
    r.MastershipBegun: _mastership_begun,
    r.SyncStateSetChanged: _sync_state_set_changed,
    r.TopicCreated: _topic_created,
    r.PartitionsAdded: _partitions_added,
    r.TopicDeleted: _topic_deleted,
    r.ConfigChanged: _config_changed,
    r.ProducerIdBlockAllocated: _producer_ids_allocated,
}
assert len(_REPLAY) == len(r.RecordKind)
