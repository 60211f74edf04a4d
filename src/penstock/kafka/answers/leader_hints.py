"""The current leader, returned with an error so that no metadata request is needed (KIP-951).

    error in the answer            current leader        endpoints of the answer
    NOT_LEADER_OR_FOLLOWER         id and leader epoch   address of that broker
    FENCED_LEADER_EPOCH (fetch)    the same              the same

Without a live master there is no hint: a client that follows one to nowhere loses time. Clients
take a hint only where its epoch is newer than what they know, so an old one does no harm.

Source: KIP-951; Kafka `KafkaApis.getCurrentLeader`.
"""

from collections.abc import Mapping

from penstock.broker.partitions import HostedTopic
from penstock.controller.metadata.image import ClusterImage
from penstock.kafka.answers.topic_view import leader_for_clients
from penstock.protocol.error_codes import ErrorCode
from penstock.protocol.primitives import LeaderEndpoint

HINTED = frozenset({ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH})


class LeaderHints:
    """The hints of one answer; `endpoints` has each leader once."""

    __slots__ = ("_image", "_listener", "_topics", "endpoints")

    def __init__(
        self, image: ClusterImage, topics: Mapping[bytes, HostedTopic], listener: str
    ) -> None:
        """`topics` is the registry's table by the key that the request uses: name or id.

        `listener` is the one that the client uses.
        """
        self._image = image
        self._listener = listener
        self._topics = topics
        self.endpoints: list[LeaderEndpoint] = []

    def of(self, topic_key: bytes, partition: int) -> tuple[int, int] | None:
        """Return (broker id, leader epoch) of a partition's live master, None if there is none.

        The broker is added to `endpoints`.
        """
        topic = self._topics.get(topic_key)
        if topic is None or not 0 <= partition < len(topic.placed):
            return None
        replica_set = self._image.replica_sets.get(topic.placed[partition])
        if replica_set is None:
            return None
        leader = leader_for_clients(self._image, replica_set.master, self._listener)
        if leader is None:
            return None
        endpoint = LeaderEndpoint(*leader)
        if endpoint not in self.endpoints:
            self.endpoints.append(endpoint)
        return replica_set.master, replica_set.leader_epoch
