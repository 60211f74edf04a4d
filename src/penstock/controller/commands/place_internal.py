"""PlaceInternal: a partition of Penstock's own topic in the replica set that needs it.

The state of shares, and of the tier's copies, is in the replica set of the data that it is about,
so that both have one master and one log. So are messages that wait for their time, or to be
decided. A set gets its partition when the first of them is wanted; partitions are numbered in the
order in which sets were, and stay where they are.

Neither the load of sets nor the limits of partitions count here: there is one for each set, which
its shares, or its copies, need.

Retry topics and dead letters of RocketMQ's groups, and discarded messages, are placed in the same
way, and else they are topics as others are: clients may read, write, change and delete them, and
limits count, since there are as many as groups.

Source: our own (ADR 0096, 0121, 0127); Kafka's `__share_group_state` has a fixed number of
partitions.
"""

from collections.abc import Iterator

from penstock.base.ids import PartitionId, ReplicaSetId
from penstock.controller.commands.command import PlaceInternal
from penstock.controller.commands.context import CommandContext, Result
from penstock.controller.commands.create_topics import (
    check_new_name,
    check_partition_count,
    new_topic_id,
)
from penstock.controller.commands.placement import Placement
from penstock.controller.commands.topic_names import (
    DEAD_LETTER_PREFIX,
    DELAY_TOPICS,
    DISCARDED_TOPIC,
    HALF_TOPIC,
    PLACED_CONFIGS,
    RECALL_TOPIC,
    RETRY_PREFIX,
    SHARE_STATE_TOPIC,
    TIER_STATE_TOPIC,
)
from penstock.controller.errors import InvalidMetadataRequest, TopicExists, UnknownReplicaSet
from penstock.controller.metadata.records import (
    ConfigChanged,
    PartitionsAdded,
    ResourceType,
    TopicCreated,
)

PLACED_TOPICS = frozenset(
    {SHARE_STATE_TOPIC, TIER_STATE_TOPIC, HALF_TOPIC, RECALL_TOPIC, *DELAY_TOPICS}
)
"""Those whose partitions follow the data. A hash decides which partition of the others is whose."""


def place_internal(context: CommandContext, command: PlaceInternal) -> Result[int]:
    """Return the partition of the topic in that set, and the records that make one if need be.

    Raises:
        InvalidMetadataRequest: the partitions of that topic do not follow the data.
        UnknownReplicaSet: there is no such set.
        TopicExists: clients have made a topic of that name, in a release that did not reserve it.
        InvalidTopicName, InvalidPartitions, MetadataPolicyViolation: of a retry topic, or of dead
            letters.
    """
    name, set_id = command.topic, command.replica_set_id
    is_clients = name.startswith((RETRY_PREFIX, DEAD_LETTER_PREFIX)) or name == DISCARDED_TOPIC
    is_internal = not is_clients
    if is_internal and name not in PLACED_TOPICS:
        raise InvalidMetadataRequest(f"partitions of '{name}' are not placed one by one")
    if set_id not in context.image.replica_sets:
        raise UnknownReplicaSet(set_id)
    topic = context.image.topics_by_name.get(name)
    if topic is not None and is_internal and not topic.internal:
        raise TopicExists(name)
    set_ids = () if topic is None else topic.partitions.set_ids
    if set_id in set_ids:
        return Result(set_ids.index(set_id), ())
    if not is_internal:
        _check_client_topic(context, name, set_id, len(set_ids) + 1)
    if topic is None:
        created = TopicCreated(
            name=name,
            topic_id=new_topic_id(context),
            replica_set_ids=(set_id,),
            internal=is_internal,
        )
        return Result(0, (created, *_configs(name)))
    added = PartitionsAdded(
        topic_id=topic.topic_id,
        first_partition=PartitionId(len(set_ids)),
        replica_set_ids=(set_id,),
    )
    return Result(len(set_ids), (added,))


def _configs(name: str) -> Iterator[ConfigChanged]:
    """Yield what is set for a new topic."""
    if name in {SHARE_STATE_TOPIC, TIER_STATE_TOPIC}:
        return
    for key, value in PLACED_CONFIGS.items():
        yield ConfigChanged(
            resource_type=ResourceType.TOPIC, resource_name=name, key=key, value=value
        )


def _check_client_topic(
    context: CommandContext, name: str, set_id: ReplicaSetId, count: int
) -> None:
    """Check what any topic is checked for, before it gets its `count`th partition."""
    if name not in context.image.topics_by_name:
        check_new_name(context.image, name, {}, internal=False)
    check_partition_count(context, count)
    Placement(context.image, context.config).put(set_id)
