"""The doors of a node's Kafka listeners, and the files behind them, which may change.

settings ─► context of TLS, users of PLAIN ─► doors        read before the first client comes
once a second: has a file changed? ─► read it again; a broken one is said, and left out
"""

from collections.abc import Mapping
from typing import Any

from penstock.access.mapping import parse_rules
from penstock.base.ports import Cancellable, Clock, Randomness, Scheduler
from penstock.controller.metadata.image import ClusterImage
from penstock.kafka.sasl.doors import certificate_door, sasl_door
from penstock.kafka.sasl.session import SaslPorts
from penstock.net.doors import Door, TlsContext
from penstock.node.access.certificates import tls_context, tls_files
from penstock.node.access.files import Watched
from penstock.node.access.users import ScramUsers, plain_digests, sasl_users
from penstock.node.settings.security_config import SecurityConfig, SecurityProtocol

LOOK_MS = 1_000


class NodeDoors:
    """See the module."""

    def __init__(
        self, image: ClusterImage, clock: Clock, scheduler: Scheduler, randomness: Randomness
    ) -> None:
        self._scram = ScramUsers(image, randomness)
        self._clock = clock
        self._scheduler = scheduler
        self._randomness = randomness
        self._watched: list[Watched[Any]] = []
        self._timer: Cancellable | None = None

    def open(self, security: SecurityConfig) -> Mapping[str, Door]:
        """Return the doors by the names of listeners. Raises ConfigError."""
        doors: dict[str, Door] = {}
        for name, protocol in security.protocols().items():
            if protocol is not SecurityProtocol.PLAINTEXT:
                doors[name] = self._door(name, protocol, security.of_listener(name))
        if self._watched:
            self._timer = self._scheduler.call_later(LOOK_MS, self._look)
        return doors

    def stop(self) -> None:
        """Look at files no more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _door(self, name: str, protocol: SecurityProtocol, security: SecurityConfig) -> Door:
        context = self._context(name, security) if protocol.has_tls else None
        if protocol.has_sasl:
            return sasl_door(context, self._sasl(name, security))
        assert context is not None, "a listener without TLS and SASL has no door"
        return certificate_door(context, parse_rules(security.ssl_principal_mapping_rules))

    def _context(self, name: str, security: SecurityConfig) -> TlsContext:
        files = tls_files(security)
        watched = Watched(f"TLS of listener {name}", files, lambda: tls_context(security))
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
            ),
            clock=self._clock,
            scheduler=self._scheduler,
            session_ms_max=security.connections_max_reauth_ms,
            failed_ms=security.connection_failed_authentication_delay_ms,
        )

    def _look(self) -> None:
        for watched in self._watched:
            watched.look()
        self._timer = self._scheduler.call_later(LOOK_MS, self._look)
