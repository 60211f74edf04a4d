"""Cluster, brokers, replica sets, masterships, sync-state sets and producer id blocks.

On one node every start of the node is a new mastership of each of its sets, so that what was
written before the start and after it can be told apart by leader epoch.

Source: RIP-44 (masters and sync-state sets), KIP-497 (compare-and-set), KIP-730 (id blocks,
KAFKA-15552: a block handed out twice), KIP-631 (registration). Elections are not here yet: whoever
sends BeginMastership has chosen.
"""

from penstock.controller.commands import (
    AllocateProducerIds,
    BeginMastership,
    ChangeSyncStateSet,
    CreateCluster,
    CreateReplicaSet,
    EndMastership,
    ProducerIdBlock,
    RegisterBroker,
)
from penstock.controller.context import CommandContext, Result
from penstock.controller.errors import (
    InvalidMetadataRequest,
    StaleLeaderEpoch,
    StaleSyncStateSet,
    UnknownBroker,
    UnknownReplicaSet,
)
from penstock.controller.image import NO_MASTER, BrokerImage, ReplicaSetImage
from penstock.controller.records import (
    BrokerRegistered,
    ClusterCreated,
    MastershipBegun,
    ProducerIdBlockAllocated,
    ReplicaSetCreated,
    SyncStateSetChanged,
)

PRODUCER_ID_BLOCK_COUNT = 1000
"""Ids per block, as in Kafka: one log entry for a thousand producers, and a restart throws away at
most that many of 2^63."""


def create_cluster(context: CommandContext, command: CreateCluster) -> Result[str]:
    """Found the cluster, or answer under which id it was founded."""
    if context.image.cluster_id:
        return Result(context.image.cluster_id)
    if not command.cluster_id:
        raise InvalidMetadataRequest("A cluster id can not be empty.")
    return Result(command.cluster_id, (ClusterCreated(cluster_id=command.cluster_id),))


def register_broker(context: CommandContext, command: RegisterBroker) -> Result[None]:
    """Register; the same registration again changes nothing."""
    known = context.image.brokers.get(command.broker_id)
    if known == BrokerImage(
        broker_id=command.broker_id, host=command.host, port=command.port, rack=command.rack
    ):
        return Result(None)
    record = BrokerRegistered(
        broker_id=command.broker_id, host=command.host, port=command.port, rack=command.rack
    )
    return Result(None, (record,))


def create_replica_set(context: CommandContext, command: CreateReplicaSet) -> Result[None]:
    """Create; the same set again changes nothing, other members under the same id are refused."""
    replicas = command.replicas
    if not replicas or len(set(replicas)) != len(replicas):
        raise InvalidMetadataRequest(f"A replica set can not have the members {list(replicas)}.")
    for broker_id in replicas:
        if broker_id not in context.image.brokers:
            raise UnknownBroker(broker_id)
    known = context.image.replica_sets.get(command.replica_set_id)
    if known is not None and known.replicas != replicas:
        raise InvalidMetadataRequest(
            f"Replica set {command.replica_set_id} exists with the members {list(known.replicas)}."
        )
    if known is not None:
        return Result(None)
    record = ReplicaSetCreated(replica_set_id=command.replica_set_id, replicas=replicas)
    return Result(None, (record,))


def begin_mastership(context: CommandContext, command: BeginMastership) -> Result[int]:
    """Give the set a new epoch under `master`, who must be in step."""
    replica_set = _replica_set(context, command.replica_set_id)
    if command.master not in replica_set.sync_state_set:
        raise InvalidMetadataRequest(
            f"Broker {command.master} is not in the sync-state set"
            f" {list(replica_set.sync_state_set)}."
        )
    leader_epoch = replica_set.leader_epoch + 1
    record = MastershipBegun(
        replica_set_id=replica_set.replica_set_id, master=command.master, leader_epoch=leader_epoch
    )
    return Result(leader_epoch, (record,))


def end_mastership(context: CommandContext, command: EndMastership) -> Result[int]:
    """Take the set's master away under a new epoch; a set without one stays as it is."""
    replica_set = _replica_set(context, command.replica_set_id)
    if replica_set.master == NO_MASTER:
        return Result(replica_set.leader_epoch)
    leader_epoch = replica_set.leader_epoch + 1
    record = MastershipBegun(
        replica_set_id=replica_set.replica_set_id, master=NO_MASTER, leader_epoch=leader_epoch
    )
    return Result(leader_epoch, (record,))


def change_sync_state_set(context: CommandContext, command: ChangeSyncStateSet) -> Result[int]:
    """Take the master's word on who is in step, unless it is an old master or an old word."""
    replica_set = _replica_set(context, command.replica_set_id)
    if command.leader_epoch != replica_set.leader_epoch:
        raise StaleLeaderEpoch(command.leader_epoch, replica_set.leader_epoch)
    if command.master != replica_set.master:
        raise InvalidMetadataRequest(f"Broker {command.master} is not the master.")
    if command.sync_state_set_epoch != replica_set.sync_state_set_epoch:
        raise StaleSyncStateSet(command.sync_state_set_epoch, replica_set.sync_state_set_epoch)
    wanted = tuple(sorted(set(command.sync_state_set)))
    if command.master not in wanted:
        raise InvalidMetadataRequest("A sync-state set must hold the master.")
    strangers = [member for member in wanted if member not in replica_set.replicas]
    if strangers:
        raise InvalidMetadataRequest(f"Not members of the set: {strangers}.")
    if wanted == replica_set.sync_state_set:
        return Result(replica_set.sync_state_set_epoch)
    record = SyncStateSetChanged(
        replica_set_id=replica_set.replica_set_id,
        sync_state_set=wanted,
        sync_state_set_epoch=replica_set.sync_state_set_epoch + 1,
    )
    return Result(record.sync_state_set_epoch, (record,))


def allocate_producer_ids(
    context: CommandContext, command: AllocateProducerIds
) -> Result[ProducerIdBlock]:
    """Hand out the next block; it is gone even if the broker dies before it uses one id."""
    if command.broker_id not in context.image.brokers:
        raise UnknownBroker(command.broker_id)
    first = context.image.next_producer_id
    block = ProducerIdBlock(
        first_producer_id=first, next_producer_id=first + PRODUCER_ID_BLOCK_COUNT
    )
    record = ProducerIdBlockAllocated(
        broker_id=command.broker_id,
        first_producer_id=block.first_producer_id,
        next_producer_id=block.next_producer_id,
    )
    return Result(block, (record,))


def _replica_set(context: CommandContext, replica_set_id: int) -> ReplicaSetImage:
    replica_set = context.image.replica_sets.get(replica_set_id)
    if replica_set is None:
        raise UnknownReplicaSet(replica_set_id)
    return replica_set
