"""Replica sets: creation, members, replica ids, policies.

Source: RIP-44 (replica ids for life); KIP-455 (members added and removed while the set is in use).
What a change of members or policy means for elections is in `overlap`.
"""

from dataclasses import replace

from penstock.base.ack_policy import AckPolicy, PolicyKind
from penstock.base.ids import BrokerId, ReplicaSetId, SyncStateSetEpoch
from penstock.controller.commands.command import (
    AddReplica,
    CreateReplicaSet,
    CreateReplicaSets,
    RegisterReplica,
    RemoveReplica,
    SetAckPolicy,
    SetUncleanElection,
)
from penstock.controller.commands.context import CommandContext, Result
from penstock.controller.commands.masterships import find_set, mastership_ended
from penstock.controller.commands.overlap import after_change, difference
from penstock.controller.errors import InvalidMetadataRequest, NotReplica, UnknownBroker
from penstock.controller.metadata.causes import Cause
from penstock.controller.metadata.image import NO_EPOCH, NO_MASTER, ClusterImage, ReplicaSetImage
from penstock.controller.metadata.records import (
    AckPolicyChanged,
    MetadataRecord,
    ReplicaRegistered,
    ReplicasChanged,
    ReplicaSetCreated,
    UncleanElectionChanged,
)
from penstock.controller.metadata.snapshot import policy_fields

REPLICAS_MAX = 32
"""Members of one set; the same bound as for replication factors."""
NEXT_ID = -1
SET_ID_MAX = 2**30
"""Ids travel as 32 bits, and the next one is the largest and one."""


def create_replica_set(context: CommandContext, command: CreateReplicaSet) -> Result[int]:
    """Create a set. Idempotent; other members under the same id are refused."""
    set_id = command.replica_set_id
    if set_id == NEXT_ID:
        set_id = next_set_id(context.image)
    known = context.image.replica_sets.get(set_id)
    if known is not None and known.replicas != command.replicas:
        raise InvalidMetadataRequest(
            f"Replica set {set_id} exists with the members {list(known.replicas)}."
        )
    if known is not None:
        return Result(set_id)
    return Result(set_id, (set_created(context, set_id, command.replicas, command.policy),))


def next_set_id(image: ClusterImage) -> ReplicaSetId:
    """Return the largest id in use plus 1; the first set is 1."""
    return ReplicaSetId(max(image.replica_sets, default=0) + 1)


def set_created(
    context: CommandContext,
    set_id: ReplicaSetId,
    replicas: tuple[BrokerId, ...],
    policy: AckPolicy | None,
) -> ReplicaSetCreated:
    """Return the record of a new set; without a policy it gets the cluster's, fitted to its size.

    Raises InvalidMetadataRequest, UnknownBroker.
    """
    if not 0 <= set_id <= SET_ID_MAX:
        raise InvalidMetadataRequest(f"A replica set can not have the id {set_id}.")
    if not 0 < len(replicas) <= REPLICAS_MAX or len(set(replicas)) != len(replicas):
        raise InvalidMetadataRequest(f"A replica set can not have the members {list(replicas)}.")
    for broker_id in replicas:
        if broker_id not in context.image.brokers:
            raise UnknownBroker(broker_id)
    if policy is None:
        policy = _fitted(context.image.default_policy, len(replicas))
    _check_policy(policy, len(replicas))
    return ReplicaSetCreated(replica_set_id=set_id, replicas=replicas, **policy_fields(policy))


def _fitted(policy: AckPolicy, size: int) -> AckPolicy:
    """Return the policy with its counts limited to the size of the set."""
    return replace(policy, required=min(policy.required, size), minimum=min(policy.minimum, size))


def _check_policy(policy: AckPolicy, size: int) -> None:
    needed = policy.minimum
    if policy.kind in {PolicyKind.K_OF_N, PolicyKind.ADAPTIVE}:
        needed = max(policy.required, policy.minimum)
    if needed > size:
        raise InvalidMetadataRequest(
            f"The policy asks for {needed} copies, and the set has {size} members: ask for fewer,"
            " or add members first."
        )


def create_replica_sets(
    context: CommandContext, command: CreateReplicaSets
) -> Result[tuple[int, ...]]:
    """Create several sets, all or none."""
    if command.set_count != len(context.image.replica_sets):
        raise InvalidMetadataRequest(
            "Sets were created meanwhile: the plan is out of date, make it again."
        )
    first = next_set_id(context.image)
    records = tuple(
        set_created(context, ReplicaSetId(first + at), replicas, None)
        for at, replicas in enumerate(command.members)
    )
    return Result(tuple(record.replica_set_id for record in records), records)


def register_replica(context: CommandContext, command: RegisterReplica) -> Result[int]:
    """Give a member's log its replica id; another log than the registered one means a lost log.

    A lost log raises the sync-state set epoch even if the member was not in the set: elections and
    changes that were based on what the lost log held become void (KIP-903).
    """
    replica_set = find_set(context, command.replica_set_id)
    broker_id = command.broker_id
    if broker_id not in replica_set.replicas:
        raise NotReplica(broker_id, command.replica_set_id)
    if not command.log_id:
        raise InvalidMetadataRequest("A replica's log has an id.")
    broker = context.image.brokers.get(broker_id)
    registered = "" if broker is None else broker.incarnation
    if command.incarnation and command.incarnation != registered:
        raise InvalidMetadataRequest(f"Broker {broker_id} is not registered as this process.")
    known = replica_set.log_ids.get(broker_id)
    if known == command.log_id:
        return Result(replica_set.replica_ids[broker_id])
    record = ReplicaRegistered(
        replica_set_id=command.replica_set_id,
        broker_id=broker_id,
        replica_id=replica_set.next_replica_id,
        log_id=command.log_id,
    )
    lost = [] if known is None else _log_lost(context, replica_set, broker_id)
    return Result(record.replica_id, (record, *lost))


def _log_lost(
    context: CommandContext, replica_set: ReplicaSetImage, broker_id: BrokerId
) -> list[MetadataRecord]:
    """Return the records after which nothing that this member acknowledged counts any more."""
    records: list[MetadataRecord] = []
    if replica_set.master == broker_id:
        records.append(mastership_ended(context, replica_set, Cause.LOG_LOST))
        replica_set = replace(replica_set, master=NO_MASTER)
    if broker_id in replica_set.candidates or broker_id in replica_set.sync_state_set:
        after = after_change(replica_set, lost=broker_id)
    else:
        after = replace(
            replica_set,
            sync_state_set_epoch=SyncStateSetEpoch(replica_set.sync_state_set_epoch + 1),
        )
    return [*records, *difference(replica_set, after)]


def add_replica(context: CommandContext, command: AddReplica) -> Result[None]:
    """Make a broker a member of the set. Idempotent."""
    replica_set = find_set(context, command.replica_set_id)
    broker = context.image.brokers.get(command.broker_id)
    if broker is None:
        raise UnknownBroker(command.broker_id)
    if command.broker_id in replica_set.replicas:
        return Result(None)
    if broker.is_draining:
        raise InvalidMetadataRequest(f"Broker {command.broker_id} is being drained.")
    replicas = (*replica_set.replicas, command.broker_id)
    if len(replicas) > REPLICAS_MAX:
        raise InvalidMetadataRequest(f"A set has at most {REPLICAS_MAX} members.")
    changed = ReplicasChanged(replica_set_id=command.replica_set_id, replicas=replicas)
    rest = difference(replica_set, after_change(replica_set, replicas=replicas))
    return Result(None, (changed, *rest))


def remove_replica(context: CommandContext, command: RemoveReplica) -> Result[None]:
    """Remove a member from the set. Idempotent."""
    replica_set = find_set(context, command.replica_set_id)
    if command.broker_id not in replica_set.replicas:
        return Result(None)
    return Result(None, removed(replica_set, command.broker_id))


def removed(replica_set: ReplicaSetImage, broker_id: BrokerId) -> tuple[MetadataRecord, ...]:
    """Return the records after which a member is none any more. Raises InvalidMetadataRequest."""
    if replica_set.master == broker_id:
        raise InvalidMetadataRequest(
            f"Broker {broker_id} is the master of replica set {replica_set.replica_set_id}: move"
            " the mastership first."
        )
    replicas = tuple(replica for replica in replica_set.replicas if replica != broker_id)
    if not replicas:
        raise InvalidMetadataRequest("A set must keep at least one member.")
    check_size(replica_set.policy, len(replicas))
    after = after_change(replica_set, replicas=replicas, lost=broker_id)
    if after.copies_floor == 0 or not after.sync_state_set:
        raise InvalidMetadataRequest(
            f"Broker {broker_id} may hold records that no other member holds: elect a master and"
            " let the others get in step first."
        )
    changed = ReplicasChanged(replica_set_id=replica_set.replica_set_id, replicas=replicas)
    return (*difference(replica_set, after), changed)


def check_size(policy: AckPolicy, size: int) -> None:
    """Check that a set may shrink to `size` members. Raises InvalidMetadataRequest."""
    if policy.kind is PolicyKind.ADAPTIVE:
        policy = replace(policy, required=policy.minimum)
    _check_policy(policy, size)


def set_ack_policy(context: CommandContext, command: SetAckPolicy) -> Result[None]:
    """Change the set's acknowledgement policy; records confirmed before stay safe (`overlap`).

    Refused while the set has no master, the only member known to hold every confirmed record.
    """
    replica_set = find_set(context, command.replica_set_id)
    _check_policy(command.policy, len(replica_set.replicas))
    if command.policy == replica_set.policy:
        return Result(None)
    if replica_set.master == NO_MASTER and replica_set.leader_epoch != NO_EPOCH:
        raise InvalidMetadataRequest(
            f"Replica set {command.replica_set_id} has no master: its policy can not change now."
        )
    changed = AckPolicyChanged(
        replica_set_id=command.replica_set_id, **policy_fields(command.policy)
    )
    rest = difference(replica_set, after_change(replica_set, policy=command.policy))
    return Result(None, (changed, *rest))


def set_unclean_election(context: CommandContext, command: SetUncleanElection) -> Result[None]:
    """Allow or forbid unclean elections of the set. Idempotent."""
    replica_set = find_set(context, command.replica_set_id)
    if replica_set.is_unclean_allowed == command.is_allowed:
        return Result(None)
    record = UncleanElectionChanged(
        replica_set_id=command.replica_set_id, is_allowed=command.is_allowed
    )
    return Result(None, (record,))
