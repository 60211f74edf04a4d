"""Where a node listens for clients and what it advertises, under Kafka's names for them.

Both are made of several settings, so they stand beside the table of `kafka_names.py`. They are
read-only: listeners are bound at start.

Source: Kafka `SocketServerConfigs` (`listeners`, `advertised.listeners`).
"""

from penstock.base.endpoints import FIRST_LISTENER, NamedEndpoint
from penstock.configs.entry import ConfigEntry, ConfigSource, ConfigSynonym, ConfigType
from penstock.node.settings.config import NodeConfig

BOUND, ADVERTISED = "listeners", "advertised.listeners"
ADDRESS_NAMES = (BOUND, ADVERTISED)
_MEANING = {
    BOUND: "Where the node listens: node.host and node.port, then node.listeners.",
    ADVERTISED: "What clients are told: node.advertised_host and node.advertised_port, then"
    " node.advertised_listeners.",
}


def address_entries(node: NodeConfig) -> list[ConfigEntry]:
    """Return an entry for each name; static where the addresses are not the built-in ones."""
    built_in = _values(NodeConfig())
    return [_entry(name, value, built_in[name]) for name, value in _values(node).items()]


def _values(node: NodeConfig) -> dict[str, str]:
    first = NamedEndpoint(FIRST_LISTENER, node.host, node.port)
    told = NamedEndpoint(FIRST_LISTENER, *node.advertised())
    return {
        BOUND: ",".join(map(str, (first, *node.named_listeners()))),
        ADVERTISED: ",".join(map(str, (told, *node.told_listeners()))),
    }


def _entry(name: str, value: str, default: str) -> ConfigEntry:
    synonyms = [ConfigSynonym(name, default, ConfigSource.DEFAULT)]
    if value != default:
        synonyms.insert(0, ConfigSynonym(name, value, ConfigSource.STATIC_BROKER))
    return ConfigEntry(
        name=name,
        value=value,
        source=synonyms[0].source,
        config_type=ConfigType.STRING,
        documentation=_MEANING[name],
        is_read_only=True,
        synonyms=tuple(synonyms),
    )
