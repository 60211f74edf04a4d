"""Who a remoting client is: the user whose access key has signed its requests.

    every request is signed      by the same user: handled; the connection's principal is User:NAME
    one is not, or wrongly       NO_PERMISSION, the same text whatever was wrong, and the connection
                                 is closed a little later; what comes until then is dropped
    a secret is taken away       connections whose last request it has signed are closed within two
                                 seconds, with the pulls that wait on them

Each request is checked, not the first alone. A connection that asks for nothing more is closed too:
its pulls would be answered, and a producer is told messages as it is asked about transactions.

Source: RocketMQ `AuthenticationPipeline` (the code). Departures: RocketMQ leaves the connection
open, and permits a user for each request; clients of one process share a connection, and sign with
the key of the first of them.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

from penstock.access.signatures import SIGNATURE_FIELD, USER_FIELD, AccessKeys, Proof, signer_of
from penstock.base.ports import Scheduler
from penstock.net.errors import CloseKind
from penstock.net.tls.doors import Door, TlsContext
from penstock.net.tls.failed_logins import FailedLogins

if TYPE_CHECKING:
    from penstock.net.connection import Connection
    from penstock.remoting.wire.command import Command

SIGNED_BYTES_MAX: Final = (4 << 20) + (64 << 10)
"""Of a frame: RocketMQ's largest message and its header. Checking one holds the loop for 2 ms."""
NOT_SIGNED: Final = "not authenticated: a request is signed by an access key that is known here"


@dataclass(frozen=True, slots=True, kw_only=True)
class SignedPorts:
    """What the clients of the listener share."""

    keys: Callable[[], AccessKeys]
    """They may change at any time."""
    scheduler: Scheduler
    failed_ms: int
    """Time from the answer to a failure to the end of the connection."""
    failures: FailedLogins


def signed_door(context: TlsContext | None, ports: SignedPorts) -> Door:
    """Return the door of a listener whose clients sign, over TLS where there is a context."""

    def admit(connection: "Connection") -> None:
        connection.guard = SignedClient(connection, ports)

    return Door(context, admit)


class SignedClient:
    """See the module. It is its connection's `guard`."""

    __slots__ = ("_connection", "_is_shut", "_ports", "_proof")

    takes_tokens: Final = False
    frame_bytes_max: Final = SIGNED_BYTES_MAX
    """Before the first proof as well: a producer's first request to a broker may be a message."""

    def __init__(self, connection: "Connection", ports: SignedPorts) -> None:
        self._connection = connection
        self._ports = ports
        self._is_shut = False
        self._proof: Proof | None = None
        """The last one."""

    def lets(self, frame: memoryview) -> bool:
        """Whether a frame is to be handled: not once an earlier one has failed."""
        del frame
        return not self._is_shut

    def is_late(self) -> bool:
        """Whether the secret of the last proof is its user's no more."""
        return self._proof is not None and not self._proof.is_good(self._ports.keys())

    def knows(self, command: "Command") -> bool:
        """Whether a request is signed by the user of this connection, or by its first.

        If it is not, the connection is about to end.
        """
        proof = signer_of(command.fields, command.body, self._ports.keys())
        principal = "" if proof is None else f"User:{proof.user}"
        if proof is None or self._connection.principal not in {"", principal}:
            self._fail(command, is_known=proof is not None)
            return False
        self._proof = proof
        self._connection.principal = principal
        return True

    def _fail(self, command: "Command", *, is_known: bool) -> None:
        told = command.fields.get(USER_FIELD, "")[:100]
        if is_known:
            reason = f"access key {told!r} is of another user than before"
        elif SIGNATURE_FIELD in command.fields:
            reason = f"a wrong signature for access key {told!r}"
        else:
            reason = "a request without a signature"
        self._ports.failures.note(self._connection.client_host, f"not authenticated: {reason}")
        self._is_shut = True
        end = partial(self._connection.end, CloseKind.AUTHENTICATION)
        self._ports.scheduler.call_later(self._ports.failed_ms, end)
