"""How a client talks to brokers, and how it proves who it is: TLS, and SASL.

    TCP ─► TLS, where the protocol has it ─► SaslHandshake ─► SaslAuthenticate … ─► requests

The settings are read from a properties file with librdkafka's names:

    security.protocol = SASL_SSL
    ssl.ca.location = ca.pem
    sasl.mechanism = SCRAM-SHA-512
    sasl.username = reader
    sasl.password = …

A secret may be in a file of its own, which librdkafka has not: `sasl.password.file` in the place of
`sasl.password`. It is read for each connection, so that a new password needs no new start.

`sasl.tokenauth = true`, which librdkafka has not, says that user and password are a delegation
token's. With OAUTHBEARER a token is in a file, `sasl.oauthbearer.token.file`, which librdkafka has
not either, or comes from an identity provider:

    sasl.mechanism = OAUTHBEARER
    sasl.oauthbearer.method = oidc
    sasl.oauthbearer.token.endpoint.url = https://login.example.net/token
    sasl.oauthbearer.client.id = reader
    sasl.oauthbearer.client.secret = …             or sasl.oauthbearer.client.secret.file

Source: KIP-152; librdkafka's configuration. Not here: sessions that end (KIP-368): the broker
closes the connection, and the next one proves it again.
"""

import secrets
import socket
import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from penstock.access.errors import MalformedToken
from penstock.access.scram import HASHES, NONCE_BYTES, ScramClient
from penstock.base.errors import ConfigError
from penstock.client.access.secret_file import read_secret
from penstock.client.errors import AuthenticationFailed, FileUnusable, error_code
from penstock.protocol.api_keys import ApiKey
from penstock.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from penstock.client.access.bearer import ProviderTokens

PLAIN = "PLAIN"
OAUTHBEARER = "OAUTHBEARER"
MECHANISMS = (PLAIN, *HASHES, OAUTHBEARER)
PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
_FIELDS = {
    "security.protocol": "protocol",
    "ssl.ca.location": "authority_file",
    "ssl.certificate.location": "certificate_file",
    "ssl.key.location": "key_file",
    "ssl.endpoint.identification.algorithm": "identification",
    "sasl.mechanism": "mechanism",
    "sasl.mechanisms": "mechanism",
    "sasl.username": "user",
    "sasl.password": "password",
    "sasl.password.file": "password_file",
    "sasl.tokenauth": "tokenauth",
    "sasl.oauthbearer.method": "method",
    "sasl.oauthbearer.token.endpoint.url": "token_url",
    "sasl.oauthbearer.client.id": "client_id",
    "sasl.oauthbearer.client.secret": "client_secret",
    "sasl.oauthbearer.client.secret.file": "client_secret_file",
    "sasl.oauthbearer.scope": "scope",
    "sasl.oauthbearer.token.file": "token_file",
    "https.ca.location": "provider_authority_file",
}
_FILES = {
    name: field_name
    for name, field_name in _FIELDS.items()
    if name.startswith("ssl.") and name.endswith(".location")
}
_SECRETS = ("password_file", "client_secret_file")
_PATHS = (*_FILES.values(), *_SECRETS, "token_file", "provider_authority_file")
SECRET_NAMES = ("sasl.password", "sasl.oauthbearer.client.secret")
"""Settings whose values are secrets."""
NAMES = tuple(name for name in _FIELDS if name not in SECRET_NAMES)
"""The other settings."""
_IDENTIFICATIONS = ("https", "none", "")

Call = Callable[[ApiKey, Mapping[str, Any]], Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientSecurity:
    """See the module."""

    protocol: str = "PLAINTEXT"
    authority_file: str = ""
    """Certificates (PEM) that a broker's certificate must be signed by; empty: the system's."""
    certificate_file: str = ""
    key_file: str = ""
    identification: str = "https"
    """`https`: a broker's certificate has to name its host."""
    mechanism: str = ""
    user: str = ""
    password: str = field(default="", repr=False)
    password_file: str = ""
    """Has the password, and is read for each connection."""
    tokenauth: str = "false"
    """`true`: user and password are those of a delegation token."""
    method: str = "default"
    """`oidc`: tokens of OAUTHBEARER come from a provider; else of a file."""
    token_url: str = ""
    client_id: str = ""
    client_secret: str = field(default="", repr=False)
    client_secret_file: str = ""
    scope: str = ""
    token_file: str = ""
    provider_authority_file: str = ""
    """Certificates (PEM) that the provider's must be signed by; empty: the system's."""
    _tokens: "list[ProviderTokens]" = field(default_factory=list, repr=False, compare=False)
    """The provider's, once asked for: they are good for several connections."""

    def __post_init__(self) -> None:
        if self.protocol not in PROTOCOLS:
            raise ConfigError(
                f"security.protocol {self.protocol!r} is not one of {', '.join(PROTOCOLS)}"
            )
        if self.identification not in _IDENTIFICATIONS:
            raise ConfigError("ssl.endpoint.identification.algorithm is https or none")
        if bool(self.certificate_file) is not bool(self.key_file):
            raise ConfigError("give ssl.certificate.location and ssl.key.location, or neither")
        if not self.has_sasl:
            return
        if self.mechanism not in MECHANISMS:
            raise ConfigError(
                f"sasl.mechanism {self.mechanism!r} is not one of {', '.join(MECHANISMS)}"
            )
        if self.mechanism == OAUTHBEARER:
            self._check_bearer()
        else:
            self._check_password()

    def _check_password(self) -> None:
        if self.tokenauth not in {"true", "false"} or (self.is_token and self.mechanism == PLAIN):
            raise ConfigError("sasl.tokenauth is true or false, and true with SCRAM only")
        if self.password and self.password_file:
            raise ConfigError("give sasl.password or sasl.password.file, not both")
        if not self.user or not (self.password or self.password_file):
            raise ConfigError(
                f"{self.protocol} needs sasl.username and sasl.password, or sasl.password.file"
            )

    def _check_bearer(self) -> None:
        if not self.has_tls:
            raise ConfigError("OAUTHBEARER needs SASL_SSL: a token would be read on the way")
        if self.method not in {"oidc", "default"}:
            raise ConfigError("sasl.oauthbearer.method is oidc, or default with a token's file")
        is_by_file = self.method == "default"
        if is_by_file is not bool(self.token_file):
            raise ConfigError(
                "OAUTHBEARER needs sasl.oauthbearer.token.file, or sasl.oauthbearer.method = oidc"
            )
        if is_by_file:
            return
        has_one_secret = bool(self.client_secret) is not bool(self.client_secret_file)
        if not (self.token_url and self.client_id and has_one_secret):
            raise ConfigError(
                "sasl.oauthbearer.method = oidc needs sasl.oauthbearer.token.endpoint.url,"
                " sasl.oauthbearer.client.id, and one of sasl.oauthbearer.client.secret and"
                " sasl.oauthbearer.client.secret.file"
            )
        self._provider()

    def _provider(self) -> "ProviderTokens":
        """Return the provider's tokens. Raises ConfigError."""
        # Spark's executors, which need no more than the docs name, have no use for it and msgspec.
        from penstock.client.access.bearer import ProviderTokens  # noqa: PLC0415

        if not self._tokens:
            made = ProviderTokens(
                url=self.token_url,
                client_id=self.client_id,
                client_secret=self.client_secret,
                client_secret_file=self.client_secret_file,
                scope=self.scope,
                authority_file=self.provider_authority_file,
            )
            self._tokens.append(made)
        return self._tokens[0]

    @property
    def is_token(self) -> bool:
        """Whether the client logs in by a delegation token."""
        return self.tokenauth == "true"

    @property
    def has_tls(self) -> bool:
        """Whether connections are encrypted."""
        return self.protocol in {"SSL", "SASL_SSL"}

    @property
    def has_sasl(self) -> bool:
        """Whether the client proves who it is by SASL."""
        return self.protocol in {"SASL_PLAINTEXT", "SASL_SSL"}

    def wrap(self, connected: socket.socket, host: str) -> socket.socket:
        """Return the socket, over TLS where the protocol has it. Raises ConfigError, OSError."""
        if not self.has_tls:
            return connected
        return self.tls_context().wrap_socket(connected, server_hostname=host)

    def tls_context(self) -> ssl.SSLContext:
        """Return how the client shakes hands. Raises ConfigError."""
        try:
            context = ssl.create_default_context(cafile=self.authority_file or None)
            if self.certificate_file:
                context.load_cert_chain(self.certificate_file, self.key_file, password="")
        except (OSError, ssl.SSLError) as error:
            given = {name: getattr(self, field_name) for name, field_name in _FILES.items()}
            names = ", ".join(f"{name} {path}" for name, path in given.items() if path)
            raise FileUnusable(f"{names or 'the certificates'} can not be used: {error}") from error
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.check_hostname = self.identification == "https"
        return context

    def prove(self, call: Call, address: str) -> None:
        """Prove who the client is. Raises AuthenticationFailed, and what `call` raises."""
        answer = call(ApiKey.SASL_HANDSHAKE, {"mechanism": self.mechanism})
        if answer.error_code:
            offered = ", ".join(answer.mechanisms)
            raise AuthenticationFailed(
                address, f"{self.mechanism} is not among its mechanisms ({offered})"
            )

        def send(token: bytes) -> bytes:
            answer = call(ApiKey.SASL_AUTHENTICATE, {"auth_bytes": token})
            code = error_code(int(answer.error_code))
            if code is not ErrorCode.NONE:
                raise AuthenticationFailed(address, answer.error_message or code.name)
            received: bytes = answer.auth_bytes
            return received

        if self.mechanism == PLAIN:
            send(f"\0{self.user}\0{self._password()}".encode())
            return
        if self.mechanism == OAUTHBEARER:
            if send(f"n,,\x01auth=Bearer {self._token()}\x01\x01".encode()):
                send(b"\x01")  # it was refused; the answer to this one says so
                raise AuthenticationFailed(address, "it refuses the token, and says not why")
            return
        self._prove_by_scram(send, address)

    def _password(self) -> str:
        """Return the password as it is now. Raises ConfigError."""
        if self.password_file:
            return read_secret("sasl.password.file", self.password_file)
        return self.password

    def _token(self) -> str:
        """Return a token that is good now. Raises AuthenticationFailed, ConfigError."""
        from penstock.client.access.bearer import TokenFile  # noqa: PLC0415  see `_provider`

        return (TokenFile(self.token_file) if self.token_file else self._provider()).get()

    def _prove_by_scram(self, send: Callable[[bytes], bytes], address: str) -> None:
        nonce = secrets.token_hex(NONCE_BYTES)
        password = self._password()
        scram = ScramClient(self.mechanism, self.user, password, nonce, is_token=self.is_token)
        try:
            signature = send(scram.final(send(scram.first())))
        except MalformedToken as error:
            raise AuthenticationFailed(address, f"its answer to SCRAM: {error}") from error
        if not scram.is_servers(signature):
            raise AuthenticationFailed(address, "the broker does not know the user's password")


def read_security(path: Path) -> ClientSecurity:
    """Return what a properties file says. Raises ConfigError."""
    try:
        lines = path.read_text().splitlines()
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else error
        raise FileUnusable(f"{path} can not be read: {why}") from error
    found: dict[str, Any] = {}
    for number, line in enumerate(lines, 1):
        text = line.strip()
        if not text or text.startswith("#"):
            continue
        name, equals, value = text.partition("=")
        field_name = _FIELDS.get(name.strip())
        if not equals or field_name is None:
            raise ConfigError(
                f"{path}: line {number} is no name=value with one of {', '.join(_FIELDS)}"
            )
        found[field_name] = value.strip()
    for name in _PATHS:
        if found.get(name):
            found[name] = str((path.parent / found[name]).absolute())
    try:
        return ClientSecurity(**found)
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from error


def security_of(settings: Mapping[str, str]) -> ClientSecurity:
    """Return what settings say that are among NAMES, for the files of this machine.

    Raises ConfigError.
    """
    found: dict[str, Any] = {_FIELDS[name]: value for name, value in settings.items()}
    return ClientSecurity(**found)
