"""Topics and partitions of the cluster image as Metadata and DescribeTopicPartitions show them.

leader = master of the set, leader epoch = the set's, replicas = members, ISR = sync-state set
"""

from collections.abc import Iterable

from penstock.base.errors import PlatformError
from penstock.base.ids import TopicId
from penstock.broker.error_map import error_code_of
from penstock.controller.image import (
    NO_MASTER,
    BrokerImage,
    ClusterImage,
    PartitionImage,
    ReplicaSetImage,
    TopicImage,
)
from penstock.protocol.error_codes import ErrorCode

Fields = dict[str, object]


def broker_fields(broker: BrokerImage) -> Fields:
    """Return a broker; Metadata calls its id node_id, DescribeCluster broker_id."""
    return {
        "node_id": broker.broker_id,
        "broker_id": broker.broker_id,
        "host": broker.host,
        "port": broker.port,
        "rack": broker.rack,
    }


class TopicViews:
    """Views for one answer; what all partitions of a set have in common is worked out once."""

    def __init__(self, image: ClusterImage) -> None:
        self._image = image
        self._sets: dict[int, Fields] = {}

    def topic(self, topic: TopicImage, partitions: Iterable[PartitionImage]) -> Fields:
        """Return a topic with these of its partitions."""
        return {
            "error_code": ErrorCode.NONE,
            "name": topic.name,
            "topic_id": topic.topic_id,
            "is_internal": topic.internal,
            "partitions": [
                {"partition_index": placed.partition, **self._set(placed.replica_set_id)}
                for placed in partitions
            ],
        }

    def _set(self, replica_set_id: int) -> Fields:
        fields = self._sets.get(replica_set_id)
        if fields is None:
            fields = self._set_fields(self._image.replica_sets[replica_set_id])
            self._sets[replica_set_id] = fields
        return fields

    def _set_fields(self, replica_set: ReplicaSetImage) -> Fields:
        brokers = self._image.brokers
        has_master = replica_set.master != NO_MASTER
        return {
            "error_code": ErrorCode.NONE if has_master else ErrorCode.LEADER_NOT_AVAILABLE,
            "leader_id": replica_set.master,
            "leader_epoch": replica_set.leader_epoch,
            "replica_nodes": replica_set.replicas,
            "isr_nodes": replica_set.sync_state_set,
            "offline_replicas": [one for one in replica_set.replicas if one not in brokers],
            "eligible_leader_replicas": (),
            "last_known_elr": (),
        }


def missing_topic(
    error: PlatformError | ErrorCode, *, name: str | None = None, topic_id: TopicId | None = None
) -> Fields:
    """Return a topic that is not there, or not yet."""
    code = error if isinstance(error, ErrorCode) else error_code_of(error)
    return {
        "error_code": code,
        "name": name,
        "topic_id": topic_id,
        "is_internal": False,
        "partitions": (),
    }
