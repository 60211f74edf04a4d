"""Configuration changes: incremental ones, and the older kind that replaces everything.

All changes of one resource happen or none. A change that alters nothing gives no record.

Source: KIP-339 (incremental) and KIP-133; Kafka ConfigurationControlManager and KafkaApis for the
checks and their errors. Only topics have dynamic configuration in this release; what a node does
stands in its settings.
"""

from collections import Counter
from collections.abc import Mapping

from penstock.base.errors import as_answer
from penstock.controller.commands.command import (
    AlterConfigs,
    ConfigEdit,
    ConfigOperation,
    ConfigOutcome,
    ResourceEdits,
)
from penstock.controller.commands.context import CommandContext, Result
from penstock.controller.commands.create_topics import unclean_by_set
from penstock.controller.errors import (
    InvalidConfig,
    InvalidMetadataRequest,
    RefusedCommand,
    UnknownTopic,
)
from penstock.controller.metadata.image import ClusterImage, TopicImage
from penstock.controller.metadata.records import ConfigChanged, MetadataRecord, ResourceType
from penstock.controller.topic_config.entry import ConfigType
from penstock.controller.topic_config.keys import split_list
from penstock.controller.topic_config.table import check_override, find_key, take_facts


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
            records += _alter(context.image, resource, replace=command.replace)
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


def _alter(image: ClusterImage, resource: ResourceEdits, *, replace: bool) -> list[MetadataRecord]:
    topic = _find_topic(image, resource)
    keys = Counter(edit.key for edit in resource.edits)
    repeated = [key for key, count in keys.items() if count > 1]
    if repeated:
        raise InvalidMetadataRequest(f"The key {repeated[0]} is changed twice in one request.")
    wanted = {} if replace else dict(topic.configs)
    for edit in resource.edits:
        _edit(image, topic, wanted, edit)
    set_ids = [one.replica_set_id for one in topic.partitions]
    take_facts(wanted, unclean_by_set(image, wanted, set_ids))
    return _changes(topic, wanted)


def _find_topic(image: ClusterImage, resource: ResourceEdits) -> TopicImage:
    if resource.resource_type == ResourceType.BROKER:
        raise InvalidMetadataRequest(
            "A node's configuration can not be changed while it runs: change its settings file"
            " and restart it."
        )
    if resource.resource_type != ResourceType.TOPIC:
        raise InvalidMetadataRequest(
            f"Resources of type {resource.resource_type} have no configuration here; only topics"
            f" ({int(ResourceType.TOPIC)}) have."
        )
    topic = image.topics_by_name.get(resource.resource_name)
    if topic is None:
        raise UnknownTopic(resource.resource_name)
    if topic.internal:
        raise InvalidMetadataRequest(f"'{topic.name}' is Penstock's own and can not be changed.")
    return topic


def _edit(image: ClusterImage, topic: TopicImage, wanted: dict[str, str], edit: ConfigEdit) -> None:
    if edit.operation == ConfigOperation.DELETE:
        if edit.key not in wanted:
            find_key(edit.key)
        wanted.pop(edit.key, None)
        return
    if edit.value is None:
        raise InvalidMetadataRequest(f"A null value is not supported for {edit.key}.")
    if edit.operation == ConfigOperation.SET:
        wanted[edit.key] = check_override(edit.key, edit.value, level=image.metadata_level)
    elif edit.operation in {ConfigOperation.APPEND, ConfigOperation.SUBTRACT}:
        wanted[edit.key] = _edit_list(image, topic.configs, edit, edit.value)
    else:
        raise InvalidMetadataRequest(f"Unknown configuration operation {edit.operation}.")


def _edit_list(
    image: ClusterImage, configs: Mapping[str, str], edit: ConfigEdit, value: str
) -> str:
    row = find_key(edit.key)
    if row.config_type != ConfigType.LIST:
        raise InvalidConfig(edit.key, "is no list; only SET and DELETE can change it")
    items = split_list(configs.get(edit.key, row.value_in(image.defaults)))
    given = split_list(value)
    if edit.operation == ConfigOperation.APPEND:
        there = frozenset(items)
        items += dict.fromkeys(item for item in given if item not in there)
    else:
        away = frozenset(given)
        items = [item for item in items if item not in away]
    return check_override(edit.key, ",".join(items), level=image.metadata_level)


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
