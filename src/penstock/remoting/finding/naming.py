"""By which names a message is found: its id and its keys, as `mapping.py` shows them.

    UNIQ_KEY   header rmq.id. A derived id (ids.py) says itself where its message is
    KEYS       header rmq.keys, each word of it; of a Kafka producer its key, if it is printable,
               whole and each word of it

Source: RocketMQ 5.3.3 `IndexService.buildIndex`. Departure: a message is found by its first 128
keys; there it may be as many as fit into its properties.
"""

from collections.abc import Mapping
from typing import Final

from penstock.broker.finding.gathering import Naming
from penstock.remoting.system_names import BORN_HOST_HEADER, HEADER_OF, KEYS, UNIQ_KEY

KEYS_MAX: Final = 128
_SEPARATOR: Final = b" "
_HEADERS: Final = tuple(
    name.encode() for name in (HEADER_OF[UNIQ_KEY], HEADER_OF[KEYS], BORN_HOST_HEADER)
)


def _names(key: bytes | None, values: tuple[bytes | None, ...]) -> list[bytes]:
    """Return the names of a message. One too many is found to be none when it is read."""
    unique, keys, host = values
    named = [] if unique is None else [unique]
    if keys is None and host is None and key and (keys := _printable(key)):
        named.append(keys)
    if keys:
        named += [one for one in keys.split(_SEPARATOR, KEYS_MAX)[:KEYS_MAX] if one]
    return list(dict.fromkeys(named))


def _printable(key: bytes) -> bytes | None:
    try:
        return key if key.decode().isprintable() else None
    except UnicodeDecodeError:
        return None


NAMING: Final = Naming(_HEADERS, _names)


def has_name(properties: Mapping[str, str], name: str, *, is_id: bool) -> bool:
    """Whether a message has this id; else, whether it has this key, or this id."""
    if properties.get(UNIQ_KEY) == name:
        return True
    keys = properties.get(KEYS, "")
    return not is_id and (keys == name or name in keys.split(_SEPARATOR.decode()))
