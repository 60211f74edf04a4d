"""Limits of single listeners as Kafka's tools see them; only those that are set, as in Kafka.

Source: Kafka `DynamicBrokerConfig` (names with the prefix of a listener), KIP-226 (synonyms).
"""

from collections.abc import Sequence

from penstock.configs.entry import ConfigEntry, ConfigSource, ConfigSynonym
from penstock.controller.resource_config.layers import BrokerLayers
from penstock.controller.resource_config.listener_keys import ListenerPart, listener_key


def listener_entries(texts: Sequence[str], layers: BrokerLayers) -> list[ConfigEntry]:
    """Return the entries of what `net.listeners` and the dynamic layers have."""
    static = dict(_entry_of(text) for text in texts)
    dynamic = [key for key in layers.overrides() if listener_key(key) is not None]
    return [_entry(key, static, layers) for key in sorted({*static, *dynamic})]


def _entry_of(text: str) -> tuple[str, str]:
    """Return key and value of a text `NAME.setting=value`, which has been checked."""
    name, _, rest = text.partition(".")
    field, _, value = rest.partition("=")
    return ListenerPart(name.lower(), field).key, value


def _entry(key: str, static: dict[str, str], layers: BrokerLayers) -> ConfigEntry:
    row = listener_key(key)
    assert row is not None, key
    synonyms = list(layers.synonyms(key))
    if key in static:
        synonyms.append(ConfigSynonym(key, static[key], ConfigSource.STATIC_BROKER))
    return ConfigEntry(
        name=key,
        value=synonyms[0].value,
        source=synonyms[0].source,
        config_type=row.config_type,
        documentation=row.documentation,
        synonyms=tuple(synonyms),
    )
