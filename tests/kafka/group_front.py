"""What stands around the group handlers in their tests: an image, a place for answers."""

from collections.abc import Callable
from typing import Any

from harness.ids import as_brokers
from penstock.base.ids import (
    BrokerId,
    LeaderEpoch,
    ReplicaSetId,
    SyncStateSetEpoch,
    TopicId,
)
from penstock.controller.errors import MetadataTimeout
from penstock.controller.metadata.image import (
    BrokerImage,
    ClusterImage,
    ReplicaSetImage,
    TopicImage,
)
from penstock.controller.metadata.partition_images import PartitionImages
from penstock.controller.topic_config.table import TopicSettings

TOPIC_ID = TopicId(bytes(range(16)))


class Scheduler:
    def call_soon(self, callback: Callable[[], None]) -> Any:
        raise AssertionError("the group handlers schedule nothing")

    def call_later(self, delay_ms: int, callback: Callable[[], None]) -> Any:
        raise AssertionError("the group handlers schedule nothing")


class Slot:
    """Collects what would leave on the connection."""

    def __init__(self) -> None:
        self.sent: list[bytes] = []

    def enqueue(self, place: object, count: int = 1) -> bool:
        return True

    def answered(
        self, place: object, buffers: tuple[bytes, ...], size: int, count: int = 1
    ) -> None:
        assert sum(map(len, buffers)) == size
        self.sent.append(b"".join(buffers))


def topic(name: str, topic_id: TopicId, partitions: int, *, internal: bool = False) -> TopicImage:
    return TopicImage(
        name=name,
        topic_id=topic_id,
        partitions=PartitionImages((ReplicaSetId(7),) * partitions),
        configs={},
        settings=TopicSettings(),
        internal=internal,
    )


def cluster() -> ClusterImage:
    image = ClusterImage()
    for each in (
        topic("t", TOPIC_ID, 2),
        topic("__consumer_offsets", TopicId(bytes(15) + b"\x01"), 4, internal=True),
    ):
        image.topics_by_name[each.name] = each
        image.topics_by_id[each.topic_id] = each
    image.brokers[BrokerId(1)] = BrokerImage(
        broker_id=BrokerId(1), host="here", port=9092, rack=None
    )
    image.replica_sets[ReplicaSetId(7)] = ReplicaSetImage(
        replica_set_id=ReplicaSetId(7),
        master=BrokerId(1),
        leader_epoch=LeaderEpoch(1),
        replicas=as_brokers(1),
        sync_state_set=as_brokers(1),
        sync_state_set_epoch=SyncStateSetEpoch(1),
    )
    return image


class NoController:
    """The port while no controller answers."""

    async def submit(self, command: object) -> Any:
        raise MetadataTimeout(10)
