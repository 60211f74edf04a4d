"""DeleteTopics and CreatePartitions.

Source: Kafka ReplicationControlManager.deleteTopics and createPartitions; KIP-516 (delete by id);
KIP-195 (CreatePartitions). Penstock's own topics can be neither deleted nor extended by clients:
the partition count of the offsets topic decides where each group lives.
"""

from collections import Counter

from penstock.base.errors import as_answer
from penstock.base.ids import PartitionId, ReplicaSetId
from penstock.controller.commands.command import (
    CreatePartitions,
    DeletedTopic,
    DeleteTopics,
    MorePartitions,
    TopicOutcome,
    TopicReference,
)
from penstock.controller.commands.context import CommandContext, Result
from penstock.controller.commands.create_topics import (
    TopicsResult,
    check_partition_count,
    sets_made,
)
from penstock.controller.commands.placement import Placement
from penstock.controller.errors import (
    InvalidMetadataRequest,
    InvalidPartitions,
    InvalidReplicaAssignment,
    RefusedCommand,
    UnknownTopic,
    UnknownTopicId,
)
from penstock.controller.metadata.image import ClusterImage, TopicImage
from penstock.controller.metadata.records import MetadataRecord, PartitionsAdded, TopicDeleted


def delete_topics(
    context: CommandContext, command: DeleteTopics
) -> Result[tuple[DeletedTopic, ...]]:
    """Delete each valid topic; one that is named twice in the request is not deleted."""
    outcomes: list[DeletedTopic] = []
    found: list[TopicImage] = []
    for reference in command.topics:
        try:
            found.append(_find(context.image, reference))
        except RefusedCommand as error:
            outcomes.append(
                DeletedTopic(
                    name=reference.name, topic_id=reference.topic_id, error=as_answer(error)
                )
            )
    mentions = Counter(topic.topic_id for topic in found)
    records: list[MetadataRecord] = []
    for topic in {topic.topic_id: topic for topic in found}.values():
        refusal = _refusal(topic, mentions[topic.topic_id])
        outcomes.append(DeletedTopic(name=topic.name, topic_id=topic.topic_id, error=refusal))
        if refusal is None:
            records.append(TopicDeleted(topic_id=topic.topic_id))
    return Result(tuple(outcomes), tuple(records))


def _find(image: ClusterImage, reference: TopicReference) -> TopicImage:
    if reference.name is not None and reference.topic_id is not None:
        raise InvalidMetadataRequest("Name a topic by its name or by its id, not by both.")
    if reference.name is not None:
        by_name = image.topics_by_name.get(reference.name)
        if by_name is None:
            raise UnknownTopic(reference.name)
        return by_name
    if reference.topic_id is None:
        raise InvalidMetadataRequest("Neither topic name nor topic id were given.")
    by_id = image.topics_by_id.get(reference.topic_id)
    if by_id is None:
        raise UnknownTopicId(reference.topic_id)
    return by_id


def _refusal(topic: TopicImage, mentions: int) -> RefusedCommand | None:
    if mentions > 1:
        return InvalidMetadataRequest("Duplicate topic name or id.")
    if topic.internal:
        return InvalidMetadataRequest(f"'{topic.name}' is Penstock's own and can not be deleted.")
    return None


def create_partitions(context: CommandContext, command: CreatePartitions) -> TopicsResult:
    """Add partitions after the existing ones."""
    placement = Placement(context.image, context.config)
    mentions = Counter(topic.name for topic in command.topics)
    outcomes: list[TopicOutcome] = []
    records: list[MetadataRecord] = []
    for topic in {topic.name: topic for topic in command.topics}.values():
        try:
            if mentions[topic.name] > 1:
                raise InvalidMetadataRequest("Duplicate topic name.")
            added = _add_partitions(context, placement, topic)
        except RefusedCommand as error:
            outcomes.append(TopicOutcome(name=topic.name, error=as_answer(error)))
            continue
        outcomes.append(
            TopicOutcome(
                name=topic.name, topic_id=added.topic_id, partition_count=topic.partition_count
            )
        )
        records += [*sets_made(context, placement), added]
    if command.validate_only:
        records = []
    return Result(tuple(outcomes), tuple(records))


def _add_partitions(
    context: CommandContext, placement: Placement, wanted: MorePartitions
) -> PartitionsAdded:
    topic = context.image.topics_by_name.get(wanted.name)
    if topic is None:
        raise UnknownTopic(wanted.name)
    if topic.internal:
        raise InvalidMetadataRequest(f"'{topic.name}' is Penstock's own and can not be extended.")
    count = len(topic.partitions)
    if wanted.partition_count == count:
        raise InvalidPartitions(f"Topic already has {count} partition(s).")
    if wanted.partition_count < count:
        raise InvalidPartitions(
            f"The topic has {count} partition(s); {wanted.partition_count} would be fewer, and"
            " partitions can not be taken away."
        )
    check_partition_count(context, wanted.partition_count)
    added = wanted.partition_count - count
    return PartitionsAdded(
        topic_id=topic.topic_id,
        first_partition=PartitionId(count),
        replica_set_ids=_place(context, placement, topic, wanted, added),
    )


def _place(
    context: CommandContext,
    placement: Placement,
    topic: TopicImage,
    wanted: MorePartitions,
    added: int,
) -> tuple[ReplicaSetId, ...]:
    members = context.image.replica_sets[topic.partitions.set_ids[0]].replicas
    if wanted.assignments is None:
        return placement.spread(added, len(members))
    if len(wanted.assignments) != added:
        raise InvalidReplicaAssignment(
            f"{added} partition(s) would be added, but {len(wanted.assignments)} assignment(s)"
            " were given."
        )
    if any(len(brokers) != len(members) for brokers in wanted.assignments):
        raise InvalidReplicaAssignment(
            f"The topic has replication factor {len(members)}; so must its new partitions."
        )
    return placement.assign(wanted.assignments)
