"""Replay: the only code that changes a ClusterImage.

One small function per record kind; those of brokers and replica sets are in `replay_sets`, those
of configuration other than of topics in `replay_config`. Replay does not repeat the checks of
commands. It checks the safety properties that every reader of the log relies on (epochs grow, ids
are given out once, what a record names exists); a violation is corrupt state: InvariantViolation.

Source: KRaft's *Image / *Delta replay methods. It makes no records and no answers.
"""

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from penstock.base.ids import ReplicaSetId, TopicId
from penstock.base.invariant import invariant
from penstock.controller.commands.topic_names import metric_name
from penstock.controller.errors import InvalidConfig, UnsupportedMetadata
from penstock.controller.metadata import records as r
from penstock.controller.metadata.image import ClusterDelta, ClusterImage, TopicImage
from penstock.controller.metadata.partition_images import PartitionImages
from penstock.controller.metadata.replay_config import REPLAY_CONFIG, keep_config
from penstock.controller.metadata.replay_sets import REPLAY_SETS, check_sets
from penstock.controller.metadata.touched import Touched
from penstock.controller.topic_config.table import resolve

_NO_OVERRIDES: MappingProxyType[str, str] = MappingProxyType({})


def replay(image: ClusterImage, records: Iterable[r.MetadataRecord]) -> ClusterDelta:
    """Apply the records of one entry, or of a snapshot, and return what they changed.

    Raises:
        InvariantViolation: a record contradicts earlier ones.
        UnsupportedMetadata: a configuration that this release does not know.
    """
    touched = Touched()
    for record in records:
        _REPLAY[type(record)](image, record, touched)
    _resolve_configs(image, touched)
    check_sets(image, touched)
    return touched.delta(image)


def _cluster_created(image: ClusterImage, record: r.ClusterCreated, _: Touched) -> None:
    invariant(not image.cluster_id, "a cluster is created once", is_already=image.cluster_id)
    image.cluster_id = record.cluster_id


def _topic_created(image: ClusterImage, record: r.TopicCreated, touched: Touched) -> None:
    invariant(record.name not in image.topics_by_name, "a topic name is there once")
    invariant(record.topic_id not in image.topics_by_id, "a topic id is there once")
    invariant(bool(record.replica_set_ids), "a topic has a partition", name=record.name)
    topic = TopicImage(
        name=record.name,
        topic_id=record.topic_id,
        partitions=_placed(image, (), record.replica_set_ids),
        configs=_NO_OVERRIDES,
        settings=image.defaults,
        internal=record.internal,
    )
    image.names_by_metric[metric_name(topic.name)] = topic.name
    _put_topic(image, topic)
    touched.created[topic.topic_id] = None


def _partitions_added(image: ClusterImage, record: r.PartitionsAdded, touched: Touched) -> None:
    topic = _topic(image, record.topic_id)
    invariant(
        record.first_partition == len(topic.partitions),
        "partitions are added behind the last one",
        first=record.first_partition,
        count=len(topic.partitions),
    )
    partitions = _placed(image, topic.partitions.set_ids, record.replica_set_ids)
    _put_topic(image, replace(topic, partitions=partitions))
    touched.grown.setdefault(topic.topic_id, record.first_partition)


def _topic_deleted(image: ClusterImage, record: r.TopicDeleted, touched: Touched) -> None:
    topic = _topic(image, record.topic_id)
    del image.topics_by_id[topic.topic_id]
    del image.topics_by_name[topic.name]
    del image.names_by_metric[metric_name(topic.name)]
    image.configuration.give_ups.pop(topic.topic_id, None)
    for set_id, gone in Counter(topic.partitions.set_ids).items():
        count = image.partition_counts[set_id]
        invariant(count >= gone, "a set hosts what is deleted from it", set_id=set_id)
        image.partition_counts[set_id] = count - gone
    touched.deleted[topic.topic_id] = topic


def _config_changed(image: ClusterImage, record: r.ConfigChanged, touched: Touched) -> None:
    if record.resource_type != r.ResourceType.TOPIC:
        keep_config(image, record.resource_type, record.resource_name, record.key, record.value)
        return
    topic = image.topics_by_name.get(record.resource_name)
    invariant(topic is not None, "the topic is there", name=record.resource_name)
    assert topic is not None
    configs = dict(topic.configs)
    if record.value is None:
        configs.pop(record.key, None)
    else:
        configs[record.key] = record.value
    _put_topic(image, replace(topic, configs=MappingProxyType(configs)))
    touched.configs[topic.topic_id] = None


def _resolve_configs(image: ClusterImage, touched: Touched) -> None:
    """Read the overrides of a topic once for an entry: each of its records may be one of 35."""
    for topic_id in touched.configs:
        topic = image.topics_by_id.get(topic_id)
        if topic is None:  # deleted by a later record
            continue
        try:
            settings = resolve(topic.configs, image.defaults)
        except InvalidConfig as error:
            raise UnsupportedMetadata(f"topic {topic.name}: {error}") from error
        _put_topic(image, replace(topic, settings=settings))


def _producer_ids_allocated(
    image: ClusterImage, record: r.ProducerIdBlockAllocated, _: Touched
) -> None:
    invariant(
        image.next_producer_id <= record.first_producer_id < record.next_producer_id,
        "producer ids are handed out once",
        next_free=image.next_producer_id,
        first=record.first_producer_id,
    )
    image.next_producer_id = record.next_producer_id


def _topic(image: ClusterImage, topic_id: TopicId) -> TopicImage:
    invariant(topic_id in image.topics_by_id, "the topic is there", topic_id=topic_id.hex())
    return image.topics_by_id[topic_id]


def _put_topic(image: ClusterImage, topic: TopicImage) -> None:
    image.topics_by_name[topic.name] = topic
    image.topics_by_id[topic.topic_id] = topic


def _placed(
    image: ClusterImage, known: tuple[ReplicaSetId, ...], added: tuple[ReplicaSetId, ...]
) -> PartitionImages:
    """Return the partitions of a topic that has `known` ones and gets more: up to 10,000."""
    for set_id, count in Counter(added).items():
        invariant(set_id in image.partition_counts, "the replica set is there", set_id=set_id)
        image.partition_counts[set_id] += count
    return PartitionImages(known + added)


_REPLAY: dict[type[Any], Callable[[ClusterImage, Any, Touched], None]] = {
    **REPLAY_SETS,
    **REPLAY_CONFIG,
    r.ClusterCreated: _cluster_created,
    r.TopicCreated: _topic_created,
    r.PartitionsAdded: _partitions_added,
    r.TopicDeleted: _topic_deleted,
    r.ConfigChanged: _config_changed,
    r.ProducerIdBlockAllocated: _producer_ids_allocated,
}
assert len(_REPLAY) == len(r.RecordKind) + 1, "each kind, and those that are carried"
