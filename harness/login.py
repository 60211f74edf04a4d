"""A listener with TLS and SCRAM beside the plain one of a test cluster, and how clients come in."""

import ssl
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from penstock.access.issuing import new_authority, new_server
from penstock.client.security import ClientSecurity

LISTENER = "SECURE"
MECHANISM = "SCRAM-SHA-512"
PROTOCOL = "SASL_SSL"
USER = "writer"
PASSWORD = "a password of the harness"


@dataclass(frozen=True, slots=True, kw_only=True)
class Login:
    """How clients come in: by the user of `SecureListener`, over TLS."""

    authority_file: str
    user: str = USER
    password: str = field(default=PASSWORD, repr=False)

    def librdkafka(self) -> dict[str, object]:
        """Return librdkafka's settings."""
        return {
            "security.protocol": PROTOCOL,
            "ssl.ca.location": self.authority_file,
            "sasl.mechanism": MECHANISM,
            "sasl.username": self.user,
            "sasl.password": self.password,
        }

    def python(self) -> dict[str, object]:
        """Return the arguments of kafka-python's and aiokafka's clients."""
        return {
            "security_protocol": PROTOCOL,
            "ssl_context": ssl.create_default_context(cafile=self.authority_file),
            "sasl_mechanism": MECHANISM,
            "sasl_plain_username": self.user,
            "sasl_plain_password": self.password,
        }

    def own(self) -> ClientSecurity:
        """Return the settings of the platform's own client."""
        return ClientSecurity(
            protocol=PROTOCOL,
            authority_file=self.authority_file,
            mechanism=MECHANISM,
            user=self.user,
            password=self.password,
        )


class SecureListener:
    """The files of the listener, in a directory that exists, for nodes at these addresses."""

    def __init__(self, directory: Path, addresses: Iterable[str]) -> None:
        self._users = directory / "first-users"
        ca, self._certificate = server_files(directory, addresses)
        _write_private(self._users, f"{USER}:{PASSWORD}\n".encode())
        self.login = Login(authority_file=str(ca))

    def settings(self) -> dict[str, object]:
        """Return the section `security` of every node."""
        return {
            "listener_security_protocol_map": [f"{LISTENER}:{PROTOCOL}"],
            "ssl_certificate_file": str(self._certificate),
            "ssl_key_file": str(self._certificate),
            "sasl_enabled_mechanisms": [MECHANISM],
            "scram_first_users_file": str(self._users),
        }


def server_files(directory: Path, addresses: Iterable[str]) -> tuple[Path, Path]:
    """Write the certificate of a new authority, and one of a server with its key; return both."""
    authority = new_authority("harness", datetime.now(UTC))
    server = new_server(authority, ["localhost", *dict.fromkeys(addresses)], datetime.now(UTC))
    ca, certificate = directory / "authority.pem", directory / "server.pem"
    ca.write_bytes(authority.certificate)
    _write_private(certificate, server.certificate + server.key)
    return ca, certificate


def _write_private(path: Path, data: bytes) -> None:
    path.touch(mode=0o600)
    path.write_bytes(data)
