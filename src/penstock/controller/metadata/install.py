"""Installing a snapshot over an image that is not empty, in a process that was far behind.

The snapshot is replayed into a new image, in as many parts as the caller likes. Then the two are
compared, and the old image takes over the content of the new one in place, between two turns of the
loop. Listeners get the difference as one delta, as of a single entry.

Deletion by absence is right only here: a snapshot is the full state, checksummed and complete, and
not older than what was replayed. This is checked: the cluster is the same, no counter falls and no
set is missing. (RocketMQ's slaves deleted every topic after an incomplete sync.)

Source: KRaft's MetadataLoader (loadSnapshot: a delta against the previous image).
"""

from collections.abc import Iterable

from penstock.base.ids import PartitionId
from penstock.base.invariant import invariant
from penstock.controller.metadata.config_records import AclAdded
from penstock.controller.metadata.image import (
    AddedPartitions,
    ClusterDelta,
    ClusterImage,
    TopicImage,
)
from penstock.controller.metadata.records import MetadataRecord
from penstock.controller.metadata.replay import replay
from penstock.quotas.entities import QuotaEntity


def install(image: ClusterImage, records: Iterable[MetadataRecord]) -> ClusterDelta:
    """Replace the content of `image` by that of a snapshot and return the difference.

    Raises:
        InvariantViolation: the snapshot is older than the image, or of another cluster.
        UnsupportedMetadata: a newer release wrote it.
    """
    installation = Installation(image)
    installation.take(records)
    return installation.finish()


class Installation:
    """A snapshot that is being read. `image` is unchanged until `finish`."""

    def __init__(self, image: ClusterImage) -> None:
        self._image = image
        self._newer = ClusterImage(controller_id=image.controller_id, defaults=image.defaults)

    def take(self, records: Iterable[MetadataRecord]) -> None:
        """Replay the next part: all of a set, or of a topic, stands in one part.

        Raises: as `install`.
        """
        replay(self._newer, records)

    def finish(self) -> ClusterDelta:
        """Replace the content of the image and return the difference. Raises: as `install`."""
        _check_is_newer(self._image, self._newer)
        delta = _difference(self._image, self._newer)
        _take_over(self._image, self._newer)
        return delta


def _check_is_newer(image: ClusterImage, newer: ClusterImage) -> None:
    is_same = not image.cluster_id or image.cluster_id == newer.cluster_id
    invariant(is_same, "a snapshot is of the same cluster", cluster_id=newer.cluster_id)
    invariant(
        newer.next_producer_id >= image.next_producer_id,
        "producer ids are handed out once",
        next_free=image.next_producer_id,
        snapshot=newer.next_producer_id,
    )
    for topic_id, known in image.topics_by_id.items():
        topic = newer.topics_by_id.get(topic_id)
        has_all = topic is None or len(topic.partitions) >= len(known.partitions)
        invariant(has_all, "a topic does not lose partitions", name=known.name)
    for set_id, before in image.replica_sets.items():
        after = newer.replica_sets.get(set_id)
        is_later = (
            after is not None
            and after.leader_epoch >= before.leader_epoch
            and after.sync_state_set_epoch >= before.sync_state_set_epoch
        )
        invariant(is_later, "a snapshot is not older than what was replayed", set_id=set_id)


def _difference(image: ClusterImage, newer: ClusterImage) -> ClusterDelta:
    old_topics = image.topics_by_id
    kept = [
        (old_topics[topic_id], topic)
        for topic_id, topic in newer.topics_by_id.items()
        if topic_id in old_topics
    ]
    return ClusterDelta(
        created_topics=tuple(
            topic for key, topic in newer.topics_by_id.items() if key not in old_topics
        ),
        deleted_topics=tuple(
            topic for key, topic in old_topics.items() if key not in newer.topics_by_id
        ),
        added_partitions=tuple(
            _grown(before, after) for before, after in kept if _grew(before, after)
        ),
        changed_configs=tuple(
            after for before, after in kept if dict(before.configs) != dict(after.configs)
        ),
        changed_replica_sets=tuple(
            replica_set
            for key, replica_set in newer.replica_sets.items()
            if image.replica_sets.get(key) != replica_set
        ),
        changed_brokers=tuple(
            broker for key, broker in newer.brokers.items() if image.brokers.get(key) != broker
        ),
        removed_brokers=tuple(
            broker for key, broker in image.brokers.items() if key not in newer.brokers
        ),
        added_acls=_missing_in(image, newer),
        removed_acls=_missing_in(newer, image),
        changed_quotas=_changed_quotas(image, newer),
    )


def _missing_in(image: ClusterImage, other: ClusterImage) -> tuple[AclAdded, ...]:
    """Return the ACLs of the other image that this one does not have; an id stands for one rule."""
    known = image.configuration.acls
    return tuple(acl for key, acl in other.configuration.acls.items() if key not in known)


def _changed_quotas(image: ClusterImage, newer: ClusterImage) -> tuple[QuotaEntity, ...]:
    before, after = image.configuration.quotas, newer.configuration.quotas
    return tuple(
        entity for entity in {**before, **after} if before.get(entity) != after.get(entity)
    )


def _grew(before: TopicImage, after: TopicImage) -> bool:
    return len(after.partitions) > len(before.partitions)


def _grown(before: TopicImage, after: TopicImage) -> AddedPartitions:
    return AddedPartitions(after, PartitionId(len(before.partitions)))


def _take_over(image: ClusterImage, newer: ClusterImage) -> None:
    """Change the content in place: readers keep references to the dictionaries."""
    image.cluster_id = newer.cluster_id
    image.next_producer_id = newer.next_producer_id
    image.default_policy = newer.default_policy
    image.is_failover_enabled = newer.is_failover_enabled
    image.features.clear()
    image.features.update(newer.features)
    image.features_epoch = newer.features_epoch
    image.configuration.take_over(newer.configuration)
    image.topics_by_name.clear()
    image.topics_by_name.update(newer.topics_by_name)
    image.topics_by_id.clear()
    image.topics_by_id.update(newer.topics_by_id)
    image.names_by_metric.clear()
    image.names_by_metric.update(newer.names_by_metric)
    image.brokers.clear()
    image.brokers.update(newer.brokers)
    image.replica_sets.clear()
    image.replica_sets.update(newer.replica_sets)
    image.partition_counts.clear()
    image.partition_counts.update(newer.partition_counts)
