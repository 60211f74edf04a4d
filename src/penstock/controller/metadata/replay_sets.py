"""Replay of brokers, replica sets, masterships and sync-state sets.

Source: RIP-44 (masters and sync-state sets), KIP-631 (brokers). `replay` includes REPLAY_SETS in
its table.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any, TypeVar

from penstock.base.ack_policy import AckPolicy, PolicyKind
from penstock.base.errors import ConfigError
from penstock.base.ids import BrokerId, ReplicaId, ReplicaSetId, SyncStateSetEpoch
from penstock.base.invariant import invariant
from penstock.controller.errors import UnsupportedMetadata
from penstock.controller.metadata import records as r
from penstock.controller.metadata.image import (
    NO_EPOCH,
    NO_FLOOR,
    NO_MASTER,
    BrokerImage,
    ClusterImage,
    ReplicaSetImage,
)
from penstock.controller.metadata.touched import Touched

V = TypeVar("V")


def read_policy(kind: str, required: int, minimum: int) -> AckPolicy:
    """Return a record's policy. Raises UnsupportedMetadata for a policy of a newer release."""
    try:
        return AckPolicy(kind=PolicyKind(kind), required=required, minimum=minimum)
    except (ValueError, ConfigError) as error:
        raise UnsupportedMetadata(f"acknowledgement policy {kind!r}: {error}") from error


def _broker_registered(image: ClusterImage, record: r.BrokerRegistered, touched: Touched) -> None:
    before = image.brokers.get(record.broker_id)
    invariant(
        before is None or record.broker_epoch >= before.broker_epoch,
        "a broker epoch never falls",
        broker_id=record.broker_id,
        after=record.broker_epoch,
    )
    image.brokers[record.broker_id] = BrokerImage(
        broker_id=record.broker_id,
        host=record.host,
        port=record.port,
        rack=record.rack,
        machine=record.machine,
        ha_host=record.ha_host,
        ha_port=record.ha_port,
        identity=record.identity,
        incarnation=record.incarnation,
        broker_epoch=record.broker_epoch,
        directory_count=record.directory_count,
        is_draining=record.is_draining,
        listeners=record.listeners,
    )
    touched.brokers[record.broker_id] = None


def _broker_fenced(image: ClusterImage, record: r.BrokerFenced, touched: Touched) -> None:
    _put_broker(image, replace(_broker(image, record.broker_id), is_fenced=True), touched)


def _broker_drained(image: ClusterImage, record: r.BrokerDrained, touched: Touched) -> None:
    before = _broker(image, record.broker_id)
    _put_broker(image, replace(before, is_draining=record.is_draining), touched)


def _broker_removed(image: ClusterImage, record: r.BrokerRemoved, touched: Touched) -> None:
    broker_id = record.broker_id
    before = _broker(image, broker_id)
    is_member = any(
        broker_id in replica_set.replicas for replica_set in image.replica_sets.values()
    )
    invariant(not is_member, "a member of a set is not removed", broker_id=broker_id)
    touched.removed[broker_id] = before
    del image.brokers[broker_id]


def _replica_set_created(
    image: ClusterImage, record: r.ReplicaSetCreated, touched: Touched
) -> None:
    set_id = record.replica_set_id
    invariant(set_id not in image.replica_sets, "a replica set is created once", set_id=set_id)
    image.replica_sets[set_id] = ReplicaSetImage(
        replica_set_id=set_id,
        master=NO_MASTER,
        leader_epoch=NO_EPOCH,
        replicas=record.replicas,
        sync_state_set=tuple(sorted(record.replicas)),
        sync_state_set_epoch=SyncStateSetEpoch(0),
        policy=read_policy(record.policy_kind, record.policy_required, record.policy_minimum),
        next_replica_id=record.next_replica_id,
    )
    image.partition_counts[set_id] = 0
    touched.replica_sets[set_id] = None


def _replica_registered(image: ClusterImage, record: r.ReplicaRegistered, touched: Touched) -> None:
    before = _replica_set(image, record.replica_set_id)
    broker_id, replica_id = record.broker_id, record.replica_id
    invariant(broker_id in before.replicas, "a replica is a member's", broker_id=broker_id)
    is_new = all(replica_id != known for known in before.replica_ids.values())
    invariant(is_new, "a replica id is given out once", replica_id=replica_id)
    changed = replace(
        before,
        replica_ids=MappingProxyType({**before.replica_ids, broker_id: replica_id}),
        log_ids=MappingProxyType({**before.log_ids, broker_id: record.log_id}),
        next_replica_id=max(before.next_replica_id, ReplicaId(replica_id + 1)),
    )
    _put_set(image, changed, touched)


def _replicas_changed(image: ClusterImage, record: r.ReplicasChanged, touched: Touched) -> None:
    before = _replica_set(image, record.replica_set_id)
    members = record.replicas
    invariant(bool(members), "a set has a member", set_id=before.replica_set_id)
    invariant(len(set(members)) == len(members), "a member is there once", members=members)
    is_there = before.master == NO_MASTER or before.master in members
    invariant(is_there, "a master stays a member", master=before.master)
    # The record that removes a member from the sync-state set comes before this one.
    is_whole = all(member in members for member in before.sync_state_set)
    invariant(is_whole, "a sync-state set holds members", members=before.sync_state_set)
    changed = replace(
        before,
        replicas=members,
        replica_ids=_only(before.replica_ids, members),
        log_ids=_only(before.log_ids, members),
    )
    _put_set(image, changed, touched)


def _only(known: Mapping[BrokerId, V], members: tuple[BrokerId, ...]) -> Mapping[BrokerId, V]:
    return MappingProxyType({one: value for one, value in known.items() if one in members})


def _ack_policy_changed(image: ClusterImage, record: r.AckPolicyChanged, touched: Touched) -> None:
    before = _replica_set(image, record.replica_set_id)
    policy = read_policy(record.policy_kind, record.policy_required, record.policy_minimum)
    _put_set(image, replace(before, policy=policy), touched)


def _copies_floor_changed(
    image: ClusterImage, record: r.CopiesFloorChanged, touched: Touched
) -> None:
    before = _replica_set(image, record.replica_set_id)
    is_one = record.copies_floor == NO_FLOOR or 0 <= record.copies_floor <= len(before.replicas)
    invariant(is_one, "a floor counts members", floor=record.copies_floor)
    _put_set(image, replace(before, copies_floor=record.copies_floor), touched)


def _unclean_election_changed(
    image: ClusterImage, record: r.UncleanElectionChanged, touched: Touched
) -> None:
    before = _replica_set(image, record.replica_set_id)
    _put_set(image, replace(before, is_unclean_allowed=record.is_allowed), touched)


def _default_policy_changed(
    image: ClusterImage, record: r.DefaultPolicyChanged, _: Touched
) -> None:
    image.default_policy = read_policy(
        record.policy_kind, record.policy_required, record.policy_minimum
    )


def _failover_changed(image: ClusterImage, record: r.FailoverChanged, _: Touched) -> None:
    image.is_failover_enabled = record.is_enabled


def _mastership_begun(image: ClusterImage, record: r.MastershipBegun, touched: Touched) -> None:
    before = _replica_set(image, record.replica_set_id)
    invariant(
        record.leader_epoch > before.leader_epoch,
        "every mastership has a larger leader epoch",
        before=before.leader_epoch,
        after=record.leader_epoch,
    )
    is_one = record.master == NO_MASTER or record.master in before.replicas
    invariant(is_one, "a master is a member", master=record.master)
    invariant(
        record.unclean_epoch <= record.leader_epoch,
        "an unclean mastership is one that has begun",
        unclean=record.unclean_epoch,
    )
    is_anybody = record.master != NO_MASTER
    changed = replace(
        before,
        master=record.master,
        leader_epoch=record.leader_epoch,
        last_cause=record.cause,
        last_detail=record.detail,
        # Records of older releases do not contain the epoch of an earlier unclean mastership.
        unclean_epoch=max(before.unclean_epoch, record.unclean_epoch),
        last_change_ms=record.at_ms,
        last_master=record.master if is_anybody else record.last_master,
    )
    _put_set(image, changed, touched)


def _sync_state_set_changed(
    image: ClusterImage, record: r.SyncStateSetChanged, touched: Touched
) -> None:
    before = _replica_set(image, record.replica_set_id)
    invariant(
        record.sync_state_set_epoch > before.sync_state_set_epoch,
        "every sync-state set has a larger epoch",
        before=before.sync_state_set_epoch,
        after=record.sync_state_set_epoch,
    )
    invariant(
        bool(record.sync_state_set) or before.master == NO_MASTER,
        "the sync-state set of a master is never empty",
    )
    invariant(
        all(member in before.replicas for member in record.sync_state_set),
        "a sync-state set holds members",
        members=record.sync_state_set,
    )
    changed = replace(
        before,
        sync_state_set=record.sync_state_set,
        sync_state_set_epoch=record.sync_state_set_epoch,
    )
    _put_set(image, changed, touched)


def _broker(image: ClusterImage, broker_id: BrokerId) -> BrokerImage:
    invariant(broker_id in image.brokers, "the broker is there", broker_id=broker_id)
    return image.brokers[broker_id]


def _put_broker(image: ClusterImage, broker: BrokerImage, touched: Touched) -> None:
    image.brokers[broker.broker_id] = broker
    touched.brokers[broker.broker_id] = None


def _replica_set(image: ClusterImage, set_id: ReplicaSetId) -> ReplicaSetImage:
    invariant(set_id in image.replica_sets, "the replica set is there", set_id=set_id)
    return image.replica_sets[set_id]


def _put_set(image: ClusterImage, replica_set: ReplicaSetImage, touched: Touched) -> None:
    image.replica_sets[replica_set.replica_set_id] = replica_set
    touched.replica_sets[replica_set.replica_set_id] = None


def check_sets(image: ClusterImage, touched: Touched) -> None:
    """Check what must hold for every changed set after the whole entry, not between records."""
    for set_id in touched.replica_sets:
        replica_set = image.replica_sets[set_id]
        invariant(
            replica_set.master == NO_MASTER or replica_set.master in replica_set.sync_state_set,
            "a master is in its sync-state set",
            set_id=set_id,
            master=replica_set.master,
            sync_state_set=replica_set.sync_state_set,
        )


REPLAY_SETS: Mapping[type[Any], Callable[[ClusterImage, Any, Touched], None]] = {
    r.BrokerRegistered: _broker_registered,
    r.BrokerFenced: _broker_fenced,
    r.BrokerDrained: _broker_drained,
    r.BrokerRemoved: _broker_removed,
    r.ReplicaSetCreated: _replica_set_created,
    r.ReplicaRegistered: _replica_registered,
    r.ReplicasChanged: _replicas_changed,
    r.AckPolicyChanged: _ack_policy_changed,
    r.CopiesFloorChanged: _copies_floor_changed,
    r.UncleanElectionChanged: _unclean_election_changed,
    r.DefaultPolicyChanged: _default_policy_changed,
    r.FailoverChanged: _failover_changed,
    r.MastershipBegun: _mastership_begun,
    r.SyncStateSetChanged: _sync_state_set_changed,
}
