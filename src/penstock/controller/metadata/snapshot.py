"""A snapshot: the shortest sequence of records that gives the same image.

As a snapshot consists of records, state is read in one way only, and a snapshot of a newer release
is refused by the same check as its log. It is sorted by id or name: equal images give equal bytes.

Source: KIP-630 (snapshots of the KRaft log are records as well).
"""

from collections.abc import Iterator
from itertools import chain
from typing import TypedDict

from penstock.base.ack_policy import AckPolicy
from penstock.base.ids import (
    BrokerEpoch,
    BrokerId,
    LeaderEpoch,
    ProducerId,
    ReplicaId,
    ReplicaSetId,
    SyncStateSetEpoch,
)
from penstock.controller.metadata import records as r
from penstock.controller.metadata.image import (
    NO_EPOCH,
    NO_FLOOR,
    BrokerImage,
    ClusterImage,
    ReplicaSetImage,
    TopicImage,
)
from penstock.controller.metadata.snapshot_config import configuration_records, feature_records


def snapshot_records(image: ClusterImage) -> list[r.MetadataRecord]:
    """Return records that turn an empty image into one equal to `image`."""
    return list(each_snapshot_record(image))


def each_snapshot_record(image: ClusterImage) -> Iterator[r.MetadataRecord]:
    """Return the same one by one. They are those of the image as it is now, whenever they are made.

    Topics and sets are values that a change replaces: to hold them is enough.
    """
    sets = sorted(image.replica_sets.items())
    topics = sorted(image.topics_by_name.items())
    return chain(
        _first_records(image),
        chain.from_iterable(_replica_set(one) for _, one in sets),
        chain.from_iterable(_topic(one) for _, one in topics),
        _last_records(image),
    )


def _first_records(image: ClusterImage) -> list[r.MetadataRecord]:
    found = feature_records(image)
    if image.cluster_id:
        found.append(r.ClusterCreated(cluster_id=image.cluster_id))
    if image.default_policy != AckPolicy():
        found.append(r.DefaultPolicyChanged(**policy_fields(image.default_policy)))
    if not image.is_failover_enabled:
        found.append(r.FailoverChanged(is_enabled=False))
    for _, broker in sorted(image.brokers.items()):
        found += _broker(broker)
    return found


def _last_records(image: ClusterImage) -> list[r.MetadataRecord]:
    found: list[r.MetadataRecord] = []
    if image.next_producer_id:
        found.append(
            r.ProducerIdBlockAllocated(
                broker_id=BrokerId(-1),
                first_producer_id=ProducerId(0),
                next_producer_id=image.next_producer_id,
            )
        )
    return found + configuration_records(image)


def _broker(broker: BrokerImage) -> list[r.MetadataRecord]:
    registered = registration(broker)
    if broker.is_fenced:
        return [registered, r.BrokerFenced(broker_id=BrokerId(broker.broker_id))]
    return [registered]


def registration(broker: BrokerImage) -> r.BrokerRegistered:
    """Return the record that registers `broker` with its current values, not fenced."""
    return r.BrokerRegistered(
        broker_id=BrokerId(broker.broker_id),
        host=broker.host,
        port=broker.port,
        rack=broker.rack,
        ha_host=broker.ha_host,
        ha_port=broker.ha_port,
        identity=broker.identity,
        incarnation=broker.incarnation,
        broker_epoch=BrokerEpoch(broker.broker_epoch),
        directory_count=broker.directory_count,
        is_draining=broker.is_draining,
        listeners=broker.listeners,
        machine=broker.machine,
    )


class PolicyFields(TypedDict):
    """The fields of a policy in records."""

    policy_kind: str
    policy_required: int
    policy_minimum: int


def policy_fields(policy: AckPolicy) -> PolicyFields:
    """Return the fields of a record that carries `policy`."""
    return {
        "policy_kind": policy.kind.value,
        "policy_required": policy.required,
        "policy_minimum": policy.minimum,
    }


def _replica_set(replica_set: ReplicaSetImage) -> list[r.MetadataRecord]:
    set_id = ReplicaSetId(replica_set.replica_set_id)
    found: list[r.MetadataRecord] = [
        r.ReplicaSetCreated(
            replica_set_id=set_id,
            replicas=replica_set.replicas,
            next_replica_id=ReplicaId(replica_set.next_replica_id),
            **policy_fields(replica_set.policy),
        )
    ]
    found += [
        r.ReplicaRegistered(
            replica_set_id=set_id,
            broker_id=BrokerId(broker_id),
            replica_id=ReplicaId(replica_id),
            log_id=replica_set.log_ids[broker_id],
        )
        for broker_id, replica_id in sorted(replica_set.replica_ids.items())
    ]
    # A sync-state set is empty only while the set has no master: the mastership comes first.
    if replica_set.leader_epoch != NO_EPOCH:
        found.append(_mastership(replica_set))
    if replica_set.sync_state_set_epoch:
        found.append(
            r.SyncStateSetChanged(
                replica_set_id=set_id,
                sync_state_set=replica_set.sync_state_set,
                sync_state_set_epoch=SyncStateSetEpoch(replica_set.sync_state_set_epoch),
            )
        )
    if replica_set.copies_floor != NO_FLOOR:
        found.append(
            r.CopiesFloorChanged(replica_set_id=set_id, copies_floor=replica_set.copies_floor)
        )
    if replica_set.is_unclean_allowed:
        found.append(r.UncleanElectionChanged(replica_set_id=set_id, is_allowed=True))
    return found


def _mastership(replica_set: ReplicaSetImage) -> r.MastershipBegun:
    return r.MastershipBegun(
        replica_set_id=ReplicaSetId(replica_set.replica_set_id),
        master=BrokerId(replica_set.master),
        leader_epoch=LeaderEpoch(replica_set.leader_epoch),
        cause=replica_set.last_cause,
        at_ms=replica_set.last_change_ms,
        last_master=BrokerId(replica_set.last_master),
        detail=replica_set.last_detail,
        unclean_epoch=LeaderEpoch(replica_set.unclean_epoch),
    )


def _topic(topic: TopicImage) -> list[r.MetadataRecord]:
    found: list[r.MetadataRecord] = [
        r.TopicCreated(
            name=topic.name,
            topic_id=topic.topic_id,
            replica_set_ids=topic.partitions.set_ids,
            internal=topic.internal,
        )
    ]
    found += [
        r.ConfigChanged(
            resource_type=r.ResourceType.TOPIC, resource_name=topic.name, key=key, value=value
        )
        for key, value in sorted(topic.configs.items())
    ]
    return found
