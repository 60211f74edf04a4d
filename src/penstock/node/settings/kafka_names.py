"""What a node answers about its settings: under its own names, and under Kafka's.

A name of Kafka's stands here where Penstock has the same setting, or where Kafka's tools may set it
and it does nothing (controller/resource_config/broker_keys.py). The defaults of topics stand under
the broker names of their keys (controller/topic_config). Over all lie the dynamic layers.

Source: Kafka `KafkaConfig`, `ServerTopicConfigSynonyms`; KIP-226 (sources and synonyms).
"""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from penstock.configs.entry import (
    ConfigEntry,
    ConfigSource,
    ConfigSynonym,
    ConfigType,
)
from penstock.configs.resource_keys import ResourceKey
from penstock.controller.resource_config.broker_keys import BROKER_CONFIGS, KEY_OF_SETTING
from penstock.controller.resource_config.layers import NO_LAYERS, BrokerLayers
from penstock.controller.topic_config.table import TOPIC_CONFIGS
from penstock.node.settings.address_entries import ADDRESS_NAMES, address_entries
from penstock.node.settings.entries import setting_text, settings_entries
from penstock.node.settings.listener_entries import listener_entries
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
    ("group.initial.rebalance.delay.ms", "groups.initial_rebalance_delay_ms", ConfigType.INT),
    ("group.max.size", "groups.group_size_max", ConfigType.INT),
    ("group.consumer.migration.policy", "groups.migration_policy", ConfigType.STRING),
    ("group.share.max.size", "groups.share_group_size_max", ConfigType.INT),
    ("group.share.session.timeout.ms", "groups.share_session_timeout_ms", ConfigType.INT),
    ("group.share.heartbeat.interval.ms", "groups.share_heartbeat_interval_ms", ConfigType.INT),
    ("super.users", "access.super_users", ConfigType.LIST),
    (
        "allow.everyone.if.no.acl.found",
        "access.allow_everyone_if_no_acl_found",
        ConfigType.BOOLEAN,
    ),
    (
        "delegation.token.max.lifetime.ms",
        "controller.delegation_token_max_lifetime_ms",
        ConfigType.LONG,
    ),
    (
        "delegation.token.expiry.time.ms",
        "controller.delegation_token_expiry_time_ms",
        ConfigType.LONG,
    ),
    (
        "delegation.token.expiry.check.interval.ms",
        "controller.delegation_token_expiry_check_interval_ms",
        ConfigType.LONG,
    ),
    ("offset.metadata.max.bytes", "groups.offset_metadata_bytes_max", ConfigType.INT),
)
_OWN_MEANING = (
    "max.connections",
    "max.connections.per.ip",
    "max.connections.per.ip.overrides",
    "max.connection.creation.rate",
    "producer.id.expiration.ms",
    "leader.replication.throttled.rate",
)
_SECRET_WORDS = ("secret", "password")


class _Name(NamedTuple):
    """A name with the setting behind it; its unit is `unit` of the setting's."""

    name: str
    setting: str
    config_type: ConfigType
    documentation: str
    unit: int = 1


def broker_entries(settings: NodeSettings, layers: BrokerLayers = NO_LAYERS) -> list[ConfigEntry]:
    """Return what a node answers about its configuration: its own names first, then Kafka's.

    `settings` are those that it was started with.
    """
    built_in = NodeSettings()
    named = [_entry(name, settings, built_in, layers) for name in _names(settings)]
    idle = [_idle_entry(row, layers) for row in BROKER_CONFIGS.values() if not row.setting]
    addresses = address_entries(settings.node)
    return named + addresses + idle + listener_entries(settings.net.listeners, layers)


def read_only_names(settings: NodeSettings) -> Mapping[str, str]:
    """Return the names that nothing can be set under, each with the key that changes the same."""
    of_settings = {
        name.name: KEY_OF_SETTING.get(name.setting, "")
        for name in _names(settings)
        if name.name not in BROKER_CONFIGS
    }
    return of_settings | dict.fromkeys(ADDRESS_NAMES, "")


def is_sensitive(setting: str) -> bool:
    """Whether a setting's value is for nobody's eyes; names of files are no secrets."""
    return not setting.endswith("_file") and any(word in setting for word in _SECRET_WORDS)


def _names(settings: NodeSettings) -> Iterator[_Name]:
    for name, _, documentation in settings_entries(settings):
        yield _Name(name, name, _type_of(_value(settings, name)), documentation)
    for name, setting, config_type in _SAME:
        yield _Name(name, setting, config_type, f"Kafka's name for {setting}.")
    for row in TOPIC_CONFIGS.values():
        if row.no_effect or row.fixed_default is not None or row.is_own:
            continue
        documentation = f"Default of topics for {row.key}. {row.documentation}"
        for name, unit in row.broker_names:
            yield _Name(name, f"topic.{row.field}", row.config_type, documentation, unit)
    for key in _OWN_MEANING:
        known = BROKER_CONFIGS[key]
        yield _Name(key, known.setting, known.config_type, known.documentation)


def _entry(
    one: _Name, settings: NodeSettings, built_in: NodeSettings, layers: BrokerLayers
) -> ConfigEntry:
    key = KEY_OF_SETTING.get(one.setting)
    static, default = (
        _in_unit(setting_text(_value(each, one.setting)), one.unit) for each in (settings, built_in)
    )
    dynamic = () if key is None else layers.synonyms(key)
    synonyms = list(dynamic)
    if _value(settings, one.setting) != _value(built_in, one.setting):
        synonyms.append(ConfigSynonym(one.name, static, ConfigSource.STATIC_BROKER))
    synonyms.append(ConfigSynonym(one.name, default, ConfigSource.DEFAULT))
    value = synonyms[0].value
    if dynamic and value is not None:
        value = _in_unit(value, one.unit)
    hidden = is_sensitive(one.setting)
    return ConfigEntry(
        name=one.name,
        value=value,
        source=synonyms[0].source,
        config_type=one.config_type,
        documentation=one.documentation,
        is_read_only=one.name != key,
        is_sensitive=hidden,
        synonyms=() if hidden else tuple(synonyms),
    )


def _idle_entry(row: ResourceKey, layers: BrokerLayers) -> ConfigEntry:
    """A key of Kafka's that no setting stands behind."""
    default = ConfigSynonym(row.key, row.default, ConfigSource.DEFAULT)
    synonyms = (*layers.synonyms(row.key), default)
    return ConfigEntry(
        name=row.key,
        value=synonyms[0].value,
        source=synonyms[0].source,
        config_type=row.config_type,
        documentation=row.documentation,
        synonyms=synonyms,
    )


def _value(settings: NodeSettings, setting: str) -> object:
    section, field = setting.split(".")
    return getattr(getattr(settings, section), field)


def _type_of(value: object) -> ConfigType:
    if isinstance(value, bool):
        return ConfigType.BOOLEAN
    if isinstance(value, int):
        return ConfigType.LONG
    if isinstance(value, float):
        return ConfigType.DOUBLE
    return ConfigType.LIST if isinstance(value, tuple) else ConfigType.STRING


def _in_unit(value: str, unit: int) -> str | None:
    if unit == 1 or int(value) < 0:
        return value
    whole, rest = divmod(int(value), unit)
    return None if rest else str(whole)
