"""Reassignments: the target is recorded, then members change one at a time until it is reached.

    Reassign              the target stands in the metadata log
    AdvanceReassignment   one member more or less; at last the order of the target, and the record
                          of the reassignment goes

All partitions of a set have its members, so a set is what is reassigned. Which step is next is
decided by `active/next_step`, from the image alone.

Source: KIP-455 (targets, cancellation), KIP-860 (requests that must not change the replication
factor); Kafka `ReplicationControlManager.alterPartitionReassignments`, order of checks.
"""

from penstock.base.errors import as_answer
from penstock.base.ids import BrokerId
from penstock.controller.commands.command import AddReplica
from penstock.controller.commands.context import CommandContext, Result
from penstock.controller.commands.masterships import find_set
from penstock.controller.commands.reassignment.commands import (
    ANY_COUNT,
    NOBODY,
    AdvanceReassignment,
    Reassign,
    SetOutcome,
    SetTarget,
)
from penstock.controller.commands.replica_sets import (
    REPLICAS_MAX,
    add_replica,
    check_size,
    removed,
)
from penstock.controller.errors import (
    InvalidMetadataRequest,
    InvalidReplicaAssignment,
    InvalidReplicationFactor,
    NoReassignment,
    RefusedCommand,
)
from penstock.controller.metadata.config_records import removal_of
from penstock.controller.metadata.image import ReplicaSetImage
from penstock.controller.metadata.kinds import RecordKind
from penstock.controller.metadata.reassignment_records import ReassignmentChanged, key_of
from penstock.controller.metadata.records import MetadataRecord, ReplicasChanged


def reassign(context: CommandContext, command: Reassign) -> Result[tuple[SetOutcome, ...]]:
    """Begin, change or take back a reassignment of each set; a refused one changes no other."""
    ids = [one.replica_set_id for one in command.sets]
    if len(set(ids)) != len(ids):
        raise InvalidMetadataRequest(f"The sets {ids} are not all different.")
    outcomes: list[SetOutcome] = []
    records: list[MetadataRecord] = []
    for wanted in command.sets:
        try:
            records += _taken_back(context, wanted) if wanted.replicas is None else (
                _begun(context, wanted, wanted.replicas)
            )  # fmt: skip
            outcomes.append(SetOutcome())
        except RefusedCommand as error:
            outcomes.append(SetOutcome(error=as_answer(error)))
    return Result(tuple(outcomes), tuple(records))


def _taken_back(context: CommandContext, wanted: SetTarget) -> list[MetadataRecord]:
    replica_set = find_set(context, wanted.replica_set_id)
    known = context.image.configuration.reassignments.get(wanted.replica_set_id)
    if known is None or known.is_cancelled:
        raise NoReassignment(wanted.replica_set_id)
    return _towards(replica_set, known.before, before=())


def _begun(
    context: CommandContext, wanted: SetTarget, target: tuple[BrokerId, ...]
) -> list[MetadataRecord]:
    set_id = wanted.replica_set_id
    replica_set = find_set(context, set_id)
    known = context.image.configuration.reassignments.get(set_id)
    if wanted.partition_count not in {ANY_COUNT, context.image.partition_counts[set_id]}:
        raise InvalidReplicaAssignment(
            f"Replica set {set_id} got or lost partitions meanwhile: ask again."
        )
    before = replica_set.replicas if known is None else known.before
    _check_target(context, replica_set, target, before)
    if not wanted.may_resize and len(target) != len(before or replica_set.replicas):
        raise InvalidReplicationFactor(
            f"Replica set {set_id} has {len(before or replica_set.replicas)} members and is to"
            f" have {len(target)}, but the request forbids to change the replication factor."
        )
    if target == (replica_set.replicas if known is None else known.target):
        return []
    return _towards(replica_set, target, before=before or replica_set.replicas)


def _check_target(
    context: CommandContext,
    replica_set: ReplicaSetImage,
    target: tuple[BrokerId, ...],
    before: tuple[BrokerId, ...],
) -> None:
    """Raise InvalidReplicaAssignment for members that no set can have, or not this one now."""
    if not 0 < len(target) <= REPLICAS_MAX or len(set(target)) != len(target):
        raise InvalidReplicaAssignment(
            f"A partition can not have the replicas {list(target)[: REPLICAS_MAX + 1]}: name 1 to"
            f" {REPLICAS_MAX} brokers, each once."
        )
    for broker_id in target:
        broker = context.image.brokers.get(broker_id)
        if broker is None:
            raise InvalidReplicaAssignment(f"Broker {broker_id} is not registered.")
        if broker.is_draining and broker_id not in {*replica_set.replicas, *before}:
            raise InvalidReplicaAssignment(
                f"Broker {broker_id} is being drained: name another, or end its drain first."
            )
    try:
        check_size(replica_set.policy, len(target))
    except InvalidMetadataRequest as error:
        raise InvalidReplicaAssignment(str(error)) from error


def _towards(
    replica_set: ReplicaSetImage, target: tuple[BrokerId, ...], *, before: tuple[BrokerId, ...]
) -> list[MetadataRecord]:
    """Return the records that lead to `target`; with the same members it is reached at once."""
    if set(target) == set(replica_set.replicas):
        return _reached(replica_set, target)
    key = key_of(replica_set.replica_set_id)
    return [ReassignmentChanged(key=key, target=target, before=before)]


def _reached(replica_set: ReplicaSetImage, target: tuple[BrokerId, ...]) -> list[MetadataRecord]:
    set_id = replica_set.replica_set_id
    over = removal_of(RecordKind.REASSIGNMENT_CHANGED, key_of(set_id))
    if target == replica_set.replicas:
        return [over]
    return [ReplicasChanged(replica_set_id=set_id, replicas=target), over]


def advance(context: CommandContext, command: AdvanceReassignment) -> Result[None]:
    """Take one step of a reassignment, if its target is still the one that the step is for."""
    replica_set = find_set(context, command.replica_set_id)
    known = context.image.configuration.reassignments.get(command.replica_set_id)
    if known is None or known.target != command.target:
        raise InvalidMetadataRequest(
            f"Replica set {command.replica_set_id} is not on its way to {list(command.target)}."
        )
    if command.added != NOBODY:
        added = AddReplica(replica_set_id=command.replica_set_id, broker_id=command.added)
        return add_replica(context, added)
    if command.removed != NOBODY:
        if command.removed not in replica_set.replicas:
            return Result(None)
        return Result(None, removed(replica_set, command.removed))
    if set(known.target) != set(replica_set.replicas):
        raise InvalidMetadataRequest(
            f"Replica set {command.replica_set_id} has the members {list(replica_set.replicas)}."
        )
    return Result(None, tuple(_reached(replica_set, known.target)))
