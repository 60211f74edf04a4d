"""Topic configurations that are refused though a user may know them, each with what to read.

Accepting them and doing nothing would let somebody rely on what does not happen. What is neither
here nor in the table is an unknown key. Source: Kafka `TopicConfig`: keys that 4.0 took away.
"""

from collections.abc import Mapping
from types import MappingProxyType

_GONE = "Kafka 4.0 took this key away as well; leave it out"

REFUSED_KEYS: Mapping[str, str] = MappingProxyType(
    {
        "message.format.version": _GONE,
        "message.downconversion.enable": _GONE,
        "message.timestamp.difference.max.ms": _GONE,
    }
)
