"""Settings for metadata in an existing etcd; used if consensus is `etcd`."""

import ssl
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated
from urllib.parse import urlsplit

from annotated_types import Ge, Le, MaxLen

from penstock.base.errors import ConfigError

ENDPOINTS_MAX = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class EtcdConfig:
    """The address of etcd and how fast a lost controller is replaced."""

    endpoints: tuple[str, ...] = ("http://127.0.0.1:2379",)
    """Client addresses of the etcd members; the next one is used when one does not answer."""

    key_prefix: Annotated[str, MaxLen(255)] = "/penstock"
    """All keys are below `<key_prefix>/<cluster id>/`, so that clusters can share one etcd."""

    lease_ttl_s: Annotated[int, Ge(2), Le(60)] = 3
    """Seconds after which a silent controller is replaced; renewed at a third of it. etcd grants no
    less than 1.5 of its election timeouts, 2 seconds by default."""

    request_timeout_ms: Annotated[int, Ge(50), Le(60_000)] = 1_000
    """Time limit for one request, after which the next member is used."""

    user: Annotated[str, MaxLen(255)] = ""
    """User name for etcd's authentication; empty: none."""

    password_file: Annotated[str, MaxLen(4096)] = ""
    """File with the password of `user`."""

    tls_authority_file: Annotated[str, MaxLen(4096)] = ""
    """CA certificates (PEM) to verify etcd's certificate with; empty: the system's."""

    tls_certificate_file: Annotated[str, MaxLen(4096)] = ""
    """Client certificate (PEM), if etcd requires one."""

    tls_key_file: Annotated[str, MaxLen(4096)] = ""
    """Private key of the client certificate (PEM)."""

    def __post_init__(self) -> None:
        if not 0 < len(self.endpoints) <= ENDPOINTS_MAX:
            raise ConfigError(f"etcd.endpoints: name 1 to {ENDPOINTS_MAX} addresses of etcd")
        for endpoint in self.endpoints:
            _check_endpoint(endpoint)
        if not self.key_prefix.startswith("/") or self.key_prefix.endswith("/"):
            raise ConfigError(
                f"etcd.key_prefix {self.key_prefix!r} must begin with / and not end with it"
            )
        if bool(self.tls_certificate_file) != bool(self.tls_key_file):
            raise ConfigError("etcd: give tls_certificate_file and tls_key_file, or neither")
        if self.user and not self.password_file:
            raise ConfigError("etcd.user needs etcd.password_file")

    def read_password(self) -> str:
        """Return the password of `user`. Raises ConfigError."""
        try:
            return Path(self.password_file).read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(
                f"etcd.password_file {self.password_file} can not be read: {error}"
            ) from error

    def tls_context(self) -> ssl.SSLContext | None:
        """Return the context for https endpoints, None if all are http.

        Raises:
            ConfigError: a file cannot be used.
        """
        if not any(endpoint.startswith("https:") for endpoint in self.endpoints):
            return None
        try:
            context = ssl.create_default_context(cafile=self.tls_authority_file or None)
            if self.tls_certificate_file:
                context.load_cert_chain(self.tls_certificate_file, self.tls_key_file)
        except (OSError, ssl.SSLError) as error:
            raise ConfigError(f"etcd: a TLS file can not be used: {error}") from error
        return context


def _check_endpoint(endpoint: str) -> None:
    try:
        parts = urlsplit(endpoint)
        is_address = bool(parts.hostname) and parts.port is not None
    except ValueError:
        is_address = False
    else:
        is_address = is_address and parts.path in ("", "/") and not parts.query
        is_address = is_address and parts.scheme in ("http", "https")
    if not is_address:
        raise ConfigError(
            f"etcd.endpoints: {endpoint!r} is no address: write http://host:2379 or https://..."
        )
