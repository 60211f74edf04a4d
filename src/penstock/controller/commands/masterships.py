"""Masterships and sync-state sets: commands that change masters, members in step, and fencing.

Every change is a compare-and-set on the epochs that it was based on. Elections choose before they
submit (active/election.py, active/elections.py); the checks refuse a choice that was overtaken.

Source: RIP-44 and RocketMQ's alterSyncStateSet (checks in their order); KIP-497 and KIP-841 (no
fenced broker enters the sync-state set).
"""

from dataclasses import replace

from penstock.base.ack_policy import PolicyKind
from penstock.base.ids import BrokerId, LeaderEpoch, ReplicaSetId, SyncStateSetEpoch
from penstock.controller.commands.command import (
    BeginMastership,
    BeginMasterships,
    ChangeSyncStateSet,
    EndMastership,
    FenceBrokers,
    NewMastership,
)
from penstock.controller.commands.context import CommandContext, Result
from penstock.controller.commands.overlap import difference, raised_floor
from penstock.controller.errors import (
    InvalidMetadataRequest,
    StaleLeaderEpoch,
    StaleSyncStateSet,
    UnknownReplicaSet,
)
from penstock.controller.metadata.causes import Cause
from penstock.controller.metadata.image import NO_FLOOR, NO_MASTER, ReplicaSetImage
from penstock.controller.metadata.records import BrokerFenced, MastershipBegun, MetadataRecord


def find_set(context: CommandContext, replica_set_id: ReplicaSetId) -> ReplicaSetImage:
    """Return the set. Raises UnknownReplicaSet."""
    replica_set = context.image.replica_sets.get(replica_set_id)
    if replica_set is None:
        raise UnknownReplicaSet(replica_set_id)
    return replica_set


def begin_mastership(context: CommandContext, command: BeginMastership) -> Result[int]:
    """Begin a mastership of `master`, which must be in the sync-state set."""
    replica_set = find_set(context, command.replica_set_id)
    if command.master not in replica_set.sync_state_set:
        raise InvalidMetadataRequest(
            f"Broker {command.master} is not in the sync-state set"
            f" {list(replica_set.sync_state_set)}."
        )
    record = _begun(context, replica_set, command.master, Cause.OWN_CONTROLLER)
    return Result(record.leader_epoch, (record,))


def end_mastership(context: CommandContext, command: EndMastership) -> Result[int]:
    """End the set's mastership under a new epoch; a set without a master is not changed."""
    replica_set = find_set(context, command.replica_set_id)
    if replica_set.master == NO_MASTER:
        return Result(replica_set.leader_epoch)
    record = mastership_ended(context, replica_set, Cause.OWN_CONTROLLER)
    return Result(record.leader_epoch, (record,))


def mastership_ended(
    context: CommandContext, replica_set: ReplicaSetImage, cause: Cause
) -> MastershipBegun:
    """Return the record that ends a set's mastership."""
    return _begun(context, replica_set, NO_MASTER, cause)


def _begun(
    context: CommandContext,
    replica_set: ReplicaSetImage,
    master: BrokerId,
    cause: Cause,
    wanted: NewMastership | None = None,
) -> MastershipBegun:
    is_unclean = wanted is not None and wanted.is_unclean
    # Under `async` any election may lose confirmed records; the policy may have changed by the time
    # a member with an older log returns.
    may_lose = master != NO_MASTER and (is_unclean or replica_set.policy.kind is PolicyKind.ASYNC)
    leader_epoch = LeaderEpoch(replica_set.leader_epoch + 1)
    return MastershipBegun(
        replica_set_id=replica_set.replica_set_id,
        master=master,
        leader_epoch=leader_epoch,
        cause=cause,
        at_ms=context.wall_ms(),
        last_master=replica_set.last_master if master == NO_MASTER else master,
        detail="" if wanted is None else wanted.detail,
        unclean_epoch=leader_epoch if may_lose else replica_set.unclean_epoch,
    )


def begin_masterships(
    context: CommandContext, command: BeginMasterships
) -> Result[tuple[int, ...]]:
    """Begin all of them; if one was overtaken, all are refused."""
    return Result(*_begin_all(context, command.masterships, fenced=()))


def fence_brokers(context: CommandContext, command: FenceBrokers) -> Result[tuple[int, ...]]:
    """Fence, and begin the masterships that follow, in one entry.

    A set that a fenced broker leads and that has no elected successor is left without a master.
    """
    brokers = context.image.brokers
    fenced = tuple(
        broker_id
        for broker_id, broker_epoch in command.brokers
        if broker_id in brokers and brokers[broker_id].broker_epoch == broker_epoch
    )
    records: list[MetadataRecord] = [
        BrokerFenced(broker_id=broker_id)
        for broker_id in fenced
        if not brokers[broker_id].is_fenced
    ]
    epochs, begun = _begin_all(context, command.masterships, fenced=fenced)
    records += begun
    named = {mastership.replica_set_id for mastership in command.masterships}
    records += [
        mastership_ended(context, one, Cause.EVICTION)
        for set_id, one in sorted(context.image.replica_sets.items())
        if one.master in fenced and set_id not in named
    ]
    return Result(epochs, tuple(records))


def _begin_all(
    context: CommandContext, masterships: tuple[NewMastership, ...], fenced: tuple[BrokerId, ...]
) -> tuple[tuple[int, ...], tuple[MetadataRecord, ...]]:
    ids = [mastership.replica_set_id for mastership in masterships]
    if len(set(ids)) != len(ids):
        raise InvalidMetadataRequest(f"The sets {ids} are not all different.")
    epochs: list[int] = []
    records: list[MetadataRecord] = []
    for wanted in masterships:
        replica_set = find_set(context, wanted.replica_set_id)
        _check_epochs(replica_set, wanted.leader_epoch, wanted.sync_state_set_epoch)
        if wanted.master != NO_MASTER:
            _check_choice(context, replica_set, wanted, fenced)
        begun = _begun(context, replica_set, wanted.master, wanted.cause, wanted)
        records += _members_after(replica_set, wanted)
        records.append(begun)
        epochs.append(begun.leader_epoch)
    return tuple(epochs), tuple(records)


def _check_epochs(
    replica_set: ReplicaSetImage, leader_epoch: LeaderEpoch, sync_state_set_epoch: SyncStateSetEpoch
) -> None:
    if leader_epoch != replica_set.leader_epoch:
        raise StaleLeaderEpoch(leader_epoch, replica_set.leader_epoch)
    if sync_state_set_epoch != replica_set.sync_state_set_epoch:
        raise StaleSyncStateSet(sync_state_set_epoch, replica_set.sync_state_set_epoch)


def _check_choice(
    context: CommandContext,
    replica_set: ReplicaSetImage,
    wanted: NewMastership,
    fenced: tuple[BrokerId, ...],
) -> None:
    _check_able(context, wanted.master, fenced)
    if wanted.is_unclean and wanted.sync_state_set is None:
        raise InvalidMetadataRequest(
            "A mastership that may lose records must name its sync-state set: its master alone, as"
            " other members may hold what it lacks."
        )
    members = replica_set.sync_state_set if wanted.sync_state_set is None else wanted.sync_state_set
    if wanted.master not in members:
        raise InvalidMetadataRequest("A sync-state set must hold the master.")
    eligible = replica_set.replicas if wanted.is_unclean else replica_set.candidates
    ineligible = [member for member in members if member not in eligible]
    if ineligible:
        raise InvalidMetadataRequest(
            f"Brokers {ineligible} can not be in the sync-state set of replica set"
            f" {replica_set.replica_set_id}: eligible are {list(eligible)}."
        )


def _check_able(
    context: CommandContext, broker_id: BrokerId, fenced: tuple[BrokerId, ...] = ()
) -> None:
    broker = context.image.brokers.get(broker_id)
    if broker is None or broker.is_fenced or broker_id in fenced:
        raise InvalidMetadataRequest(f"Broker {broker_id} is not registered, or fenced.")


def _members_after(replica_set: ReplicaSetImage, wanted: NewMastership) -> list[MetadataRecord]:
    """Return the records of the new sync-state set, whose members hold every confirmed record."""
    if wanted.master == NO_MASTER or wanted.sync_state_set is None:
        return []
    after = replace(
        replica_set,
        sync_state_set=tuple(sorted(set(wanted.sync_state_set))),
        sync_state_set_epoch=SyncStateSetEpoch(replica_set.sync_state_set_epoch + 1),
    )
    floor = NO_FLOOR if wanted.is_unclean else raised_floor(after)
    return difference(replica_set, replace(after, copies_floor=floor))


def change_sync_state_set(context: CommandContext, command: ChangeSyncStateSet) -> Result[int]:
    """Record the sync-state set that the master asks for, if both epochs are current."""
    replica_set = find_set(context, command.replica_set_id)
    if command.leader_epoch != replica_set.leader_epoch:
        raise StaleLeaderEpoch(command.leader_epoch, replica_set.leader_epoch)
    if command.master != replica_set.master:
        raise InvalidMetadataRequest(f"Broker {command.master} is not the master.")
    if command.sync_state_set_epoch != replica_set.sync_state_set_epoch:
        raise StaleSyncStateSet(command.sync_state_set_epoch, replica_set.sync_state_set_epoch)
    wanted = tuple(sorted(set(command.sync_state_set)))
    if command.master not in wanted:
        raise InvalidMetadataRequest("A sync-state set must hold the master.")
    not_members = [member for member in wanted if member not in replica_set.replicas]
    if not_members:
        raise InvalidMetadataRequest(f"Not members of the set: {not_members}.")
    _check_added(context, replica_set, command, wanted)
    after = replace(
        replica_set,
        sync_state_set=wanted,
        sync_state_set_epoch=SyncStateSetEpoch(replica_set.sync_state_set_epoch + 1),
    )
    after = replace(after, copies_floor=raised_floor(after))
    return Result(after.sync_state_set_epoch, tuple(difference(replica_set, after)))


def _check_added(
    context: CommandContext,
    replica_set: ReplicaSetImage,
    command: ChangeSyncStateSet,
    wanted: tuple[BrokerId, ...],
) -> None:
    """Refuse to add a member that is fenced, being drained, or has another log or process.

    Log and process must be those that the master has judged.
    """
    judged = {one.broker_id: (one.replica_id, one.broker_epoch) for one in command.joining}
    for broker_id in wanted:
        if broker_id in replica_set.sync_state_set:
            continue
        _check_able(context, broker_id)
        broker = context.image.brokers[broker_id]
        if broker.is_draining:
            raise InvalidMetadataRequest(f"Broker {broker_id} is being drained.")
        registered = replica_set.replica_ids.get(broker_id), broker.broker_epoch
        if judged.get(broker_id) != registered:
            raise InvalidMetadataRequest(
                f"Broker {broker_id} is registered with replica id and broker epoch {registered},"
                f" and was judged by {judged.get(broker_id)}."
            )
