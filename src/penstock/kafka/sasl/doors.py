"""The doors of Kafka listeners: who a client is, by its certificate or by SASL.

    PLAINTEXT          no door: everybody is ANONYMOUS
    SSL                the subject of the client's certificate, where it has sent one
    SASL_PLAINTEXT     what SASL proves
    SASL_SSL           what SASL proves; a certificate may be asked for as well, but names nobody

Source: Kafka `DefaultKafkaPrincipalBuilder`, KIP-103 (listeners), KIP-371 (short names).
"""

from functools import partial

from penstock.access.errors import AccessError, NoPrincipal
from penstock.access.mapping import Rule, short_name
from penstock.access.subject import subject_name
from penstock.kafka.sasl.session import SaslPorts, SaslSession
from penstock.net.connection import Connection
from penstock.net.errors import CloseKind
from penstock.net.tls.doors import Door, TlsContext
from penstock.net.tls.failed_logins import FailedLogins


def certificate_door(context: TlsContext, rules: tuple[Rule, ...], failures: FailedLogins) -> Door:
    """Return the door of a listener with TLS and no SASL."""
    return Door(context, partial(_by_certificate, rules, failures))


def sasl_door(context: TlsContext | None, ports: SaslPorts) -> Door:
    """Return the door of a listener with SASL, over TLS where there is a context."""

    def admit(connection: Connection) -> None:
        connection.guard = SaslSession(connection, ports)

    return Door(context, admit)


def _by_certificate(
    rules: tuple[Rule, ...], failures: FailedLogins, connection: Connection
) -> None:
    if not connection.certificate:
        return
    try:
        name = subject_name(connection.certificate)
        if not name:
            raise NoPrincipal("a certificate without a subject")
        connection.principal = f"User:{short_name(name, rules)}"
    except AccessError as error:
        failures.note(connection.client_host, f"closed: {error}")
        connection.end(CloseKind.AUTHENTICATION)
