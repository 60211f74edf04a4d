"""Partitions of the cluster image as Metadata and DescribeTopicPartitions show them.

leader         master of the set; -1 and LEADER_NOT_AVAILABLE if it has no live one, or that is
               suspect: librdkafka uses a dead leader for a second, while without one it retries
               after 100 ms
leader epoch   the set's; replicas = members; ISR = sync-state set
offline        members whose broker is fenced or not registered
brokers        registered and not fenced, or all registered ones while only one is not fenced; in
               Metadata those too that were fenced a moment ago (broker/lately_fenced.py); only
               those that have the client's listener, each with its address there; partitions
               led by another get LISTENER_NOT_FOUND, as in Kafka
controller     the active controller if it is a live broker, else any live broker: every
               broker forwards commands, and clients look for the controller among the brokers
"""

from collections.abc import Callable
from typing import NamedTuple

from penstock.base.ids import BrokerId
from penstock.broker.live_broker import live_broker
from penstock.controller.metadata.image import BrokerImage, ClusterImage, ReplicaSetImage
from penstock.protocol.error_codes import ErrorCode
from penstock.protocol.metadata import PartitionState

NO_BROKER = -1


class ClientBroker(NamedTuple):
    """A broker as it is returned to the clients of one listener."""

    broker_id: BrokerId
    host: str
    port: int
    rack: str | None


def _nobody(_broker_id: BrokerId) -> bool:
    return False


def partition_states(
    image: ClusterImage, is_suspect: Callable[[BrokerId], bool], listener: str
) -> dict[int, PartitionState]:
    """Return the state that the partitions of each replica set share, by set id."""
    return {
        set_id: _state(image, replica_set, is_suspect, listener)
        for set_id, replica_set in image.replica_sets.items()
    }


def brokers_for_clients(
    image: ClusterImage, listener: str, is_told: Callable[[BrokerId], bool] = _nobody
) -> list[ClientBroker]:
    """Return the brokers for the clients of a listener, ordered by id.

    They are those that have the listener, and of these the live ones, if there are at least two,
    with the fenced ones of which `is_told` is true.

    A client that gets a single broker forgets the others. If that one dies just after the others
    have returned, the client has none left (KIP-899; aiokafka and kafka-python never use their
    bootstrap servers again). And an image without any live broker is probably stale.
    """
    known = registered_for_clients(image, listener)
    fenced = {one.broker_id for one in known if image.brokers[one.broker_id].is_fenced}
    if len(known) - len(fenced) <= 1:
        return known
    return [one for one in known if one.broker_id not in fenced or is_told(one.broker_id)]


def registered_for_clients(image: ClusterImage, listener: str) -> list[ClientBroker]:
    """Return all brokers that have the listener, fenced ones too, ordered by id."""
    found = (_told(broker, listener) for _, broker in sorted(image.brokers.items()))
    return [broker for broker in found if broker is not None]


def leader_for_clients(
    image: ClusterImage, broker_id: BrokerId, listener: str
) -> ClientBroker | None:
    """Return a broker if it is live and has the listener."""
    broker = live_broker(image, broker_id)
    return None if broker is None else _told(broker, listener)


def _told(broker: BrokerImage, listener: str) -> ClientBroker | None:
    endpoint = broker.endpoint(listener)
    return None if endpoint is None else ClientBroker(broker.broker_id, *endpoint, broker.rack)


def controller_for_clients(image: ClusterImage, listener: str) -> int:
    """Return the broker for administrative requests; -1 if there is none."""
    if leader_for_clients(image, BrokerId(image.controller_id), listener) is not None:
        return image.controller_id
    told = [broker.broker_id for broker in brokers_for_clients(image, listener)]
    return min(told, key=lambda one: (image.brokers[one].is_fenced, one), default=NO_BROKER)


def _state(
    image: ClusterImage,
    replica_set: ReplicaSetImage,
    is_suspect: Callable[[BrokerId], bool],
    listener: str,
) -> PartitionState:
    master = live_broker(image, replica_set.master)
    has_master = master is not None and not is_suspect(master.broker_id)
    error = ErrorCode.NONE if has_master else ErrorCode.LEADER_NOT_AVAILABLE
    if master is not None and master.endpoint(listener) is None:
        has_master, error = False, ErrorCode.LISTENER_NOT_FOUND
    return PartitionState(
        leader_id=replica_set.master if has_master else NO_BROKER,
        leader_epoch=replica_set.leader_epoch,
        replicas=replica_set.replicas,
        in_sync=replica_set.sync_state_set,
        offline=[
            replica for replica in replica_set.replicas if live_broker(image, replica) is None
        ],
        error_code=error,
    )
