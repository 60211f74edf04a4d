"""One configuration entry as tools show it: value, where it comes from, what it means.

Source: KIP-133 and KIP-226 (sources and synonyms), KIP-569 (type and documentation); the numbers
are those of DescribeConfigs v1-4. It knows no particular key.
"""

from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple


class ConfigType(IntEnum):
    """Kafka's value types, as DescribeConfigs v3 numbers them."""

    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7
    CLASS = 8
    PASSWORD = 9


class ConfigSource(IntEnum):
    """Who set the value; of the first five the smaller number wins."""

    DYNAMIC_TOPIC = 1
    DYNAMIC_BROKER = 2
    DYNAMIC_DEFAULT_BROKER = 3
    STATIC_BROKER = 4
    DEFAULT = 5
    CLIENT_METRICS = 7
    GROUP = 8


class ConfigSynonym(NamedTuple):
    """A place the value could come from, the strongest first."""

    name: str
    value: str | None
    source: ConfigSource


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigEntry:
    """A key with its effective value; `value` is None where `is_sensitive` hides it."""

    name: str
    value: str | None
    source: ConfigSource
    config_type: ConfigType
    documentation: str
    is_read_only: bool = False
    is_sensitive: bool = False
    synonyms: tuple[ConfigSynonym, ...] = ()
