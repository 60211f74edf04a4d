"""Who may connect as whom: protocols of listeners, TLS, SASL.

Each setting holds for all listeners that have a use for it, and `listeners` changes it for one of
them. Names follow Kafka's, with its dots as underscores; keys and certificates are PEM files.
"""

import re
from dataclasses import dataclass, fields, replace
from enum import StrEnum
from typing import Annotated, Any, Literal

from annotated_types import Ge, Le, MaxLen, MinLen

from penstock.access.mapping import parse_rules
from penstock.access.sasl import MECHANISMS, OAUTHBEARER, PLAIN
from penstock.access.scram import HASHES
from penstock.access.tokens import KINDS, TokenRules
from penstock.base.endpoints import PAGES_LISTENER
from penstock.base.errors import ConfigError
from penstock.grpc.config import LISTENER_NAME as GRPC_LISTENER
from penstock.remoting.config import LISTENER_NAME as REMOTING_LISTENER

FilePath = Annotated[str, MaxLen(4096)]
_OVERRIDE = re.compile(r"(?P<name>[A-Za-z0-9_-]{1,64})\.(?P<key>[a-z0-9_]+)=(?P<value>.*)", re.S)
_SERVER_NAME = re.compile(r"(\*\.)?[a-z0-9_-]+(\.[a-z0-9_-]+)*")
_CLIENT_AUTH = ("none", "requested", "required")
_FOR_ALL = frozenset(
    {
        "listeners",
        "listener_security_protocol_map",
        "open_listeners",
        "scram_first_users_file",
        "delegation_token_secret_file",
        "remoting_access_keys_file",
    }
)
"""What can not differ between listeners."""


class SecurityProtocol(StrEnum):
    """How a listener talks; the names are Kafka's."""

    PLAINTEXT = "PLAINTEXT"
    SSL = "SSL"
    SASL_PLAINTEXT = "SASL_PLAINTEXT"
    SASL_SSL = "SASL_SSL"

    @property
    def has_tls(self) -> bool:
        """Whether connections are encrypted."""
        return self in {SecurityProtocol.SSL, SecurityProtocol.SASL_SSL}

    @property
    def has_sasl(self) -> bool:
        """Whether clients prove who they are by SASL."""
        return self in {SecurityProtocol.SASL_PLAINTEXT, SecurityProtocol.SASL_SSL}


@dataclass(frozen=True, slots=True, kw_only=True)
class SecurityConfig:
    """Protocols of the Kafka listeners, their certificates, and how clients prove who they are."""

    listener_security_protocol_map: tuple[str, ...] = ()
    """Protocols of listeners, each as `NAME:PROTOCOL` with `PLAINTEXT`, `SSL`, `SASL_PLAINTEXT` or
    `SASL_SSL`; `kafka` is the listener of `node.host` and `node.port`. A listener that is not named
    here is `PLAINTEXT`: everybody is let in, and nobody is known. For `remoting` and `grpc`, the
    listeners of RocketMQ's clients, SASL means that they sign their requests by access keys.
    `metrics` is the HTTP port, `PLAINTEXT` or `SSL`."""

    open_listeners: tuple[str, ...] = ()
    """Listeners that may let in everybody although other machines reach them, by name, as in
    `kafka`. Without it a node does not start with a listener that is bound to another address than
    the loopback one and does not make clients prove who they are."""

    listeners: tuple[str, ...] = ()
    """Settings of single listeners, each as `NAME.setting=value` with a setting of this section, as
    in `EXTERNAL.ssl_client_auth=required`; lists have spaces between their values."""

    ssl_certificate_file: FilePath = ""
    """Certificate of this node and those between it and its authority (PEM). It is read again when
    it changes, as are the key and the authorities; open connections live on. A relative path starts
    at the directory of the settings file."""

    ssl_key_file: FilePath = ""
    """Private key of the certificate (PEM, not encrypted). Refused if everybody can read it."""

    ssl_authority_file: FilePath = ""
    """Certificates (PEM) that clients' certificates must be signed by."""

    ssl_revocation_file: FilePath = ""
    """Lists of revoked certificates (CRL, PEM), one of each authority that signs for clients; read
    again when it changes. With it a client's certificate is refused if a list names it, if its
    authority has no list there, or if that list is over. Empty: no list is asked."""

    ssl_server_names: tuple[str, ...] = ()
    """Certificates for clients that ask for a name (SNI), each as `NAME=FILE`, where the file (PEM,
    an absolute path) has a key and the certificates to it and is refused if everybody can read it;
    `*.example.net=FILE` is for all names with one part more. Other clients get
    `ssl_certificate_file`."""

    ssl_client_auth: Literal["none", "requested", "required"] = "none"
    """Whether clients are asked for a certificate, and whether they need one."""

    ssl_principal_mapping_rules: Annotated[str, MaxLen(16_384)] = "DEFAULT"
    """What makes a user's name of the subject of a client's certificate, as in
    `RULE:^CN=(.*?),.*$/$1/L,DEFAULT`. The first rule that matches counts; without one the client is
    refused."""

    sasl_enabled_mechanisms: tuple[str, ...] = ("SCRAM-SHA-512", "SCRAM-SHA-256")
    """Mechanisms of listeners with SASL: `PLAIN`, `SCRAM-SHA-256`, `SCRAM-SHA-512`,
    `OAUTHBEARER`."""

    sasl_plain_users_file: FilePath = ""
    """Users of PLAIN, a line each as `user:password`. Refused if everybody can read it; read again
    when it changes."""

    sasl_plain_without_tls: bool = False
    """Allow PLAIN on a listener without TLS, where everybody on the way can read passwords."""

    scram_first_users_file: FilePath = ""
    """Users of SCRAM that a cluster without any gets when this broker registers, a line each as
    `user:password`; the file is of no use afterwards. Refused if everybody can read it."""

    delegation_token_secret_file: FilePath = ""
    """Secret that delegation tokens are derived from (Kafka: delegation.token.secret.key), the same
    on all brokers: a line of 32 characters or more, as `openssl rand -hex 32` prints. Of several
    lines the first is for new tokens, and tokens of the others stay good. Refused if everybody can
    read it; read again when it changes. Without it there are no delegation tokens."""

    remoting_access_keys_file: FilePath = ""
    """Access keys of RocketMQ's clients of both protocols, a line each as `user:secret`, the secret
    of 16 characters or more; a user may have two, while clients change to a new one. Refused if
    everybody can read it; read again when it changes."""

    sasl_oauthbearer_jwks_file: FilePath = ""
    """Public keys of the identity provider (JWKS) that tokens of OAUTHBEARER are checked by; read
    again when it changes."""

    sasl_oauthbearer_jwks_url: Annotated[str, MaxLen(2048)] = ""
    """Where the provider publishes them, `https://…`, instead of a file; fetched every hour, and
    when a token names a key that is not there. Until the first fetch no token is good."""

    sasl_oauthbearer_jwks_authority_file: FilePath = ""
    """Certificates (PEM) that the provider's own must be signed by. Empty: the system's."""

    sasl_oauthbearer_expected_issuer: Annotated[str, MaxLen(2048)] = ""
    """What claim `iss` of a token has to be. Needed with OAUTHBEARER."""

    sasl_oauthbearer_expected_audience: tuple[str, ...] = ()
    """Claim `aud` of a token has to contain one of these. Needed with OAUTHBEARER."""

    sasl_oauthbearer_algorithms: tuple[str, ...] = ("RS256", "ES256")
    """Signatures that tokens may have: RS256, RS384, RS512, PS256, PS384, PS512, ES256, ES384,
    ES512, EdDSA."""

    sasl_oauthbearer_sub_claim_name: Annotated[str, MinLen(1), MaxLen(256)] = "sub"
    """The claim that names the user."""

    sasl_oauthbearer_clock_skew_seconds: Annotated[int, Ge(0), Le(600)] = 30
    """By so much the provider's clock may differ from the node's."""

    connections_max_reauth_ms: Annotated[int, Ge(0), Le(2**31 - 1)] = 0
    """After so long a client of SASL has to prove again who it is, or is disconnected at its next
    request; 0: never. Clients do so by themselves."""

    connection_failed_authentication_delay_ms: Annotated[int, Ge(0), Le(10_000)] = 100
    """Time from the answer to a failed proof to the end of the connection."""

    def __post_init__(self) -> None:
        """Check the relations between fields. Raises ConfigError."""
        parse_rules(self.ssl_principal_mapping_rules)
        if unknown := set(self.sasl_enabled_mechanisms) - set(MECHANISMS):
            raise ConfigError(
                f"security.sasl_enabled_mechanisms: {min(unknown)!r} is not one of"
                f" {', '.join(MECHANISMS)}"
            )
        if self.ssl_client_auth not in _CLIENT_AUTH:
            raise ConfigError(
                f"security.ssl_client_auth: {self.ssl_client_auth!r} is not one of"
                f" {', '.join(_CLIENT_AUTH)}"
            )
        if unknown := set(self.sasl_oauthbearer_algorithms) - set(KINDS):
            raise ConfigError(
                f"security.sasl_oauthbearer_algorithms: {min(unknown)!r} is not one of"
                f" {', '.join(KINDS)}"
            )
        self.server_names()
        if self.ssl_revocation_file and not self.ssl_authority_file:
            raise ConfigError(
                "security.ssl_revocation_file is for clients' certificates: give"
                " security.ssl_authority_file, which they are signed by"
            )
        self.protocols()

    def server_names(self) -> dict[str, str]:
        """Return the files of certificates by the names, in small letters, that they are for.

        Raises ConfigError.
        """
        found: dict[str, str] = {}
        for text in self.ssl_server_names:
            name, equals, path = text.partition("=")
            name = name.lower()
            if not (equals and _SERVER_NAME.fullmatch(name) and path.startswith("/")):
                raise ConfigError(
                    f"security.ssl_server_names: {text!r} is no NAME=FILE with a host's name, or"
                    " *. and one, and an absolute path"
                )
            if name in found:
                raise ConfigError(f"security.ssl_server_names has {name} twice")
            found[name] = path
        return found

    def token_rules(self) -> TokenRules:
        """Return what is expected of tokens of OAUTHBEARER."""
        return TokenRules(
            issuer=self.sasl_oauthbearer_expected_issuer,
            audiences=self.sasl_oauthbearer_expected_audience,
            algorithms=self.sasl_oauthbearer_algorithms,
            user_claim=self.sasl_oauthbearer_sub_claim_name,
            skew_seconds=self.sasl_oauthbearer_clock_skew_seconds,
        )

    def protocols(self) -> dict[str, SecurityProtocol]:
        """Return the protocols by the names of listeners. Raises ConfigError."""
        found: dict[str, SecurityProtocol] = {}
        for text in self.listener_security_protocol_map:
            name, colon, protocol = text.partition(":")
            if not (name and colon) or protocol not in SecurityProtocol.__members__:
                raise ConfigError(
                    f"security.listener_security_protocol_map: {text!r} is no NAME:PROTOCOL with"
                    f" {', '.join(SecurityProtocol)}"
                )
            if name in found:
                raise ConfigError(f"security.listener_security_protocol_map names {name} twice")
            found[name] = SecurityProtocol(protocol)
        return found

    @property
    def pages_have_tls(self) -> bool:
        """Whether the HTTP port is asked over TLS."""
        return self.protocols().get(PAGES_LISTENER) is SecurityProtocol.SSL

    def of_listener(self, name: str) -> "SecurityConfig":
        """Return the settings of one listener. Raises ConfigError."""
        changes: dict[str, Any] = {}
        for text in self.listeners:
            match = _OVERRIDE.fullmatch(text)
            if match is None or match["key"] not in _OVERRIDABLE:
                raise ConfigError(
                    f"security.listeners: {text!r} is no NAME.setting=value with one of"
                    f" {', '.join(sorted(_OVERRIDABLE))}"
                )
            if match["name"] == name:
                changes[match["key"]] = _parsed(match["key"], match["value"])
        return replace(self, listeners=(), **changes)

    def check_listener(self, name: str, protocol: SecurityProtocol) -> None:
        """Raise ConfigError unless these settings, of one listener, suffice for its protocol."""
        say = f"listener {name} is {protocol}"
        if protocol.has_tls and not (self.ssl_certificate_file and self.ssl_key_file):
            raise ConfigError(
                f"{say}: give security.ssl_certificate_file and security.ssl_key_file"
            )
        if protocol.has_tls and self.ssl_client_auth != "none" and not self.ssl_authority_file:
            raise ConfigError(f"{say} and asks for certificates: give security.ssl_authority_file")
        if protocol.has_sasl and name not in {REMOTING_LISTENER, GRPC_LISTENER}:
            self._check_sasl(say, protocol)
        elif protocol.has_sasl and not self.remoting_access_keys_file:
            raise ConfigError(f"{say}: give security.remoting_access_keys_file")

    def _check_sasl(self, say: str, protocol: SecurityProtocol) -> None:
        if not self.sasl_enabled_mechanisms:
            raise ConfigError(f"{say}: give security.sasl_enabled_mechanisms")
        if OAUTHBEARER in self.sasl_enabled_mechanisms:
            self._check_bearer(f"{say} with OAUTHBEARER", protocol)
        if PLAIN not in self.sasl_enabled_mechanisms:
            return
        if not self.sasl_plain_users_file:
            raise ConfigError(f"{say} with PLAIN: give security.sasl_plain_users_file")
        if not protocol.has_tls and not self.sasl_plain_without_tls:
            raise ConfigError(
                f"{say} with PLAIN, so passwords could be read on the way: make it SASL_SSL, use"
                f" {' or '.join(HASHES)}, or set security.sasl_plain_without_tls"
            )

    def _check_bearer(self, say: str, protocol: SecurityProtocol) -> None:
        if not protocol.has_tls:
            raise ConfigError(f"{say}, so tokens could be taken on the way: make it SASL_SSL")
        if bool(self.sasl_oauthbearer_jwks_file) is bool(self.sasl_oauthbearer_jwks_url):
            raise ConfigError(
                f"{say}: give security.sasl_oauthbearer_jwks_file or"
                " security.sasl_oauthbearer_jwks_url, one of them"
            )
        for name in ("expected_issuer", "expected_audience", "algorithms"):
            if not getattr(self, f"sasl_oauthbearer_{name}"):
                raise ConfigError(
                    f"{say}: give security.sasl_oauthbearer_{name}: without it tokens that are for"
                    " others would be good here"
                )


_OVERRIDABLE = {item.name for item in fields(SecurityConfig)} - _FOR_ALL


def _parsed(key: str, value: str) -> object:
    default = SecurityConfig.__dataclass_fields__[key].default
    if isinstance(default, tuple):
        return tuple(value.split())
    if isinstance(default, bool):
        if value not in {"true", "false"}:
            raise ConfigError(f"security.listeners: {key} is true or false, not {value!r}")
        return value == "true"
    if isinstance(default, int):
        if not (value.isascii() and value.isdigit()):
            raise ConfigError(f"security.listeners: {key} is a number, not {value!r}")
        return int(value)
    return value
