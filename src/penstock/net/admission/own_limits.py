"""Limits of single listeners and addresses, which settings write as texts.

    NAME.connections_max=500     NAME.connection_rate_max=20     a listener
    10.0.0.7:500   ::1:500   [::1]:500                           an address (10.0.0.7 is also that
                                                                 of a port of IPv6)

The last text about the same thing counts. Names of listeners are compared without regard to case.

Source: Kafka `max.connections`, `max.connection.creation.rate` with `listener.name.NAME.`, and
`max.connections.per.ip.overrides`, whose names of hosts are not looked up here.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from ipaddress import ip_address

from penstock.base.errors import ConfigError

COUNT_MAX = 2**31 - 1
_LISTENER = re.compile(
    r"(?P<name>[A-Za-z0-9_-]{1,64})\.(?P<key>connections_max|connection_rate_max)"
    r"=(?P<value>[0-9]{1,10})"
)
_COUNT = re.compile(r"[0-9]{1,10}")


@dataclass(frozen=True, slots=True, kw_only=True)
class ListenerLimits:
    """What one listener has of its own; the limits of the node hold beside it."""

    connections_max: int = COUNT_MAX
    """Open connections."""
    connection_rate_max: int = COUNT_MAX
    """New connections in one second."""


@lru_cache(maxsize=16)
def listener_limits(texts: tuple[str, ...]) -> Mapping[str, ListenerLimits]:
    """Return the limits by the names of listeners, in small letters. Raises ConfigError."""
    found: dict[str, ListenerLimits] = {}
    for text in texts:
        match = _LISTENER.fullmatch(text)
        if match is None or not 1 <= int(match["value"]) <= COUNT_MAX:
            raise ConfigError(
                f"net.listeners: {text!r} is no NAME.setting=value with connections_max or"
                " connection_rate_max, and a number from 1"
            )
        name = match["name"].lower()
        changes = {match["key"]: int(match["value"])}
        found[name] = replace(found.get(name, ListenerLimits()), **changes)
    return found


@lru_cache(maxsize=16)
def address_counts(texts: tuple[str, ...]) -> Mapping[str, int]:
    """Return the connections that addresses may have. Raises ConfigError."""
    return dict(address_count(text) for text in texts)


def address_count(text: str) -> tuple[str, int]:
    """Return address and count of one text. Raises ConfigError."""
    address, colon, count = text.strip().rpartition(":")
    try:
        parsed = ip_address(address.strip("[]"))
        canonical = str(getattr(parsed, "ipv4_mapped", None) or parsed)
    except ValueError:
        canonical = ""
    if not (colon and canonical and _COUNT.fullmatch(count) and int(count) <= COUNT_MAX):
        raise ConfigError(
            f"net.connections_per_address_overrides: {text[:100]!r} is no ADDRESS:COUNT with an IP"
            " address and a number from 0"
        )
    return canonical, int(count)


def with_listener_limit(texts: Iterable[str], name: str, key: str, value: int) -> tuple[str, ...]:
    """Return the texts with one more, which counts in place of an earlier one."""
    return (*texts, f"{name}.{key}={value}")
