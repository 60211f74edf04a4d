"""The doors of a node's listeners for clients, and the files behind them, which may change.

settings ─► context of TLS, users of PLAIN ─► doors        read before the first client comes
once a second: has a file changed? ─► read it again; a broken one is said, and left out
"""

import logging
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any

from penstock.access.bearer import CheckToken
from penstock.access.delegation import TokenSecrets
from penstock.access.mapping import parse_rules
from penstock.access.sasl import OAUTHBEARER
from penstock.access.signatures import AccessKeys
from penstock.access.tokens import token_checker
from penstock.base.endpoints import PAGES_LISTENER
from penstock.base.errors import ConfigError
from penstock.base.ports import Cancellable
from penstock.controller.commands.access.commands import AlterScram
from penstock.controller.metadata.image import ClusterImage
from penstock.grpc.config import LISTENER_NAME as GRPC
from penstock.grpc.config import GrpcConfig
from penstock.kafka.sasl.doors import certificate_door, sasl_door
from penstock.kafka.sasl.session import SaslPorts
from penstock.net.tls.doors import Door, TlsContext
from penstock.net.tls.failed_logins import FailedLogins
from penstock.node.access.certificates import HTTP2, own_context, tls_context, tls_files
from penstock.node.access.files import Watched
from penstock.node.access.provider_keys import FetchedKeys, read_keys
from penstock.node.access.token_logins import TokenLogins, read_token_secrets
from penstock.node.access.users import (
    ScramUsers,
    UnknownUsers,
    access_keys,
    first_users,
    plain_digests,
    sasl_users,
)
from penstock.node.machine import Machine
from penstock.node.settings.security_config import SecurityConfig, SecurityProtocol
from penstock.remoting.config import LISTENER_NAME

if TYPE_CHECKING:
    from penstock.remoting.signed import SignedPorts

LOOK_MS = 1_000

log = logging.getLogger(__name__)


class NodeDoors:
    """See the module."""

    def __init__(
        self, security: SecurityConfig, grpc: GrpcConfig, image: ClusterImage, machine: Machine
    ) -> None:
        self._security = security
        self._grpc = grpc
        self._image = image
        self._scram = ScramUsers(image, UnknownUsers(image, machine.randomness, b"user"))
        unknown_tokens = UnknownUsers(image, machine.randomness, b"token")
        self._logins = TokenLogins(image, self.token_secrets, machine.clock.wall_ms, unknown_tokens)
        self._secrets: Watched[TokenSecrets] | None = None
        self._access_keys: Watched[AccessKeys] | None = None
        """Of all who sign, by either protocol."""
        self._clock = machine.clock
        self._scheduler = machine.scheduler
        self._randomness = machine.randomness
        self._watched: list[Watched[Any]] = []
        self._fetched: list[FetchedKeys] = []
        self._timer: Cancellable | None = None

    def first_users(self) -> AlterScram | None:
        """Return the users that a cluster without any gets."""
        path = self._security.scram_first_users_file
        if not path or self._image.configuration.credentials:
            return None
        try:
            return first_users(path, self._randomness)
        except ConfigError as error:
            log.error("no first users: %s", error)  # noqa: TRY400  the operator's mistake, not ours
            return None

    def token_secrets(self) -> TokenSecrets | None:
        """Return what delegation tokens are made by; None where they are off."""
        return None if self._secrets is None else self._secrets.value

    def open(self) -> Mapping[str, Door]:
        """Return the doors by the names of listeners. Raises ConfigError."""
        security = self._security
        doors: dict[str, Door] = {}
        if path := security.delegation_token_secret_file:
            load = partial(read_token_secrets, path)
            self._secrets = Watched("secret of delegation tokens", (path,), load)
            self._watched.append(self._secrets)
        for name, protocol in security.protocols().items():
            if name != PAGES_LISTENER and protocol is not SecurityProtocol.PLAINTEXT:
                doors[name] = self._door(name, protocol, security.of_listener(name))
        if self._grpc.takes_tls:
            doors[GRPC] = self._open_door(security.of_listener(GRPC))
        if self._watched:
            self._timer = self._scheduler.call_later(LOOK_MS, self._look)
        return doors

    def stop(self) -> None:
        """Look at files no more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        for fetched in self._fetched:
            fetched.stop()

    def _door(self, name: str, protocol: SecurityProtocol, security: SecurityConfig) -> Door:
        application = HTTP2 if name == GRPC else ""
        context = self._context(name, security, application) if protocol.has_tls else None
        if protocol.has_sasl and name in {LISTENER_NAME, GRPC}:
            door = self._signed_door(name, context, security)
        elif protocol.has_sasl:
            door = sasl_door(context, self._sasl(name, security))
        else:
            assert context is not None, "a listener without TLS and SASL has no door"
            rules = parse_rules(security.ssl_principal_mapping_rules)
            door = certificate_door(context, rules, FailedLogins(self._scheduler))
        return door._replace(application=application)

    def _open_door(self, security: SecurityConfig) -> Door:
        """Return the door of an open port that takes TLS as well as plain text."""
        if security.ssl_certificate_file:
            context = self._context(GRPC, security, HTTP2)
        else:
            now = datetime.fromtimestamp(self._clock.wall_ms() / 1_000, UTC)
            own = own_context([one.host for one in self._grpc.told()], HTTP2, now)
            context = lambda: own  # noqa: E731  as those that are read again
        return Door(context, lambda _: None, application=HTTP2, takes_plain=True)

    def _signed_door(self, name: str, context: TlsContext | None, security: SecurityConfig) -> Door:
        """Return the door of RocketMQ's clients, who sign what they ask for."""
        from penstock.remoting.signed import signed_door  # noqa: PLC0415  only with the port

        ports = self._signed_ports(security)
        if name == LISTENER_NAME:
            return signed_door(context, ports)
        from penstock.grpc.signed import signed_calls_door  # noqa: PLC0415  only with the port

        return signed_calls_door(context, ports, self._clock)

    def _signed_ports(self, security: SecurityConfig) -> "SignedPorts":
        from penstock.remoting.signed import SignedPorts  # noqa: PLC0415  only with the port

        path = security.remoting_access_keys_file
        if self._access_keys is None:
            self._access_keys = Watched("access keys", (path,), lambda: access_keys(path))
            self._watched.append(self._access_keys)
        watched = self._access_keys
        return SignedPorts(
            keys=lambda: watched.value,
            scheduler=self._scheduler,
            failed_ms=security.connection_failed_authentication_delay_ms,
            failures=FailedLogins(self._scheduler),
        )

    def _context(self, name: str, security: SecurityConfig, application: str) -> TlsContext:
        files = tls_files(security)
        load = partial(tls_context, security, application)
        watched = Watched(f"TLS of listener {name}", files, load)
        self._watched.append(watched)
        return lambda: watched.value

    def _sasl(self, name: str, security: SecurityConfig) -> SaslPorts:
        path = security.sasl_plain_users_file
        passwords: Watched[dict[str, bytes]] | None = None
        if path:
            passwords = Watched(f"users of listener {name}", (path,), lambda: plain_digests(path))
            self._watched.append(passwords)
        return SaslPorts(
            users=sasl_users(
                security.sasl_enabled_mechanisms,
                lambda: {} if passwords is None else passwords.value,
                self._scram,
                self._randomness,
                bearer=self._bearer(name, security),
                tokens=self._logins.find,
            ),
            clock=self._clock,
            scheduler=self._scheduler,
            session_ms_max=security.connections_max_reauth_ms,
            failed_ms=security.connection_failed_authentication_delay_ms,
            failures=FailedLogins(self._scheduler),
        )

    def _bearer(self, name: str, security: SecurityConfig) -> CheckToken | None:
        """Return what checks the tokens of a listener; None where it takes none."""
        if OAUTHBEARER not in security.sasl_enabled_mechanisms:
            return None
        rules, path = security.token_rules(), security.sasl_oauthbearer_jwks_file
        if path:
            watched = Watched(f"keys of listener {name}", (path,), lambda: read_keys(path))
            self._watched.append(watched)
            return token_checker(rules, lambda: watched.value, self._clock.wall_ms)
        authority = security.sasl_oauthbearer_jwks_authority_file
        fetched = FetchedKeys(security.sasl_oauthbearer_jwks_url, authority)
        fetched.start()
        self._fetched.append(fetched)
        return fetched.checking(token_checker(rules, fetched.keys, self._clock.wall_ms))

    def _look(self) -> None:
        for watched in self._watched:
            watched.look()
        self._timer = self._scheduler.call_later(LOOK_MS, self._look)
