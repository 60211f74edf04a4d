"""What a node's topics say of cleaning.

Internal topics are not cleaned: their coordinators write them anew (coordinator/rewrites.py).
"""

from penstock.base.ids import TopicPartition
from penstock.broker.partitions import PartitionRegistry
from penstock.controller.topic_config.table import TopicSettings
from penstock.storage.config import Retention
from penstock.storage.second_level.cleaning_plan import CleaningSettings


class CompactedTopics:
    """Reads the registry of a broker. Used on the loop."""

    def __init__(self, partitions: PartitionRegistry) -> None:
        self._partitions = partitions

    def settings_of(self, partition: TopicPartition) -> CleaningSettings | None:
        """Return how a partition is cleaned; None where it is not."""
        topic = self._partitions.by_id.get(partition.topic_id)
        if topic is None or topic.internal or not topic.settings.is_compacted:
            return None
        settings = topic.settings
        return CleaningSettings(
            dirty_ratio_min=settings.min_cleanable_dirty_ratio,
            delete_retention_ms=settings.delete_retention_ms,
            lag_ms_min=settings.min_compaction_lag_ms,
            lag_ms_max=settings.max_compaction_lag_ms,
            retention=retention_of(settings),
        )

    def name_of(self, partition: TopicPartition) -> str:
        """Return topic and partition for the node's log."""
        topic = self._partitions.by_id.get(partition.topic_id)
        name = partition.topic_id.hex() if topic is None else topic.name
        return f"topic={name} partition={partition.partition}"


def retention_of(settings: TopicSettings) -> Retention:
    """Return what retention keeps of a topic's partitions."""
    is_compacted = settings.is_compacted
    limits = [settings.max_compaction_lag_ms] if is_compacted else []
    if not settings.deletes:
        return Retention(-1, -1, is_compacted=is_compacted, close_ms=min(limits, default=-1))
    if settings.retention_ms >= 0:
        limits.append(settings.retention_ms)
    return Retention(
        settings.retention_bytes,
        settings.retention_ms,
        is_compacted=is_compacted,
        close_ms=min(limits, default=-1),
    )
