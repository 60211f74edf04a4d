"""The cluster image as the coordinator of groups sees it: a Cluster (groups/cluster.py).

Source: Kafka, MetadataImage in GroupMetadataManager; racks of replicas as in KIP-881.
"""

from collections.abc import Callable, Iterable, Mapping

from penstock.assignors.topic_facts import TopicFacts
from penstock.base.ids import ReplicaSetId
from penstock.controller.metadata.image import ClusterDelta, ClusterImage, TopicImage
from penstock.controller.metadata.kinds import ResourceType
from penstock.groups.share.masters import NoShareMasters, ShareMasters

NO_SHARE_MASTERS = NoShareMasters()
_NO_KEYS: Mapping[str, str] = {}


class GroupCluster:
    """Topics, racks and keys of groups, from the image that this node follows."""

    def __init__(
        self,
        image: ClusterImage,
        retention_now_ms: Callable[[], int],
        share_masters: ShareMasters = NO_SHARE_MASTERS,
    ) -> None:
        self._image = image
        self.retention_now_ms = retention_now_ms
        self.share_masters = share_masters
        self.version = 0
        """Counts the changes of topics, partitions, members of sets, brokers, and who may see what.
        """
        self._racks: dict[ReplicaSetId, frozenset[str]] = {}
        image.subscribe(self._on_delta)

    def find(self, name: str) -> TopicFacts | None:
        """As in Cluster."""
        topic = self._image.topics_by_name.get(name)
        if topic is None:
            return None
        return TopicFacts(topic.topic_id, len(topic.partitions), self._racks_of(topic))

    def names(self) -> Iterable[str]:
        """As in Cluster."""
        return self._image.topics_by_name.keys()

    def names_of_users(self) -> Iterable[str]:
        """As in Cluster."""
        return (topic.name for topic in self._image.topics_by_name.values() if not topic.internal)

    def group_keys(self, group_id: str) -> Mapping[str, str]:
        """As in Cluster."""
        resources = self._image.configuration.resources
        return resources.get((ResourceType.GROUP, group_id), _NO_KEYS)

    def _racks_of(self, topic: TopicImage) -> tuple[frozenset[str], ...]:
        if not any(broker.rack for broker in self._image.brokers.values()):
            return ()
        return tuple(self._racks_of_set(set_id) for set_id in topic.partitions.set_ids)

    def _racks_of_set(self, set_id: ReplicaSetId) -> frozenset[str]:
        known = self._racks.get(set_id)
        if known is None:
            brokers = self._image.brokers
            members = self._image.replica_sets[set_id].replicas
            racks = (brokers[one].rack for one in members if one in brokers)
            known = self._racks[set_id] = frozenset(rack for rack in racks if rack)
        return known

    def _on_delta(self, delta: ClusterDelta) -> None:
        places = delta.changed_replica_sets or delta.changed_brokers or delta.removed_brokers
        if places:
            self._racks.clear()
        is_seen_anew = bool(delta.added_acls or delta.removed_acls)
        if (
            places
            or is_seen_anew
            or delta.created_topics
            or delta.deleted_topics
            or delta.added_partitions
        ):
            self.version += 1
