"""PlaceInternal: a partition of Penstock's own topic in the replica set that needs it.

The state of shares, and of the tier's copies, is in the replica set of the data that it is about,
so that both have one master and one log. A set gets its partition when the first share in it is
wanted, or the first copy; partitions are numbered in the order in which sets were, and stay where
they are.

Neither the load of sets nor the limits of partitions count here: there is one for each set, which
its shares, or its copies, need.

Source: our own (ADR 0096, 0121); Kafka's `__share_group_state` has a fixed number of partitions.
"""

from penstock.base.ids import PartitionId
from penstock.controller.commands.command import PlaceInternal
from penstock.controller.commands.context import CommandContext, Result
from penstock.controller.commands.create_topics import new_topic_id
from penstock.controller.commands.topic_names import SHARE_STATE_TOPIC, TIER_STATE_TOPIC
from penstock.controller.errors import InvalidMetadataRequest, TopicExists, UnknownReplicaSet
from penstock.controller.metadata.records import PartitionsAdded, TopicCreated

PLACED_TOPICS = frozenset({SHARE_STATE_TOPIC, TIER_STATE_TOPIC})
"""Those whose partitions follow the data. A hash decides which partition of the others is whose."""


def place_internal(context: CommandContext, command: PlaceInternal) -> Result[int]:
    """Return the partition of the topic in that set, and the records that make one if need be.

    Raises:
        InvalidMetadataRequest: the partitions of that topic do not follow the data.
        UnknownReplicaSet: there is no such set.
        TopicExists: clients have made a topic of that name, in a release that did not reserve it.
    """
    name, set_id = command.topic, command.replica_set_id
    if name not in PLACED_TOPICS:
        raise InvalidMetadataRequest(f"partitions of '{name}' are not placed one by one")
    if set_id not in context.image.replica_sets:
        raise UnknownReplicaSet(set_id)
    topic = context.image.topics_by_name.get(name)
    if topic is None:
        created = TopicCreated(
            name=name, topic_id=new_topic_id(context), replica_set_ids=(set_id,), internal=True
        )
        return Result(0, (created,))
    if not topic.internal:
        raise TopicExists(name)
    set_ids = topic.partitions.set_ids
    if set_id in set_ids:
        return Result(set_ids.index(set_id), ())
    count = len(set_ids)
    added = PartitionsAdded(
        topic_id=topic.topic_id, first_partition=PartitionId(count), replica_set_ids=(set_id,)
    )
    return Result(count, (added,))
