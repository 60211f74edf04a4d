"""Configuration changes: incremental ones, and the older kind that replaces everything.

All changes of one resource happen or none. A change that alters nothing gives no record.

Source: KIP-339 (incremental) and KIP-133; Kafka ConfigurationControlManager and KafkaApis for the
checks and their errors. Topics are here; brokers, groups and client metrics in `alter_resources`.
"""

from collections import Counter
from collections.abc import Mapping

from penstock.base.errors import as_answer
from penstock.configs.entry import ConfigType
from penstock.controller.commands.alter_resources import alter_resource
from penstock.controller.commands.command import AlterConfigs, ConfigOutcome, ResourceEdits
from penstock.controller.commands.config_edits import KeyRules, edited
from penstock.controller.commands.context import CommandContext, Result
from penstock.controller.commands.create_topics import unclean_by_set
from penstock.controller.errors import (
    InvalidMetadataRequest,
    RefusedCommand,
    UnknownTopic,
)
from penstock.controller.metadata.image import ClusterImage, TopicImage
from penstock.controller.metadata.kinds import KEPT_RESOURCES
from penstock.controller.metadata.levels import GIVE_UPS_LEVEL
from penstock.controller.metadata.records import ConfigChanged, MetadataRecord, ResourceType
from penstock.controller.metadata.tier_records import CopiesGivenUp
from penstock.controller.topic_config.local import REMOTE, check_local
from penstock.controller.topic_config.table import (
    check_override,
    find_key,
    resolve,
    take_facts,
)


def alter_configs(
    context: CommandContext, command: AlterConfigs
) -> Result[tuple[ConfigOutcome, ...]]:
    """Change what can be changed, resource by resource."""
    mentions = Counter((one.resource_type, one.resource_name) for one in command.resources)
    outcomes: list[ConfigOutcome] = []
    records: list[MetadataRecord] = []
    resources = {(one.resource_type, one.resource_name): one for one in command.resources}
    for identity, resource in resources.items():
        error: RefusedCommand | None = None
        try:
            if mentions[identity] > 1:
                raise InvalidMetadataRequest("Each resource must appear at most once.")
            records += _alter(context, resource, replace=command.replace)
        except RefusedCommand as refused:
            error = as_answer(refused)
        outcomes.append(
            ConfigOutcome(
                resource_type=resource.resource_type,
                resource_name=resource.resource_name,
                error=error,
            )
        )
    if command.validate_only:
        records = []
    return Result(tuple(outcomes), tuple(records))


def _alter(
    context: CommandContext, resource: ResourceEdits, *, replace: bool
) -> list[MetadataRecord]:
    image = context.image
    if resource.resource_type in KEPT_RESOURCES:
        return alter_resource(image, resource, replace=replace)
    topic = _find_topic(image, resource)
    wanted = edited(topic.configs, resource.edits, _rules(image), replace=replace)
    unclean = unclean_by_set(image, wanted, topic.partitions.set_ids)
    take_facts(wanted, unclean, has_tier=context.config.tiered_topics)
    check_local(topic.configs, wanted, resolve(wanted, image.defaults))
    return [*_changes(topic, wanted), *_give_up(image, topic, wanted)]


def _find_topic(image: ClusterImage, resource: ResourceEdits) -> TopicImage:
    if resource.resource_type != ResourceType.TOPIC:
        raise InvalidMetadataRequest(
            f"Resources of type {resource.resource_type} have no configuration here."
        )
    topic = image.topics_by_name.get(resource.resource_name)
    if topic is None:
        raise UnknownTopic(resource.resource_name)
    if topic.internal:
        raise InvalidMetadataRequest(f"'{topic.name}' is Penstock's own and can not be changed.")
    return topic


def _rules(image: ClusterImage) -> KeyRules:
    def list_value(key: str) -> str | None:
        row = find_key(key)
        return row.value_in(image.defaults) if row.config_type == ConfigType.LIST else None

    level = image.metadata_level
    return KeyRules(
        _delete_any, lambda key, value: check_override(key, value, level=level), list_value
    )


def _delete_any(key: str) -> None:
    """Let an override be deleted that there is not, whatever its key.

    MirrorMaker 2 deletes in one change whatever has its default in the other cluster, keys of a
    newer Kafka too: refused for one of them, no configuration would be mirrored.
    """


def _changes(topic: TopicImage, wanted: Mapping[str, str]) -> list[MetadataRecord]:
    return [
        ConfigChanged(
            resource_type=ResourceType.TOPIC,
            resource_name=topic.name,
            key=key,
            value=wanted.get(key),
        )
        for key in sorted({*topic.configs, *wanted})
        if topic.configs.get(key) != wanted.get(key)
    ]


def _give_up(
    image: ClusterImage, topic: TopicImage, wanted: Mapping[str, str]
) -> list[MetadataRecord]:
    """Return the record after which no copy of a topic counts that was made before."""
    is_switched_off = topic.configs.get(REMOTE) == "true" != wanted.get(REMOTE)
    if not is_switched_off or image.metadata_level < GIVE_UPS_LEVEL:
        return []
    count = image.configuration.give_ups.get(topic.topic_id, 0) + 1
    return [CopiesGivenUp(topic_id=topic.topic_id, count=count)]
