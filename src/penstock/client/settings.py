"""Settings of a client: addresses, times, limits.

Times are milliseconds. `deadline_ms` bounds all retries of one operation; it is longer than the
restart of a node, so that operations survive one.
"""

from dataclasses import dataclass

from penstock.base.errors import ConfigError
from penstock.client.security import ClientSecurity

DEFAULT_PORT = 9092
PORT_MAX = 65535


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientSettings:
    """Fixed for the life of a client."""

    bootstrap: str
    """`host:port[,host:port...]`; the port is optional, IPv6 hosts are in brackets."""

    client_id: str = "penstock"
    connect_timeout_ms: int = 5_000
    request_timeout_ms: int = 30_000
    """One request and its answer, without the time that the broker was asked to wait."""

    deadline_ms: int = 120_000
    """All attempts of one operation together."""

    backoff_ms: int = 50
    """First pause between attempts; it doubles up to `backoff_ms_max`."""

    backoff_ms_max: int = 1_000
    response_bytes_max: int = 256 << 20
    """A larger answer closes the connection: no valid answer is that large."""

    security: ClientSecurity = ClientSecurity()  # noqa: RUF009  it can not be changed

    def __post_init__(self) -> None:
        parse_bootstrap(self.bootstrap)


def parse_bootstrap(text: str) -> list[tuple[str, int]]:
    """Return the addresses of a bootstrap list. Raises ConfigError with what to change."""
    addresses = [_parse_address(part.strip()) for part in text.split(",") if part.strip()]
    if not addresses:
        raise ConfigError("bootstrap is empty, use host:port[,host:port...]")
    return addresses


def _parse_address(text: str) -> tuple[str, int]:
    host, port = text, ""
    if text.startswith("["):
        host, _, rest = text[1:].partition("]")
        port = rest.removeprefix(":")
    elif text.count(":") == 1:
        host, _, port = text.partition(":")
    if not host or "/" in host or (port and not (port.isascii() and port.isdigit())):
        raise ConfigError(f"bootstrap address {text!r} is not host:port")
    number = int(port) if port else DEFAULT_PORT
    if not 0 < number <= PORT_MAX:
        raise ConfigError(f"bootstrap address {text!r} has a port outside of 1 to {PORT_MAX}")
    return host, number
