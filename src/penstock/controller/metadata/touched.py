"""The objects that the records of one entry changed, from which the entry's delta is made.

Source: KRaft's MetadataDelta. Only replay changes the image.
"""

from penstock.base.ids import BrokerId, PartitionId, ReplicaSetId, TopicId
from penstock.controller.metadata.config_records import AclAdded
from penstock.controller.metadata.image import (
    AddedPartitions,
    BrokerImage,
    ClusterDelta,
    ClusterImage,
    TopicImage,
)
from penstock.quotas.entities import QuotaEntity


class Touched:
    """The objects that an entry changed so far, in the order of their first change."""

    __slots__ = (
        "added_acls",
        "brokers",
        "configs",
        "created",
        "deleted",
        "grown",
        "quotas",
        "removed",
        "removed_acls",
        "replica_sets",
    )

    def __init__(self) -> None:
        self.created: dict[TopicId, None] = {}
        self.deleted: dict[TopicId, TopicImage] = {}
        self.grown: dict[TopicId, PartitionId] = {}
        self.configs: dict[TopicId, None] = {}
        self.replica_sets: dict[ReplicaSetId, None] = {}
        self.brokers: dict[BrokerId, None] = {}
        self.removed: dict[int, BrokerImage] = {}
        self.added_acls: dict[bytes, AclAdded] = {}
        self.removed_acls: dict[bytes, AclAdded] = {}
        self.quotas: dict[QuotaEntity, None] = {}

    def delta(self, image: ClusterImage) -> ClusterDelta:
        """Return the delta. A topic created in this entry is listed as created only."""
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
            changed_brokers=tuple(
                image.brokers[key] for key in self.brokers if key in image.brokers
            ),
            removed_brokers=tuple(
                broker for key, broker in self.removed.items() if key not in image.brokers
            ),
            added_acls=tuple(self.added_acls.values()),
            removed_acls=tuple(self.removed_acls.values()),
            changed_quotas=tuple(self.quotas),
        )
