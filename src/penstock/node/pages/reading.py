"""Who may read the pages of the HTTP port, and its TLS, which a machine's page has as well.

    a plain port                          whoever reaches it reads everything
    TLS: /health, /ready                  whoever shakes hands
    TLS: others, from this machine        everybody, as on the loopback address without TLS
    TLS: others, from elsewhere           whose certificate has been checked; with rules (ACLs) it
                                          needs Describe on the cluster
    TLS, named in security.open_listeners everybody

Files are looked at when a client comes, once a second at most.
"""

import asyncio
import logging
import ssl
from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

from penstock.access.authoriser import AclAuthoriser
from penstock.access.config import AccessConfig, AuthoriserKind
from penstock.access.errors import AccessError
from penstock.access.mapping import Rule, parse_rules, short_name
from penstock.access.subject import subject_name
from penstock.base.endpoints import PAGES_LISTENER
from penstock.broker.access import (
    ANONYMOUS,
    CLUSTER_NAME,
    Authoriser,
    Operation,
    PermitsAll,
    Resource,
)
from penstock.net.tls.doors import TlsContext
from penstock.node.access.certificates import tls_context, tls_files
from penstock.node.access.exposure import is_of_this_machine
from penstock.node.access.files import Watched
from penstock.node.settings.security_config import SecurityConfig
from penstock.runtime.io.http_server import Reader, Refuse

LOOK_SECONDS = 1.0

log = logging.getLogger(__name__)


class Asker(NamedTuple):
    """Who is asked for by the authoriser."""

    principal: str
    host: str


class PagesAccess(NamedTuple):
    """What an HTTP server is given; both None where its port is plain."""

    context: TlsContext | None = None
    refuse: Refuse | None = None


def pages_access(security: SecurityConfig, authoriser: Callable[[], Authoriser]) -> PagesAccess:
    """Return the TLS of the pages, and who may read them. Raises ConfigError."""
    if not security.pages_have_tls:
        return PagesAccess()
    own = security.of_listener(PAGES_LISTENER)
    context = _followed(own)
    if PAGES_LISTENER in security.open_listeners:
        return PagesAccess(context)
    return PagesAccess(context, _Gate(parse_rules(own.ssl_principal_mapping_rules), authoriser))


def without_rules(config: AccessConfig) -> Authoriser:
    """Return what decides in a process that does not follow rules: it permits super users alone."""
    if config.authorizer is AuthoriserKind.OFF:
        return PermitsAll()
    return AclAuthoriser(replace(config, allow_everyone_if_no_acl_found=False))


def _followed(own: SecurityConfig) -> TlsContext:
    """Return what gives the context that the files make now."""
    watched = Watched("TLS of the pages", tls_files(own), lambda: tls_context(own))
    loop = asyncio.get_running_loop()
    looked_at = loop.time()

    def context() -> ssl.SSLContext:
        nonlocal looked_at
        if loop.time() - looked_at >= LOOK_SECONDS:
            looked_at = loop.time()
            watched.look()
        return watched.value

    return context


class _Gate:
    """A Refuse: see the module."""

    def __init__(self, rules: tuple[Rule, ...], authoriser: Callable[[], Authoriser]) -> None:
        self._rules = rules
        self._authoriser = authoriser

    def __call__(self, reader: Reader) -> str:
        """Return why the client may not read; an empty text if it may."""
        if is_near(reader):
            return ""
        principal = self._principal(reader.certificate)
        if principal == ANONYMOUS:
            return (
                "from other machines this page takes a certificate that the node trusts"
                f" ({PAGES_LISTENER}.ssl_client_auth=requested); /health and /ready are for all"
            )
        asker = Asker(principal, reader.host)
        may = self._authoriser().permits(asker, Operation.DESCRIBE, Resource.CLUSTER, CLUSTER_NAME)
        return "" if may else f"{principal} needs Describe on the cluster"

    def _principal(self, certificate: bytes) -> str:
        if not certificate:
            return ANONYMOUS
        try:
            name = subject_name(certificate)
            return f"User:{short_name(name, self._rules)}" if name else ANONYMOUS
        except AccessError as error:
            log.info("the pages are not for a client: %s", error)
            return ANONYMOUS


def is_near(reader: Reader) -> bool:
    """Whether a client is on this machine: it has our own address, or a loopback one."""
    return bool(reader.host) and (reader.host == reader.own_host or is_of_this_machine(reader.host))
