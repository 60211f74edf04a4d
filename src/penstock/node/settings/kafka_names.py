"""A node's settings under Kafka's names, for tools that look for these in a broker's description.

Only what Penstock has: a name that is missing here has no setting behind it. The defaults of topics
stand under the broker names of their keys (controller/topic_config).

Source: Kafka `KafkaConfig`, `ServerTopicConfigSynonyms`.
"""

from penstock.controller.topic_config.entry import (
    ConfigEntry,
    ConfigSource,
    ConfigSynonym,
    ConfigType,
)
from penstock.controller.topic_config.table import TOPIC_CONFIGS, broker_defaults
from penstock.node.settings.entries import setting_text, settings_entries
from penstock.node.settings.settings import NodeSettings

_SAME = (
    ("broker.id", "node.broker_id", ConfigType.INT),
    ("node.id", "node.broker_id", ConfigType.INT),
    ("broker.rack", "node.rack", ConfigType.STRING),
    ("log.dirs", "node.data_directories", ConfigType.STRING),
    ("num.partitions", "controller.default_partitions", ConfigType.INT),
    ("default.replication.factor", "controller.default_replication_factor", ConfigType.INT),
    ("auto.create.topics.enable", "broker.auto_create_topics", ConfigType.BOOLEAN),
    ("offsets.topic.num.partitions", "groups.partition_count", ConfigType.INT),
    ("group.min.session.timeout.ms", "groups.session_timeout_min_ms", ConfigType.INT),
    ("group.max.session.timeout.ms", "groups.session_timeout_max_ms", ConfigType.INT),
)


def broker_entries(settings: NodeSettings) -> list[ConfigEntry]:
    """Return what a node answers about its configuration: its own names first, then Kafka's."""
    own = [
        _entry(name, value, ConfigType.STRING, documentation)
        for name, value, documentation in settings_entries(settings)
    ]
    return own + _named_by_kafka(settings) + _topic_defaults(settings)


def _named_by_kafka(settings: NodeSettings) -> list[ConfigEntry]:
    built_in = NodeSettings()
    entries = []
    for name, own_name, config_type in _SAME:
        section, field = own_name.split(".")
        value, default = (
            setting_text(getattr(getattr(each, section), field)) for each in (settings, built_in)
        )
        source = ConfigSource.DEFAULT if value == default else ConfigSource.STATIC_BROKER
        documentation = f"Kafka's name for {own_name}."
        entries.append(_entry(name, value, config_type, documentation, source))
    return entries


def _topic_defaults(settings: NodeSettings) -> list[ConfigEntry]:
    """The defaults of topics, each under all its broker names; null where a unit does not fit."""
    entries = []
    for topic_entry in broker_defaults(settings.topic):
        row = TOPIC_CONFIGS[topic_entry.name]
        if row.no_effect or row.fixed_default is not None or row.is_own:
            continue
        documentation = f"Default of topics for {row.key}. {row.documentation}"
        for name, unit in row.broker_names:
            text = _in_unit(str(topic_entry.value), unit)
            source = topic_entry.source
            entries.append(_entry(name, text, row.config_type, documentation, source))
    return entries


def _in_unit(value: str, unit: int) -> str | None:
    if unit == 1 or int(value) < 0:
        return value
    whole, rest = divmod(int(value), unit)
    return None if rest else str(whole)


def _entry(
    name: str,
    value: str | None,
    config_type: ConfigType,
    documentation: str,
    source: ConfigSource = ConfigSource.STATIC_BROKER,
) -> ConfigEntry:
    return ConfigEntry(
        name=name,
        value=value,
        source=source,
        config_type=config_type,
        documentation=documentation,
        is_read_only=True,
        synonyms=(ConfigSynonym(name, value, source),),
    )
