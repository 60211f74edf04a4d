"""CreateTopics: checks in Kafka's order, then placement, then the records.

Source: Kafka ReplicationControlManager.createTopics (order of checks, error for each);
KIP-464 (defaults by -1). Names of Penstock's own topics are refused for clients.
"""

from collections import Counter
from collections.abc import Iterable, Mapping

from penstock.base.errors import as_answer
from penstock.base.ids import BrokerId, ReplicaSetId, TopicId
from penstock.base.invariant import invariant
from penstock.controller.commands.command import CreateTopics, NewTopic, TopicOutcome
from penstock.controller.commands.context import CommandContext, Result
from penstock.controller.commands.placement import Placement
from penstock.controller.commands.replica_sets import set_created
from penstock.controller.commands.topic_names import INTERNAL_TOPICS, check_topic_name, metric_name
from penstock.controller.errors import (
    InvalidConfig,
    InvalidMetadataRequest,
    InvalidPartitions,
    InvalidReplicaAssignment,
    InvalidReplicationFactor,
    InvalidTopicName,
    RefusedCommand,
    TopicExists,
)
from penstock.controller.metadata.image import ClusterImage
from penstock.controller.metadata.records import (
    ConfigChanged,
    MetadataRecord,
    ReplicaSetCreated,
    ResourceType,
    TopicCreated,
)
from penstock.controller.topic_config.local import check_local
from penstock.controller.topic_config.table import (
    UNCLEAN,
    check_override,
    resolve,
    take_facts,
)

TopicsResult = Result[tuple[TopicOutcome, ...]]

_RESERVED_IDS = frozenset({bytes(16), bytes(15) + b"\x01"})
"""Kafka's zero id and the id of its metadata topic. Source: Uuid.java."""
_ID_TRIES_MAX = 100


def create_topics(context: CommandContext, command: CreateTopics) -> TopicsResult:
    """Create each valid topic; one that is named twice in the request is not created."""
    placement = Placement(context.image, context.config)
    mentions = Counter(topic.name for topic in command.topics)
    new_names: dict[str, str] = {}
    outcomes: list[TopicOutcome] = []
    records: list[MetadataRecord] = []
    for topic in command.topics:
        if mentions[topic.name] == 0:
            continue
        try:
            if mentions[topic.name] > 1:
                mentions[topic.name] = 0  # one outcome for all of them
                raise InvalidMetadataRequest("Duplicate topic name.")
            check_new_name(context.image, topic.name, new_names, internal=command.internal)
            outcome, created = _create(context, placement, topic, internal=command.internal)
        except RefusedCommand as error:
            outcomes.append(TopicOutcome(name=topic.name, error=as_answer(error)))
            continue
        new_names[metric_name(topic.name)] = topic.name
        outcomes.append(outcome)
        records += created
    if command.validate_only:
        records = []
    return Result(tuple(outcomes), tuple(records))


def check_new_name(
    image: ClusterImage, name: str, new_names: Mapping[str, str], *, internal: bool
) -> None:
    """Raise InvalidTopicName or TopicExists unless a topic of that name can be made."""
    check_topic_name(name)
    if name in image.topics_by_name:
        raise TopicExists(name)
    if name in INTERNAL_TOPICS and not internal:
        raise InvalidTopicName(name, f"'{name}' is reserved for Penstock itself")
    other = image.colliding_name(name) or new_names.get(metric_name(name))
    if other is not None:
        raise InvalidTopicName(
            name, f"'{name}' collides with '{other}': '.' and '_' are the same in metric names"
        )


def _create(
    context: CommandContext, placement: Placement, topic: NewTopic, *, internal: bool
) -> tuple[TopicOutcome, list[MetadataRecord]]:
    configs = checked_configs(topic.configs, context.image.metadata_level)
    set_ids = _place(context, placement, topic)
    unclean = unclean_by_set(context.image, configs, set_ids)
    take_facts(configs, unclean, has_tier=context.config.tiered_topics)
    check_local({}, configs, resolve(configs, context.image.defaults))
    topic_id = new_topic_id(context)
    records: list[MetadataRecord] = [*sets_made(context, placement)]
    records.append(
        TopicCreated(name=topic.name, topic_id=topic_id, replica_set_ids=set_ids, internal=internal)
    )
    records += [
        ConfigChanged(
            resource_type=ResourceType.TOPIC, resource_name=topic.name, key=key, value=value
        )
        for key, value in sorted(configs.items())
    ]
    outcome = TopicOutcome(
        name=topic.name,
        topic_id=topic_id,
        partition_count=len(set_ids),
        replication_factor=len(placement.members(set_ids[0])),
        configs=configs,
    )
    return outcome, records


def sets_made(context: CommandContext, placement: Placement) -> list[ReplicaSetCreated]:
    """Return the records of the sets made for the topic that was placed last."""
    made = placement.take_made()
    return [set_created(context, set_id, members, None) for set_id, members in made.items()]


def unclean_by_set(
    image: ClusterImage, configs: Mapping[str, str], set_ids: Iterable[ReplicaSetId]
) -> dict[ReplicaSetId, bool]:
    """Return whether each set allows unclean elections; new sets do not.

    Empty if the overrides do not contain the key.
    """
    if UNCLEAN not in configs:
        return {}
    sets = image.replica_sets
    return {set_id: set_id in sets and sets[set_id].is_unclean_allowed for set_id in set_ids}


def checked_configs(configs: Mapping[str, str | None], level: int) -> dict[str, str]:
    """Return the overrides as they are stored. Raises InvalidConfig for the first invalid one."""
    checked: dict[str, str] = {}
    for key, value in configs.items():
        if value is None:
            raise InvalidConfig(key, "a null value is not supported for topic configurations")
        checked[key] = check_override(key, value, level=level)
    return checked


def _place(
    context: CommandContext, placement: Placement, topic: NewTopic
) -> tuple[ReplicaSetId, ...]:
    if topic.assignments:
        return placement.assign(_assignments(context, topic))
    count = topic.partition_count
    if count == -1:
        count = context.config.default_partitions
    check_partition_count(context, count)
    replication_factor = topic.replication_factor
    if replication_factor == -1:
        replication_factor = context.config.default_replication_factor
    if replication_factor < 1:
        raise InvalidReplicationFactor("The replication factor must be larger than 0.")
    return placement.spread(count, replication_factor)


def check_partition_count(context: CommandContext, count: int) -> None:
    """Raise InvalidPartitions unless a topic may have `count` partitions."""
    if count < 1:
        raise InvalidPartitions("The number of partitions must be larger than 0.")
    limit = context.config.partitions_per_topic_max
    if count > limit:
        raise InvalidPartitions(f"{count} partitions are more than the limit per topic, {limit}.")


def _assignments(context: CommandContext, topic: NewTopic) -> list[tuple[BrokerId, ...]]:
    if topic.partition_count != -1:
        raise InvalidMetadataRequest(
            "A manual assignment was given; the number of partitions must then be -1."
        )
    if topic.replication_factor != -1:
        raise InvalidMetadataRequest(
            "A manual assignment was given; the replication factor must then be -1."
        )
    check_partition_count(context, len(topic.assignments))
    if sorted(topic.assignments) != list(range(len(topic.assignments))):
        raise InvalidReplicaAssignment("Partitions must be numbered 0, 1, 2 and so on.")
    return [topic.assignments[partition] for partition in range(len(topic.assignments))]


def new_topic_id(context: CommandContext) -> TopicId:
    """Return an id that no topic has."""
    for _ in range(_ID_TRIES_MAX):
        topic_id = context.new_topic_id()
        assert len(topic_id) == 16
        if topic_id not in _RESERVED_IDS and topic_id not in context.image.topics_by_id:
            return topic_id
    invariant(False, "a free topic id is found", tries=_ID_TRIES_MAX)
    raise AssertionError
