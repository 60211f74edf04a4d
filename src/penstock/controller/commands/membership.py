"""The cluster itself: its id, its switches, and producer id blocks.

Source: KIP-730 (id blocks, KAFKA-15552: a block handed out twice). Brokers, sets and masterships
have modules of their own.
"""

from penstock.base.ids import BrokerId, ProducerId
from penstock.controller.commands.command import (
    AllocateProducerIds,
    CreateCluster,
    ProducerIdBlock,
    SetDefaultPolicy,
    SetFailover,
)
from penstock.controller.commands.context import CommandContext, Result
from penstock.controller.commands.features import feature_levels
from penstock.controller.errors import InvalidMetadataRequest, UnknownBroker
from penstock.controller.metadata.levels import FIRST_LEVEL, SUPPORTED
from penstock.controller.metadata.records import (
    ClusterCreated,
    DefaultPolicyChanged,
    FailoverChanged,
    ProducerIdBlockAllocated,
)
from penstock.controller.metadata.snapshot import policy_fields

PRODUCER_ID_BLOCK_COUNT = 1000
"""Ids per block, as in Kafka: one log entry for a thousand producers; a restart wastes at most that
many of 2^63 ids."""


def create_cluster(context: CommandContext, command: CreateCluster) -> Result[str]:
    """Create the cluster, or answer the id that it has.

    A new cluster begins with the newest level of each feature of this release.
    """
    if context.image.cluster_id:
        return Result(context.image.cluster_id)
    if not command.cluster_id:
        raise InvalidMetadataRequest("A cluster id can not be empty.")
    levels = {
        feature: levels.highest
        for feature, levels in SUPPORTED.items()
        if levels.highest > FIRST_LEVEL
    }
    founded = ClusterCreated(cluster_id=command.cluster_id)
    return Result(command.cluster_id, (founded, *feature_levels(context, levels)))


def set_failover(context: CommandContext, command: SetFailover) -> Result[None]:
    """Switch failover on or off. Idempotent."""
    if context.image.is_failover_enabled == command.is_enabled:
        return Result(None)
    return Result(None, (FailoverChanged(is_enabled=command.is_enabled),))


def set_default_policy(context: CommandContext, command: SetDefaultPolicy) -> Result[None]:
    """Change the policy of new sets; existing sets keep theirs."""
    if context.image.default_policy == command.policy:
        return Result(None)
    return Result(None, (DefaultPolicyChanged(**policy_fields(command.policy)),))


def allocate_producer_ids(
    context: CommandContext, command: AllocateProducerIds
) -> Result[ProducerIdBlock]:
    """Allocate the next block; ids that the broker does not use are never given out again."""
    if command.broker_id not in context.image.brokers:
        raise UnknownBroker(command.broker_id)
    first = context.image.next_producer_id
    block = ProducerIdBlock(
        first_producer_id=first, next_producer_id=ProducerId(first + PRODUCER_ID_BLOCK_COUNT)
    )
    record = ProducerIdBlockAllocated(
        broker_id=BrokerId(command.broker_id),
        first_producer_id=block.first_producer_id,
        next_producer_id=block.next_producer_id,
    )
    return Result(block, (record,))
