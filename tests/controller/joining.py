"""What a master says of those that it wants in the sync-state set: their logs as registered."""

from collections.abc import Iterable, Mapping

from penstock.base.ids import BrokerId
from penstock.controller.commands.command import JoiningReplica
from penstock.controller.metadata.image import BrokerImage, ReplicaSetImage


def joining(
    replica_set: ReplicaSetImage, brokers: Mapping[BrokerId, BrokerImage], members: Iterable[int]
) -> tuple[JoiningReplica, ...]:
    """Name the logs and processes that the image has of those who are not in step yet."""
    return tuple(
        JoiningReplica(
            broker_id=BrokerId(member),
            replica_id=replica_set.replica_ids[BrokerId(member)],
            broker_epoch=brokers[BrokerId(member)].broker_epoch,
        )
        for member in members
        if member in replica_set.replica_ids and member not in replica_set.sync_state_set
    )
