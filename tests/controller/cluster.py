"""A controller whose log is a list: `submit` is handle, then replay, as the driver does it."""

from collections.abc import Sequence
from typing import TypeVar

from harness.ids import as_brokers
from penstock.base.ids import BrokerId, ReplicaSetId, TopicId
from penstock.controller.commands.command import (
    BeginMastership,
    Command,
    CreateCluster,
    CreateReplicaSet,
    CreateTopics,
    NewTopic,
    RegisterBroker,
    TopicOutcome,
)
from penstock.controller.config import ControllerConfig
from penstock.controller.controller import Controller
from penstock.controller.metadata.image import ClusterImage
from penstock.controller.metadata.record_codec import decode_records, encode_records

R = TypeVar("R")


class Cluster:
    """Brokers 0, 1, ... and replica sets as given; the first member of each is its master."""

    def __init__(
        self,
        *,
        sets: Sequence[tuple[int, ...]] = ((0,), (0,)),
        config: ControllerConfig | None = None,
    ) -> None:
        self.log: list[bytes] = []
        self._ids = 0
        self.controller = Controller(
            config=config or ControllerConfig(), image=ClusterImage(), new_topic_id=self._new_id
        )
        self.submit(CreateCluster(cluster_id="the-cluster"))
        for broker_id in sorted({broker for members in sets for broker in members}):
            self.submit(RegisterBroker(broker_id=BrokerId(broker_id), host="localhost", port=9092))
        for set_id, members in enumerate(sets):
            self.submit(
                CreateReplicaSet(replica_set_id=ReplicaSetId(set_id), replicas=as_brokers(*members))
            )
            self.submit(
                BeginMastership(replica_set_id=ReplicaSetId(set_id), master=BrokerId(members[0]))
            )

    @property
    def image(self) -> ClusterImage:
        return self.controller.image

    def submit(self, command: Command[R]) -> R:
        result = self.controller.handle(command)
        if result.records:
            entry = encode_records(result.records, self.image.metadata_level)
            self.log.append(entry)
            self.controller.replay(decode_records(entry))
        return result.response

    def create(self, *topics: NewTopic | str) -> tuple[TopicOutcome, ...]:
        wanted = tuple(
            NewTopic(name=topic) if isinstance(topic, str) else topic for topic in topics
        )
        return self.submit(CreateTopics(topics=wanted))

    def _new_id(self) -> TopicId:
        self._ids += 1
        return TopicId(self._ids.to_bytes(16, "big"))  # the first one, 1, is reserved by Kafka
