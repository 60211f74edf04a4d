"""What stands over a node's settings: its own configuration, and that of all brokers.

    DYNAMIC_BROKER           set for this broker                     the strongest
    DYNAMIC_DEFAULT_BROKER   set for all brokers
    STATIC_BROKER            the node's file, environment or flags
    DEFAULT                  what is built in

Source: KIP-226; Kafka `DynamicBrokerConfig` and `ConfigHelper` (synonyms). It changes nothing.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

from penstock.base.ids import BrokerId
from penstock.configs.entry import ConfigEntry, ConfigSource, ConfigSynonym
from penstock.configs.group_keys import GROUP_CONFIGS, METRICS_CONFIGS
from penstock.configs.resource_keys import ResourceKey
from penstock.controller.metadata.configuration import Configuration
from penstock.controller.metadata.kinds import ResourceType
from penstock.controller.resource_config.broker_keys import BROKER_CONFIGS, broker_key
from penstock.controller.topic_config.describe import broker_defaults
from penstock.controller.topic_config.table import TOPIC_CONFIGS, TopicSettings

ALL_BROKERS = ""
"""The name under which the configuration of all brokers stands."""

KEYS_OF: Mapping[int, Mapping[str, ResourceKey]] = {
    ResourceType.BROKER: BROKER_CONFIGS,
    ResourceType.GROUP: GROUP_CONFIGS,
    ResourceType.CLIENT_METRICS: METRICS_CONFIGS,
}
_SOURCE_OF = {
    ResourceType.GROUP: ConfigSource.GROUP,
    ResourceType.CLIENT_METRICS: ConfigSource.CLIENT_METRICS,
}
_NONE: Mapping[str, str] = {}


class BrokerLayers(NamedTuple):
    """The two dynamic layers of one broker, as replay keeps them: equal ones are the same object
    until something changes.
    """

    own: Mapping[str, str] = _NONE
    of_all: Mapping[str, str] = _NONE

    def is_same(self, other: "BrokerLayers") -> bool:
        """Whether nothing has changed between the two."""
        return self.own is other.own and self.of_all is other.of_all

    def overrides(self) -> Mapping[str, str]:
        """Return what is set, the broker's own before that of all."""
        return {**self.of_all, **self.own}

    def synonyms(self, key: str) -> tuple[ConfigSynonym, ...]:
        """Return where a key is set, the strongest first."""
        places = (
            (self.own, ConfigSource.DYNAMIC_BROKER),
            (self.of_all, ConfigSource.DYNAMIC_DEFAULT_BROKER),
        )
        return tuple(
            ConfigSynonym(key, layer[key], source) for layer, source in places if key in layer
        )


NO_LAYERS = BrokerLayers()


def layers_of(configuration: Configuration, broker_id: BrokerId | None) -> BrokerLayers:
    """Return the layers of a broker; of a process that is none, what is set for all."""
    resources = configuration.resources
    own = None if broker_id is None else resources.get((ResourceType.BROKER, str(broker_id)))
    return BrokerLayers(own or _NONE, resources.get((ResourceType.BROKER, ALL_BROKERS)) or _NONE)


def topic_defaults(layers: BrokerLayers, static: TopicSettings) -> tuple[ConfigEntry, ...]:
    """Return every topic key as topics have it that say nothing, with all that stands behind."""
    return tuple(_layered(entry, layers) for entry in broker_defaults(static))


def _layered(entry: ConfigEntry, layers: BrokerLayers) -> ConfigEntry:
    names = TOPIC_CONFIGS[entry.name].broker_names
    dynamic = layers.synonyms(names[0].name) if names else ()
    if not dynamic:
        return entry
    strongest = dynamic[0]
    synonyms = (*dynamic, *entry.synonyms)
    return replace(entry, value=strongest.value, source=strongest.source, synonyms=synonyms)


def cluster_entries(configuration: Configuration) -> list[ConfigEntry]:
    """Return what is set for all brokers, and nothing else, as Kafka answers it."""
    layers = layers_of(configuration, None)
    return [
        _entry(row, layers.synonyms(key)) for key in sorted(layers.of_all) if (row := _known(key))
    ]


def _known(key: str) -> ResourceKey | None:
    return broker_key(key)


def kept_entries(
    configuration: Configuration, resource_type: ResourceType, name: str
) -> list[ConfigEntry]:
    """Return all keys of a group or of client metrics; also of one that nobody has set."""
    kept = configuration.resources.get((resource_type, name), _NONE)
    source = _SOURCE_OF[resource_type]
    entries = []
    for key, row in KEYS_OF[resource_type].items():
        built_in = ConfigSynonym(key, row.default, ConfigSource.DEFAULT)
        own = (ConfigSynonym(key, kept[key], source),) if key in kept else ()
        entries.append(_entry(row, (*own, built_in)))
    return entries


def _entry(row: ResourceKey, synonyms: tuple[ConfigSynonym, ...]) -> ConfigEntry:
    strongest = synonyms[0]
    return ConfigEntry(
        name=row.key,
        value=strongest.value,
        source=strongest.source,
        config_type=row.config_type,
        documentation=row.documentation,
        synonyms=synonyms,
    )
