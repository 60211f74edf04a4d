"""The listener with TLS that a server has beside its plain one, under the shape that loads take.

Certificates are made on the spot: an authority and a server with a P-256 key. Both products have to
speak the same version and suite, or their prices could not be compared.
"""

import socket
import ssl
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, Protocol

from benchmarks.peers.model import CanNotRun
from harness.login import server_files
from harness.node import LOOPBACK

LISTENER: Final = "SECURE"
EXPECTED: Final = ("TLSv1.3", "TLS_AES_256_GCM_SHA384")
"""What OpenSSL and Java agree on with OpenSSL's clients, with defaults on both sides."""
SECONDS: Final = 10.0


class Loaded(Protocol):
    """One way into a server: a Server itself by plain text, or `OverTls`."""

    load: Any

    @property
    def bootstrap(self) -> str:
        """What its clients are given to find it."""

    def cpu_seconds(self) -> float:
        """Return the CPU time of all the server's processes."""


class TlsFiles:
    """An authority's certificate, and a server's with its key, in a directory that exists."""

    def __init__(self, directory: Path) -> None:
        self.authority, self.server = server_files(directory, [LOOPBACK])


class OverTls:
    """See `Loaded`; raises CanNotRun if the listener agrees on another suite than is expected."""

    def __init__(self, server: Loaded, bootstrap: str, authority: Path) -> None:
        self.bootstrap = bootstrap
        agreed = agreed_with(bootstrap, authority)
        if agreed != EXPECTED:
            raise CanNotRun(f"{' '.join(agreed)} instead of {' '.join(EXPECTED)}")
        client = {"security.protocol": "SSL", "ssl.ca.location": str(authority)}
        self.load = type(server.load)(acks=server.load.acks, client=client)
        self._server = server

    def cpu_seconds(self) -> float:
        """Return the CPU time of all the server's processes."""
        return self._server.cpu_seconds()


def agreed_with(bootstrap: str, authority: Path) -> tuple[str, str]:
    """Return the version and the suite that the first of these addresses agrees on."""
    host, _, port = bootstrap.partition(",")[0].rpartition(":")
    context = ssl.create_default_context(cafile=str(authority))
    with (
        socket.create_connection((host, int(port)), SECONDS) as plain,
        context.wrap_socket(plain, server_hostname=host) as secure,
    ):
        suite = secure.cipher()
        return secure.version() or "no TLS", suite[0] if suite else "no suite"


def penstock_listener(files: TlsFiles, port: int) -> Mapping[str, dict[str, object]]:
    """Return the settings of a node that has a listener with TLS at this port."""
    return {
        "node": {"listeners": [f"{LISTENER}://{LOOPBACK}:{port}"]},
        "security": {
            "listener_security_protocol_map": [f"{LISTENER}:SSL"],
            "ssl_certificate_file": str(files.server),
            "ssl_key_file": str(files.server),
        },
    }
