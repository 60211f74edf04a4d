"""Who a gRPC client is: the user whose access key has signed its calls.

    every call is signed          by the same user: handled; the connection's principal is User:NAME
    one is not, or wrongly        UNAUTHORIZED, the same text whatever was wrong; what comes after
                                  it is refused unseen, and the connection is ended a little later
    the secret is taken away      the connection ends within two seconds, with the streams on it

Each call is checked before a byte of its message is kept.

Source: RocketMQ's proxy `AuthenticationPipeline`, `ResponseBuilder` (the code). Departures: the
proxy leaves the connection open, and permits a user for each call; a client of RocketMQ has a
connection of its own.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Final

from penstock.access.call_signatures import AUTHORIZATION, DATE_TIME, Proof, claimed, proof_of
from penstock.net.errors import CloseKind
from penstock.net.tls.doors import Door, TlsContext

if TYPE_CHECKING:
    from penstock.grpc.transport import GrpcConnection
    from penstock.http2.hpack import Header
    from penstock.remoting.signed import SignedPorts

_SHOWN_CHARS: Final = 100

log = logging.getLogger(__name__)


def signed_calls_door(
    context: TlsContext | None, ports: SignedPorts, wall_ms: Callable[[], int]
) -> Door:
    """Return the door of a listener whose clients sign, over TLS where there is a context."""

    def admit(connection: GrpcConnection) -> None:
        connection.guard = SignedCalls(connection, ports, wall_ms)

    return Door(context, admit)


class SignedCalls:
    """See the module. It is its connection's `guard`."""

    __slots__ = ("_connection", "_is_shut", "_ports", "_proof", "_wall_ms")

    def __init__(
        self, connection: GrpcConnection, ports: SignedPorts, wall_ms: Callable[[], int]
    ) -> None:
        self._connection = connection
        self._ports = ports
        self._wall_ms = wall_ms
        self._proof: Proof | None = None
        """The last one."""
        self._is_shut = False

    def lets(self, headers: list[Header]) -> bool:
        """Whether a call is signed by the user of this connection, or by its first.

        If it is not, the connection is about to end.
        """
        if self._is_shut:
            return False
        told, date_time = _named(headers, AUTHORIZATION), _named(headers, DATE_TIME)
        proof = proof_of(told, date_time, self._ports.keys(), self._wall_ms())
        if proof is None:
            name = claimed(told)[0][:_SHOWN_CHARS]
            self._fail(f"a wrong signature, or an old one, for access key {name!r}")
            return False
        if self._proof is not None and self._proof.user != proof.user:
            self._fail(f"access key {proof.user!r} is of another user than before")
            return False
        self._proof = proof
        self._connection.principal = f"User:{proof.user}"
        return True

    def is_late(self) -> bool:
        """Whether the secret of the last call is nobody's any more."""
        return self._proof is not None and not self._proof.is_good(self._ports.keys())

    def _fail(self, reason: str) -> None:
        log.info("client=%s not authenticated: %s", self._connection.client_host, reason)
        self._is_shut = True
        end = partial(self._connection.end, CloseKind.AUTHENTICATION)
        self._ports.scheduler.call_later(self._ports.failed_ms, end)


def _named(headers: list[Header], wanted: bytes) -> bytes:
    """Return the first header of a name; empty without one."""
    return next((value for name, value in headers if name == wanted), b"")
