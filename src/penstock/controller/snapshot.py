"""A snapshot: the shortest run of records that gives the same image.

Since it is records, there is one way to read state and not two, and a snapshot of a newer
release is refused by the same check as its log. Sorted by id or name: equal images give equal
bytes.

Source: KIP-630 (snapshots of the KRaft log are records as well).
"""

from penstock.controller import records as r
from penstock.controller.image import NO_EPOCH, ClusterImage, ReplicaSetImage, TopicImage


def snapshot_records(image: ClusterImage) -> list[r.MetadataRecord]:
    """Return records that turn an empty image into one equal to `image`."""
    found: list[r.MetadataRecord] = []
    if image.cluster_id:
        found.append(r.ClusterCreated(cluster_id=image.cluster_id))
    found += [
        r.BrokerRegistered(
            broker_id=broker.broker_id, host=broker.host, port=broker.port, rack=broker.rack
        )
        for _, broker in sorted(image.brokers.items())
    ]
    for _, replica_set in sorted(image.replica_sets.items()):
        found += _replica_set(replica_set)
    for _, topic in sorted(image.topics_by_name.items()):
        found += _topic(topic)
    if image.next_producer_id:
        found.append(
            r.ProducerIdBlockAllocated(
                broker_id=-1, first_producer_id=0, next_producer_id=image.next_producer_id
            )
        )
    return found


def _replica_set(replica_set: ReplicaSetImage) -> list[r.MetadataRecord]:
    set_id = replica_set.replica_set_id
    found: list[r.MetadataRecord] = [
        r.ReplicaSetCreated(replica_set_id=set_id, replicas=replica_set.replicas)
    ]
    if replica_set.leader_epoch != NO_EPOCH:
        found.append(
            r.MastershipBegun(
                replica_set_id=set_id,
                master=replica_set.master,
                leader_epoch=replica_set.leader_epoch,
            )
        )
    if replica_set.sync_state_set_epoch:
        found.append(
            r.SyncStateSetChanged(
                replica_set_id=set_id,
                sync_state_set=replica_set.sync_state_set,
                sync_state_set_epoch=replica_set.sync_state_set_epoch,
            )
        )
    return found


def _topic(topic: TopicImage) -> list[r.MetadataRecord]:
    found: list[r.MetadataRecord] = [
        r.TopicCreated(
            name=topic.name,
            topic_id=topic.topic_id,
            replica_set_ids=tuple(placed.replica_set_id for placed in topic.partitions),
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
