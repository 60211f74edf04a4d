"""Partitions of the cluster image as Metadata and DescribeTopicPartitions show them.

leader         master of the set, -1 and LEADER_NOT_AVAILABLE while it has none that lives, or it is
               suspect: told of a dead leader, librdkafka believes it for a second, told of
               none it asks again after 100 ms
leader epoch   the set's; replicas = members; ISR = sync-state set
offline        members whose broker is fenced or not registered
brokers        registered and not fenced; all that are registered while only one is not fenced
controller     the active controller where it is a live broker, else any live broker: every
               broker passes commands on, and clients look for the controller among brokers
"""

from collections.abc import Callable

from penstock.broker.live_broker import live_broker
from penstock.controller.metadata.image import BrokerImage, ClusterImage, ReplicaSetImage
from penstock.protocol.error_codes import ErrorCode
from penstock.protocol.metadata import PartitionState

NO_BROKER = -1


def partition_states(
    image: ClusterImage, is_suspect: Callable[[int], bool]
) -> dict[int, PartitionState]:
    """Return what the partitions of each replica set have in common, by set id."""
    return {
        set_id: _state(image, replica_set, is_suspect)
        for set_id, replica_set in image.replica_sets.items()
    }


def brokers_for_clients(image: ClusterImage) -> list[BrokerImage]:
    """Return the brokers that clients are told of, by id: those that live, if there are two.

    A client that is told of a single broker forgets the others. If that one dies just after they
    have come back, it has nobody left to ask (KIP-899; aiokafka and kafka-python never look at
    their bootstrap servers again). And an image in which nobody lives is an old one.
    """
    known = [broker for _, broker in sorted(image.brokers.items())]
    alive = [broker for broker in known if not broker.is_fenced]
    return alive if len(alive) > 1 else known


def controller_for_clients(image: ClusterImage) -> int:
    """Return the broker that clients send administrative requests to; -1 without any broker."""
    if live_broker(image, image.controller_id) is not None:
        return image.controller_id
    told = sorted(brokers_for_clients(image), key=lambda one: (one.is_fenced, one.broker_id))
    return next((one.broker_id for one in told), NO_BROKER)


def _state(
    image: ClusterImage, replica_set: ReplicaSetImage, is_suspect: Callable[[int], bool]
) -> PartitionState:
    master = live_broker(image, replica_set.master)
    has_master = master is not None and not is_suspect(master.broker_id)
    return PartitionState(
        leader_id=replica_set.master if has_master else NO_BROKER,
        leader_epoch=replica_set.leader_epoch,
        replicas=replica_set.replicas,
        in_sync=replica_set.sync_state_set,
        offline=[one for one in replica_set.replicas if live_broker(image, one) is None],
        error_code=ErrorCode.NONE if has_master else ErrorCode.LEADER_NOT_AVAILABLE,
    )
