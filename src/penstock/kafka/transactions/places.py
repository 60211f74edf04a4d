"""Which partitions may enter a transaction: those that the coordinator's own metadata has.

A coordinator takes a partition that its metadata lacks for a deleted one, which needs no marker.
So it admits none before it has heard of it: such a partition would stay open for ever. The same
holds for a topic that was deleted and made anew, which a lagging broker knows by the old id.

A coordinator that takes over has heard of whatever the one before has admitted: records of metadata
are in one order, and that one answered while its own metadata named it as the coordinator
(`JournalMasterships`), so before the record that named another.

Source: Kafka `KafkaApis.handleAddPartitionsToTxnRequest` (without ids).
"""

from penstock.controller.metadata.image import TopicImage
from penstock.coordinator.calls.asking import NO_TOPIC_ID


def may_enter(image: TopicImage | None, partition: int, topic_id: bytes = NO_TOPIC_ID) -> bool:
    """Whether the metadata here has a partition of the topic `image`, which is looked up by name.

    `topic_id` is what the asking side knows the topic by: NO_TOPIC_ID if only by name.
    """
    if image is None or not 0 <= partition < len(image.partitions):
        return False
    return topic_id in {NO_TOPIC_ID, bytes(image.topic_id)}
