"""The files of `penstock up --secure`: who may come in, and how both sides prove who they are.

DIR/security/                 for its owner alone, made whole at the first start, kept afterwards
    authority.pem             clients trust what this certificate has signed: the `ca=` of `ready`
    authority.key             signs certificates of nodes; may be kept elsewhere in between
    node-<id>.pem             certificate and key of a node
    admin.password            the password of the first user, on one line
    first-users               the same as a broker reads it: the cluster's users, while it has none
    access-keys               the first user's access key for RocketMQ's clients, made at the first
                              start with ports for them
    admin.properties          what `penstock --client-config` and librdkafka need to be that user

A directory with these files is started with --secure only: without it, what was closed would be
open. Removing `security/` opens it.

No password is an argument, an environment variable or a line of a log.
"""

import secrets
import shlex
import shutil
import socket
import ssl
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from penstock.access.config import AuthoriserKind
from penstock.base.endpoints import FIRST_LISTENER
from penstock.base.errors import ConfigError
from penstock.cli.launch.node_files import write_private
from penstock.cli.launch.probe import Login
from penstock.grpc.config import LISTENER_NAME as GRPC
from penstock.node.access.files import check_private, read_private
from penstock.node.settings.security_config import SecurityProtocol
from penstock.node.settings.settings import NodeSettings
from penstock.remoting.config import LISTENER_NAME

DIRECTORY = "security"
USER = "admin"
PRINCIPAL = f"User:{USER}"
MECHANISM = "SCRAM-SHA-512"
PASSWORD_BYTES = 24
_EVERY_INTERFACE = {"0.0.0.0", "::"}  # noqa: S104  compared, not bound


@dataclass(frozen=True, slots=True, kw_only=True)
class Secured:
    """The files of one directory of `penstock up`; `directory` is absolute."""

    directory: Path

    @property
    def authority_file(self) -> Path:
        """The certificate that clients trust."""
        return self.directory / "authority.pem"

    @property
    def password_file(self) -> Path:
        """The password of the first user."""
        return self.directory / f"{USER}.password"

    @property
    def first_users_file(self) -> Path:
        """The first user, as a broker reads it."""
        return self.directory / "first-users"

    @property
    def access_keys_file(self) -> Path:
        """The access key of the first user, as a broker reads it."""
        return self.directory / "access-keys"

    def password(self) -> str:
        """Return the password of the first user. Raises ConfigError."""
        return read_private("the password file", str(self.password_file)).partition("\n")[0]

    def login(self) -> Login:
        """Return how the first user comes in. Raises ConfigError."""
        try:
            context = ssl.create_default_context(cafile=self.authority_file)
        except (OSError, ssl.SSLError) as error:
            raise ConfigError(f"{self.authority_file} can not be used: {error}") from error
        return Login(context=context, mechanism=MECHANISM, user=USER, password=self.password())

    def told(self) -> str:
        """Return what the line `ready` says of these files, quoted as a shell reads it."""
        files = {"ca": self.authority_file, "user": USER, "password-file": self.password_file}
        return " ".join(f"{name}={shlex.quote(str(value))}" for name, value in files.items())

    def overrides(self, broker_id: int, *, signed: Sequence[str]) -> list[str]:
        """Return the settings that close a node.

        `signed` are its listeners for RocketMQ's clients.
        """
        certificate = self._certificate_file(broker_id)
        listeners = FIRST_LISTENER, *signed
        protocols = ",".join(f"{name}:{SecurityProtocol.SASL_SSL}" for name in listeners)
        keys = f"security.remoting_access_keys_file={self.access_keys_file}"
        return [
            *((keys,) if signed else ()),
            f"security.listener_security_protocol_map={protocols}",
            f"security.ssl_certificate_file={certificate}",
            f"security.ssl_key_file={certificate}",
            f"security.sasl_enabled_mechanisms={MECHANISM}",
            f"security.scram_first_users_file={self.first_users_file}",
            f"access.authorizer={AuthoriserKind.ACL}",
            f"access.super_users={PRINCIPAL}",
        ]

    def make_access_keys(self) -> None:
        """Give the first user an access key, if there is none yet. Raises ConfigError."""
        if self.access_keys_file.exists():
            check_private("the file of access keys", str(self.access_keys_file))
            return
        try:
            secret = secrets.token_urlsafe(PASSWORD_BYTES)
            write_private(self.access_keys_file, f"{USER}:{secret}\n")
        except OSError as error:
            raise ConfigError(
                f"{self.access_keys_file} can not be made: {error.strerror}"
            ) from error

    def certify(self, settings: NodeSettings) -> None:
        """Give a node a certificate with its names, if it needs one. Raises ConfigError."""
        from penstock.access.issuing import Pair, is_good, new_server

        path = self._certificate_file(settings.node.broker_id)
        names, now = list(dict.fromkeys(_names(settings))), datetime.now(UTC)
        authority = self.authority_file.read_bytes()
        if path.exists():
            check_private("the certificate and key", str(path))
            if is_good(path.read_bytes(), authority, names, now):
                return
        key_file = self.directory / "authority.key"
        key = read_private("the authority's key", str(key_file)).encode()
        try:
            made = new_server(Pair(authority, key), names, now)
        except ValueError as error:
            raise ConfigError(
                f"{self.authority_file} and {key_file} sign no certificate: {error}"
            ) from error
        write_private(path, (made.certificate + made.key).decode())

    def _certificate_file(self, broker_id: int) -> Path:
        return self.directory / f"node-{broker_id}.pem"


def secured(directory: Path, *, is_wanted: bool) -> Secured | None:
    """Return the files of a directory of `penstock up`, made now if they were not there.

    None if they are not wanted. Raises ConfigError if they are there and not wanted, or not whole.
    """
    place = directory.absolute() / DIRECTORY
    if not is_wanted:
        if place.exists():
            raise ConfigError(
                f"{directory} was closed with --secure: give it again; to open it to everybody,"
                f" remove {place}"
            )
        return None
    found = Secured(directory=place)
    if not place.exists():
        _make(place)
    for path in (found.authority_file, found.password_file, found.first_users_file):
        if not path.exists():
            raise ConfigError(
                f"{path} is gone: put it back, or remove {place} to begin with new certificates"
                " and a new password"
            )
    for path in (found.password_file, found.first_users_file):
        check_private("the password file", str(path))
    if place.stat().st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise ConfigError(f"others can write to {place}: chmod 700 {place}")
    return found


def check_closed(settings: NodeSettings) -> None:
    """Raise ConfigError if other settings open what --secure has closed."""
    security, access = settings.security, settings.access
    protocol = security.protocols().get(FIRST_LISTENER, SecurityProtocol.PLAINTEXT)
    mechanisms = security.of_listener(FIRST_LISTENER).sasl_enabled_mechanisms
    is_signed = all(
        security.protocols().get(name) is SecurityProtocol.SASL_SSL
        for name, port in ((LISTENER_NAME, settings.remoting.port), (GRPC, settings.grpc.port))
        if port
    )
    for setting, is_as_wanted in (
        (
            "security.listener_security_protocol_map",
            protocol is SecurityProtocol.SASL_SSL and is_signed,
        ),
        ("security.sasl_enabled_mechanisms", MECHANISM in mechanisms),
        ("access.authorizer", access.authorizer is AuthoriserKind.ACL),
        ("access.super_users", PRINCIPAL in access.super_users),
        ("access.allow_everyone_if_no_acl_found", not access.allow_everyone_if_no_acl_found),
    ):
        if not is_as_wanted:
            raise ConfigError(
                f"--secure and {setting} contradict each other: leave one of them out"
            )


def _names(settings: NodeSettings) -> Iterator[str]:
    """Yield the names and addresses under which clients may look for a node."""
    yield from ("localhost", "127.0.0.1", "::1", socket.gethostname())
    node = settings.node
    bound = (node.host, *(one.host for one in settings.bound_listeners()))
    yield from (host for host in bound if host not in _EVERY_INTERFACE)
    yield node.advertised()[0]
    yield from (one.host for one in settings.told_listeners())


def _make(place: Path) -> None:
    """Make all files in a directory beside, and put that in its place. Raises ConfigError."""
    from penstock.access.issuing import new_authority

    password = secrets.token_urlsafe(PASSWORD_BYTES)
    authority = new_authority(f"penstock up {secrets.token_hex(8)}", datetime.now(UTC))
    final = Secured(directory=place)
    texts = {
        "authority.pem": authority.certificate.decode(),
        "authority.key": authority.key.decode(),
        final.password_file.name: f"{password}\n",
        "first-users": f"{USER}:{password}\n",
        f"{USER}.properties": _properties(final, password),
    }
    fresh = place.with_name(f"{DIRECTORY}.new")
    try:
        if fresh.exists():
            shutil.rmtree(fresh)
        fresh.mkdir(mode=0o700)
        for name, text in texts.items():
            write_private(fresh / name, text)
        fresh.rename(place)
    except OSError as error:
        raise ConfigError(f"{place} can not be made: {error.strerror}") from error


def _properties(files: Secured, password: str) -> str:
    settings = {
        "security.protocol": SecurityProtocol.SASL_SSL,
        "ssl.ca.location": files.authority_file,
        "sasl.mechanism": MECHANISM,
        "sasl.username": USER,
        "sasl.password": password,
    }
    return "".join(f"{name}={value}\n" for name, value in settings.items())
