"""Brokers: registration, identity, drain, removal.

Source: KIP-631 (registration, broker epoch, incarnation id); RocketMQ #4808 and RIP-44 (broker ids
for life, taken by compare-and-set). Fencing is in `masterships`.
"""

from dataclasses import replace

from penstock.base.ack_policy import PolicyKind
from penstock.base.endpoints import FIRST_LISTENER, LISTENERS_MAX, parse_endpoint
from penstock.base.ids import BrokerEpoch, BrokerId, ReplicaSetId, SyncStateSetEpoch
from penstock.controller.commands.command import (
    DrainBroker,
    ForgetIdentity,
    LeaveSyncStateSets,
    RegisterBroker,
    RemoveBroker,
)
from penstock.controller.commands.context import CommandContext, Result
from penstock.controller.commands.masterships import mastership_ended
from penstock.controller.errors import BrokerIdTaken, InvalidMetadataRequest, UnknownBroker
from penstock.controller.metadata.broker_epoch_records import REMOVED_BROKERS, BrokerEpochReached
from penstock.controller.metadata.causes import Cause
from penstock.controller.metadata.image import (
    NO_MASTER,
    UNREGISTERED,
    BrokerImage,
    ClusterImage,
    ReplicaSetImage,
)
from penstock.controller.metadata.levels import MACHINES_LEVEL
from penstock.controller.metadata.records import (
    BrokerDrained,
    BrokerFenced,
    BrokerRegistered,
    BrokerRemoved,
    MetadataRecord,
    SyncStateSetChanged,
)
from penstock.controller.metadata.snapshot import registration

DIRECTORIES_MAX = 128
"""Data directories of one broker: each gets a replica set."""
_INT32_MAX = 2**31 - 1
_PORT_MAX = 2**16 - 1
_TEXT_CHARACTERS_MAX = 1024


def register_broker(context: CommandContext, command: RegisterBroker) -> Result[int]:
    """Register under a new broker epoch. Idempotent.

    The id belongs to the identity that took it first. A new incarnation's masterships end.
    """
    _check_registration(command)
    if context.image.metadata_level < MACHINES_LEVEL:
        command = replace(command, machine="")
    known = context.image.brokers.get(command.broker_id)
    if known is not None and known.identity not in {"", command.identity}:
        raise BrokerIdTaken(command.broker_id)
    if known is not None and not known.is_fenced and _is_same(known, command):
        return Result(known.broker_epoch)
    record = BrokerRegistered(
        broker_id=BrokerId(command.broker_id),
        host=command.host,
        port=command.port,
        rack=command.rack,
        ha_host=command.ha_host,
        ha_port=command.ha_port,
        identity=command.identity,
        incarnation=command.incarnation,
        broker_epoch=BrokerEpoch(_highest_epoch(context.image) + 1),
        directory_count=command.directory_count,
        is_draining=known is not None and known.is_draining,
        listeners=command.listeners,
        machine=command.machine,
    )
    records: list[MetadataRecord] = [record]
    if known is not None and known.incarnation != command.incarnation:
        records += [
            mastership_ended(context, one, Cause.RESTART)
            for one in _led_by(context, command.broker_id)
        ]
    return Result(record.broker_epoch, tuple(records))


def _highest_epoch(image: ClusterImage) -> BrokerEpoch:
    """Return the highest epoch that a broker has, or had before it was removed."""
    registered = (broker.broker_epoch for broker in image.brokers.values())
    return max(_reached_epoch(image), max(registered, default=UNREGISTERED))


def _reached_epoch(image: ClusterImage) -> BrokerEpoch:
    """Return the highest epoch of removed brokers."""
    reached = image.configuration.reached_epochs.values()
    return max((one.broker_epoch for one in reached), default=UNREGISTERED)


def _check_registration(command: RegisterBroker) -> None:
    """Refuse values that Kafka answers cannot carry, or that would create too many sets."""
    numbers = (
        ("broker id", command.broker_id, 0, _INT32_MAX),
        ("port", command.port, 0, _PORT_MAX),
        ("HA port", command.ha_port, 0, _PORT_MAX),
        ("number of data directories", command.directory_count, 1, DIRECTORIES_MAX),
    )
    for name, value, least, most in numbers:
        if not least <= value <= most:
            raise InvalidMetadataRequest(f"The {name} of a broker can not be {value}.")
    texts = (command.host, command.rack or "", command.machine, command.ha_host, command.identity)
    if any(len(text) > _TEXT_CHARACTERS_MAX for text in texts):
        raise InvalidMetadataRequest("The host, rack, machine or identity of a broker is too long.")
    names = [listener.name for listener in command.listeners]
    if len(names) > LISTENERS_MAX or len({*names, FIRST_LISTENER}) <= len(names):
        raise InvalidMetadataRequest(
            f"A broker has at most {LISTENERS_MAX} listeners beside its first, each with a name of"
            " its own."
        )
    for listener in command.listeners:
        if parse_endpoint(str(listener)) != listener or len(listener.host) > _TEXT_CHARACTERS_MAX:
            raise InvalidMetadataRequest(
                f"A listener of a broker can not be {str(listener)[:100]!r}."
            )


def _is_same(known: BrokerImage, command: RegisterBroker) -> bool:
    wanted = replace(
        known,
        host=command.host,
        port=command.port,
        rack=command.rack,
        ha_host=command.ha_host,
        ha_port=command.ha_port,
        identity=command.identity,
        incarnation=command.incarnation,
        directory_count=command.directory_count,
        listeners=command.listeners,
        machine=command.machine,
    )
    return wanted == known


def _led_by(context: CommandContext, broker_id: BrokerId) -> list[ReplicaSetImage]:
    sets = context.image.replica_sets
    return [one for _, one in sorted(sets.items()) if one.master == broker_id]


def forget_identity(context: CommandContext, command: ForgetIdentity) -> Result[None]:
    """Let a broker with another identity register under a fenced broker's id."""
    known = _broker(context, command.broker_id)
    if not known.is_fenced:
        raise InvalidMetadataRequest(
            f"Broker {command.broker_id} is alive: its identity is in use. Stop it first."
        )
    if not known.identity:
        return Result(None)
    nameless = registration(replace(known, identity="", incarnation=""))
    return Result(None, (nameless, BrokerFenced(broker_id=BrokerId(command.broker_id))))


def remove_broker(context: CommandContext, command: RemoveBroker) -> Result[None]:
    """Remove a broker that is not a member of any set; nobody gets its epoch again."""
    known = _broker(context, command.broker_id)
    sets = [
        set_id
        for set_id, one in sorted(context.image.replica_sets.items())
        if command.broker_id in one.replicas
    ]
    if sets:
        raise InvalidMetadataRequest(
            f"Broker {command.broker_id} is a member of the replica sets {sets}: remove it from"
            " them first (penstock set remove; add another member first where it is alone)."
        )
    records: list[MetadataRecord] = [BrokerRemoved(broker_id=BrokerId(command.broker_id))]
    can_keep = context.image.metadata_level >= BrokerEpochReached.LEVEL
    if can_keep and known.broker_epoch > _reached_epoch(context.image):
        records.append(BrokerEpochReached(key=REMOVED_BROKERS, broker_epoch=known.broker_epoch))
    return Result(None, tuple(records))


def drain_broker(context: CommandContext, command: DrainBroker) -> Result[None]:
    """Mark the broker as draining or not; the active controller moves its duties."""
    known = _broker(context, command.broker_id)
    if known.is_draining == command.is_draining:
        return Result(None)
    record = BrokerDrained(broker_id=BrokerId(command.broker_id), is_draining=command.is_draining)
    return Result(None, (record,))


def leave_sync_state_sets(
    context: CommandContext, command: LeaveSyncStateSets
) -> Result[tuple[ReplicaSetId, ...]]:
    """Remove a draining broker from the sync-state sets, so that no write waits for it."""
    known = _broker(context, command.broker_id)
    if not known.is_draining:
        raise InvalidMetadataRequest(f"Broker {command.broker_id} is not being drained.")
    records: list[MetadataRecord] = []
    stuck: list[ReplicaSetId] = []
    for set_id, replica_set in sorted(context.image.replica_sets.items()):
        if command.broker_id not in replica_set.sync_state_set:
            continue
        left = _left_without(replica_set, command.broker_id)
        too_few = len(replica_set.sync_state_set) - 1 < replica_set.policy.minimum
        if too_few or replica_set.master not in left:
            stuck.append(set_id)
            continue
        records.append(
            SyncStateSetChanged(
                replica_set_id=ReplicaSetId(set_id),
                sync_state_set=left,
                sync_state_set_epoch=SyncStateSetEpoch(replica_set.sync_state_set_epoch + 1),
            )
        )
    return Result(tuple(stuck), tuple(records))


def _left_without(replica_set: ReplicaSetImage, broker_id: BrokerId) -> tuple[BrokerId, ...]:
    """Return the set without the broker.

    Under the adaptive policy its copies may have been counted: only the master is known to hold
    every confirmed record then, and it adds the other members again.
    """
    if replica_set.policy.kind is PolicyKind.ADAPTIVE:
        return tuple(one for one in (replica_set.master,) if one not in {broker_id, NO_MASTER})
    return tuple(one for one in replica_set.sync_state_set if one != broker_id)


def _broker(context: CommandContext, broker_id: BrokerId) -> BrokerImage:
    known = context.image.brokers.get(broker_id)
    if known is None:
        raise UnknownBroker(broker_id)
    return known
