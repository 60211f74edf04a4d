"""Partitions of the cluster image as Metadata and DescribeTopicPartitions show them.

leader = master of the set, leader epoch = the set's, replicas = members, ISR = sync-state set
"""

from penstock.controller.image import NO_MASTER, ClusterImage, ReplicaSetImage
from penstock.protocol.error_codes import ErrorCode
from penstock.protocol.metadata import PartitionState


def partition_states(image: ClusterImage) -> dict[int, PartitionState]:
    """Return what the partitions of each replica set have in common, by set id."""
    return {
        set_id: _state(image, replica_set) for set_id, replica_set in image.replica_sets.items()
    }


def _state(image: ClusterImage, replica_set: ReplicaSetImage) -> PartitionState:
    has_master = replica_set.master != NO_MASTER
    return PartitionState(
        leader_id=replica_set.master,
        leader_epoch=replica_set.leader_epoch,
        replicas=replica_set.replicas,
        in_sync=replica_set.sync_state_set,
        offline=[one for one in replica_set.replicas if one not in image.brokers],
        error_code=ErrorCode.NONE if has_master else ErrorCode.LEADER_NOT_AVAILABLE,
    )
