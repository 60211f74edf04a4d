"""Keys of one listener of a broker: `listener.name.NAME.KEY`, with the name in small letters.

    listener.name.external.max.connections               net.listeners  EXTERNAL.connections_max
    listener.name.external.max.connection.creation.rate  net.listeners  EXTERNAL.connection_rate_max

Whether a broker has such a listener it knows itself: it leaves out the others and says so.

Source: Kafka `ListenerName.configPrefix`, `DynamicListenerConfig.ReconfigurableConfigs` and
`ClusterLevelListenerConfigs` (both are taken for one broker and for all).
"""

import re
from collections.abc import Iterable
from functools import lru_cache
from typing import NamedTuple

from penstock.configs.entry import ConfigType
from penstock.configs.keys import INT32_MAX, number
from penstock.configs.resource_keys import ResourceKey

PREFIX = "listener.name."
SETTING = "net.listeners"
"""The setting that all of them change a part of."""
LISTENER_KEYS_MAX = 64
"""Of one resource: their names are free, and stand in the metadata of every process."""

_KEY = re.compile(
    r"listener\.name\.(?P<listener>[a-z0-9_-]{1,64})\.(?P<key>max\.connections"
    r"|max\.connection\.creation\.rate)"
)
_FIELDS = {
    "max.connections": "connections_max",
    "max.connection.creation.rate": "connection_rate_max",
}
_NAMES = {field: key for key, field in _FIELDS.items()}
_ABOUT = {
    "connections_max": "Open connections of this listener.",
    "connection_rate_max": "New connections of this listener in one second; others are accepted"
    " later.",
}


class ListenerPart(NamedTuple):
    """What a key changes: a field of the limits of a listener, whose name has small letters."""

    listener: str
    field: str

    @property
    def key(self) -> str:
        """The key's name."""
        return f"{PREFIX}{self.listener}.{_NAMES[self.field]}"


def listener_part(key: str) -> ListenerPart | None:
    """Return what a key changes; None for one that is no listener's."""
    match = _KEY.fullmatch(key)
    return None if match is None else ListenerPart(match["listener"], _FIELDS[match["key"]])


@lru_cache(maxsize=4 * LISTENER_KEYS_MAX)
def listener_key(key: str) -> ResourceKey | None:
    """Return the row of a listener's key; None for any other."""
    part = listener_part(key)
    if part is None:
        return None
    return ResourceKey(
        key=key,
        config_type=ConfigType.INT,
        parse=number(1, INT32_MAX),
        documentation=_ABOUT[part.field],
        setting=SETTING,
    )


def count_of_listener_keys(keys: Iterable[str]) -> int:
    """Return how many of these keys are of listeners."""
    return sum(key.startswith(PREFIX) for key in keys)
