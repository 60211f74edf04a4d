"""Who makes a call of a gRPC client: the user whose access key has signed it.

    a call is signed              handled as one of User:NAME, whoever else calls on its connection
    it is not, or wrongly         UNAUTHORIZED, the same text whatever was wrong; a connection with
                                  too many of those takes no more, and is ended a little later
    a secret is taken away        connections with a call that it has signed are ended within two
                                  seconds, with the streams on them

Each call is checked before a byte of its message is kept. Clients of one process may share a
connection, by what gRPC is for Python and C++: so one user's failure does not end it.

Source: RocketMQ's proxy `AuthenticationPipeline` (a user for each call, the code). Departure: the
proxy takes failures without end.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from penstock.access.call_signatures import AUTHORIZATION, DATE_TIME, claimed, proof_of
from penstock.access.signatures import Proof
from penstock.grpc.errors import CallFault, Refused
from penstock.grpc.statuses import Code, GrpcStatus
from penstock.http2.allowance import Allowance
from penstock.net.errors import CloseKind
from penstock.net.tls.doors import Door, TlsContext

if TYPE_CHECKING:
    from penstock.base.ports import Clock
    from penstock.grpc.transport import GrpcConnection
    from penstock.http2.hpack import Header
    from penstock.remoting.signed import SignedPorts

NOT_SIGNED: Final = "not authenticated: a call is signed by an access key that is known here"
USERS_MAX: Final = 64
"""Of one connection; each has its quotas and its proof."""
FAILURES_AT_ONCE: Final = 8
FAILURES_PER_SECOND: Final = 1
"""A client with a wrong key makes a call every few seconds, and several as it starts."""
_SHOWN_CHARS: Final = 100


def signed_calls_door(context: TlsContext | None, ports: SignedPorts, clock: Clock) -> Door:
    """Return the door of a listener whose clients sign, over TLS where there is a context."""

    def admit(connection: GrpcConnection) -> None:
        connection.guard = SignedCalls(connection, ports, clock)

    return Door(context, admit)


class SignedCalls:
    """See the module. It is its connection's `guard`."""

    __slots__ = ("_clock", "_connection", "_failures", "_is_shut", "_ports", "_proofs")

    def __init__(self, connection: GrpcConnection, ports: SignedPorts, clock: Clock) -> None:
        self._connection = connection
        self._ports = ports
        self._clock = clock
        self._proofs: dict[str, Proof] = {}
        """The last one of each user."""
        now_ms = clock.monotonic_ms()
        self._failures = Allowance(FAILURES_AT_ONCE, FAILURES_PER_SECOND, now_ms)
        self._is_shut = False

    def user_of(self, headers: list[Header]) -> str:
        """Return the principal of a call with these headers. Raises Refused, CallFault."""
        if self._is_shut:
            raise CallFault(GrpcStatus.UNAVAILABLE, "this connection is about to end")
        told, date_time = _named(headers, AUTHORIZATION), _named(headers, DATE_TIME)
        proof = proof_of(told, date_time, self._ports.keys(), self._clock.wall_ms())
        if proof is None:
            self._fail(claimed(told)[0][:_SHOWN_CHARS])
            raise Refused(Code.UNAUTHORIZED, NOT_SIGNED)
        if proof.user not in self._proofs and len(self._proofs) >= USERS_MAX:
            raise Refused(Code.TOO_MANY_REQUESTS, f"a connection has {USERS_MAX} users at most")
        self._proofs[proof.user] = proof
        self._connection.principal = principal = f"User:{proof.user}"
        return principal

    def is_late(self) -> bool:
        """Whether a secret that has signed a call is its user's no more."""
        keys = self._ports.keys()
        return not all(proof.is_good(keys) for proof in self._proofs.values())

    def _fail(self, name: str) -> None:
        why = f"not authenticated: no good signature of {name!r}"
        self._ports.failures.note(self._connection.client_host, why)
        if self._failures.take(1, self._clock.monotonic_ms()):
            return
        self._is_shut = True
        end = partial(self._connection.end, CloseKind.AUTHENTICATION)
        self._ports.scheduler.call_later(self._ports.failed_ms, end)


def _named(headers: list[Header], wanted: bytes) -> bytes:
    """Return the first header of a name; empty without one."""
    return next((value for name, value in headers if name == wanted), b"")
