"""What clients are told of a topic's configuration: each key, its value, and where that is from.

    overrides of the topic ─► defaults of the brokers, set at run time ─► of their files ─► built in

Source: Kafka 4.2.0 `ConfigHelper`, `LogConfig` (synonyms and sources of each key).
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache

from penstock.configs.entry import ConfigEntry, ConfigSource, ConfigSynonym
from penstock.configs.keys import TopicConfigKey
from penstock.controller.topic_config.table import TOPIC_CONFIGS, UNCLEAN, TopicSettings


def describe(
    overrides: Mapping[str, str],
    unset: Sequence[ConfigEntry],
    *,
    is_unclean_allowed: bool = False,
) -> list[ConfigEntry]:
    """Return every key with its effective value, its source and what stands behind it.

    `unset` has every key as a topic has it that says nothing. `is_unclean_allowed`: whether a
    replica set of the topic allows unclean elections.
    """
    entries = [
        entry if (text := overrides.get(entry.name)) is None else _overridden(entry, text)
        for entry in unset
    ]
    if is_unclean_allowed:
        at = next(at for at, entry in enumerate(entries) if entry.name == UNCLEAN)
        entries[at] = _set_at_run_time(entries[at])
    return entries


@lru_cache(maxsize=4)
def broker_defaults(defaults: TopicSettings) -> tuple[ConfigEntry, ...]:
    """Return every key as topics have it that say nothing."""
    built_in = TopicSettings()
    return tuple(_default_entry(row, defaults, built_in) for row in TOPIC_CONFIGS.values())


def _default_entry(
    row: TopicConfigKey, defaults: TopicSettings, built_in: TopicSettings
) -> ConfigEntry:
    node_value, built_in_value = row.value_in(defaults), row.value_in(built_in)
    synonyms: list[ConfigSynonym] = []
    if node_value != built_in_value:
        name = row.broker_names[0].name
        synonyms.append(ConfigSynonym(name, node_value, ConfigSource.STATIC_BROKER))
    if row.broker_names:
        name, unit = row.broker_names[-1]
        text = built_in_value if unit == 1 else str(int(built_in_value) // unit)
        synonyms.append(ConfigSynonym(name, text, ConfigSource.DEFAULT))
    return ConfigEntry(
        name=row.key,
        value=node_value,
        source=synonyms[0].source if synonyms else ConfigSource.DEFAULT,
        config_type=row.config_type,
        documentation=row.documentation,
        synonyms=tuple(synonyms),
    )


def _overridden(entry: ConfigEntry, text: str) -> ConfigEntry:
    own = ConfigSynonym(entry.name, text, ConfigSource.DYNAMIC_TOPIC)
    return replace(entry, value=text, source=own.source, synonyms=(own, *entry.synonyms))


def _set_at_run_time(entry: ConfigEntry) -> ConfigEntry:
    """Nobody set it for this topic, and somebody did at run time: for all topics of a set."""
    own = ConfigSynonym(UNCLEAN, "true", ConfigSource.DYNAMIC_DEFAULT_BROKER)
    return replace(entry, value="true", source=own.source, synonyms=(own, *entry.synonyms))
