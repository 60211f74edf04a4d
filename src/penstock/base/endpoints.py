"""Listeners by name: an address where a broker listens for clients, or one that it advertises.

    INTERNAL://10.0.0.1:9093        IPv6 addresses in brackets, as in INTERNAL://[fd00::1]:9093

Source: Kafka's settings `listeners` and `advertised.listeners`.
"""

import re
from typing import NamedTuple

FIRST_LISTENER = "kafka"
"""Name of the listener that `node.host` and `node.port` open."""

PAGES_LISTENER = "metrics"
"""Name by which `security` knows the HTTP port of `node.metrics_host` and `node.metrics_port`."""

LISTENERS_MAX = 16
"""Listeners of one broker besides its first: all brokers hold all of them in memory."""

_ENDPOINT = re.compile(
    r"(?P<name>[A-Za-z0-9_-]{1,64})://(?P<host>\[[0-9A-Fa-f:.]+\]|[^:/\[\]\s]+):(?P<port>[0-9]{1,5})"
)
_PORT_MAX = 2**16 - 1


class NamedEndpoint(NamedTuple):
    """A listener's name with its own or its advertised address."""

    name: str
    host: str
    port: int

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.name}://{host}:{self.port}"


def parse_endpoint(text: str) -> NamedEndpoint | None:
    """Return the endpoint in `NAME://host:port`; None if `text` has another form."""
    match = _ENDPOINT.fullmatch(text)
    if match is None or not 0 < int(match["port"]) <= _PORT_MAX:
        return None
    return NamedEndpoint(match["name"], match["host"].strip("[]"), int(match["port"]))
